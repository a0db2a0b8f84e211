"""How far predictions are off on machines, models and settings that were held out of the fit."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from benchmarks.measured.points import MeasuredPoint
from moeopt.core.errors import InputError
from moeopt.sim.machines.runtimes.calibration import machine_costs, model_costs
from moeopt.sim.machines.runtimes.fitting import fit_costs, group_weights
from moeopt.sim.machines.runtimes.profile import Certainty, RuntimeProfile, Within, as_costs
from moeopt.sim.machines.runtimes.setting import amounts
from moeopt.sim.machines.runtimes.terms import prior

Vector = NDArray[np.float64]

NOISE = 0.12
"""Relative error between machines that the terms are not to explain."""

RUNTIME_SPREAD = 0.25
"""How much a runtime's costs differ from those of all runtimes together: sd of the logarithm."""

RUNTIMES = ("llama.cpp", "ik_llama.cpp", "ktransformers")


@dataclass(frozen=True)
class Held:
    """A prediction of a point that was held out.

    Attributes
    ----------
    tokens_per_s
        Predicted.
    """

    point: MeasuredPoint
    tokens_per_s: float

    @property
    def log_error(self) -> float:
        """Logarithm of predicted over measured."""
        return float(np.log(self.tokens_per_s / self.point.tokens_per_s))

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.tokens_per_s / self.point.tokens_per_s - 1.0


def expressible(points: Iterable[MeasuredPoint]) -> list[MeasuredPoint]:
    """Return the points that can be predicted from what was published of them."""
    return [point for point in points if point.setting is not None and not point.why_not]


def fit_runtimes(points: Sequence[MeasuredPoint], loose: float = 1.0) -> dict[str, Vector]:
    """Return the costs of every runtime: first of all points together, then each runtime's own.

    Parameters
    ----------
    loose
        The spreads of what is expected before any measurement are multiplied by this.
    """
    expected, spread = prior()
    together = _fit(points, expected, loose * spread)
    narrow = np.full_like(spread, RUNTIME_SPREAD)
    return {
        name: _fit([p for p in points if p.runtime == name], np.log(together), narrow)
        for name in RUNTIMES
    }


def _fit(points: Sequence[MeasuredPoint], expected_log: Vector, spread: Vector) -> Vector:
    if not points:
        return np.asarray(np.exp(expected_log))
    rows = np.array([_amounts(point) for point in points])
    times = np.array([1e6 / point.tokens_per_s for point in points])
    weights = group_weights([point.group for point in points])
    return fit_costs(rows, times, expected_log, spread, NOISE, weights)


def _amounts(point: MeasuredPoint) -> Vector:
    if point.setting is None:
        raise InputError(f"{point.machine} {point.knob} {point.value}: cannot be expressed")
    return amounts(point.setting)


def leave_out(
    points: Sequence[MeasuredPoint],
    what: Callable[[MeasuredPoint], str],
    loose: float = 1.0,
    fitted_on: Sequence[MeasuredPoint] | None = None,
) -> list[Held]:
    """Predict every point by a fit to those that differ in `what`: machine, say, or model.

    The fit is to `fitted_on`; by default to the points themselves.
    """
    found = []
    for name in dict.fromkeys(map(what, points)):
        others = [p for p in (points if fitted_on is None else fitted_on) if what(p) != name]
        costs = fit_runtimes(others, loose)
        found += [predicted(p, costs[p.runtime]) for p in points if what(p) == name]
    return found


def curves(points: Iterable[MeasuredPoint]) -> list[list[MeasuredPoint]]:
    """Return the points of each machine, model, width and runtime that has at least three.

    They rise by the share of experts that the CPU computes.
    """
    found: dict[object, list[MeasuredPoint]] = {}
    for point in points:
        if point.setting is not None:
            found.setdefault(point.curve, []).append(point)
    return [
        sorted(curve, key=lambda p: sum(p.setting.host_calls) if p.setting else 0.0)
        for curve in found.values()
        if len(curve) >= 3
    ]


@dataclass(frozen=True)
class Calibrations:
    """Predictions after a calibration on the two ends of a curve.

    Attributes
    ----------
    between
        Of the points between the ends.
    straight
        The same by the straight line through the ends, in the share of experts on the CPU.
    other_models
        Of the curves of other models on the same machine and runtime.
    """

    between: list[Held]
    straight: list[Held]
    other_models: list[Held]


def calibrations(
    points: Sequence[MeasuredPoint], fitted_on: Sequence[MeasuredPoint]
) -> Calibrations:
    """Calibrate on the two ends of every curve; the profile was fitted without its machine."""
    found = curves(points)
    without = {
        group: fit_runtimes([p for p in fitted_on if p.group != group])
        for group in {curve[0].group for curve in found}
    }
    own = {
        curve[0].curve: calibrated(without[curve[0].group][curve[0].runtime], curve)
        for curve in found
    }
    between = [predicted(p, own[p.curve][1]) for curve in found for p in curve[1:-1]]
    straight = [held for curve in found for held in _straight(curve)]
    others = [
        predicted(p, own[one[0].curve][0])
        for one, other in permutations(found, 2)
        if (one[0].machine, one[0].runtime) == (other[0].machine, other[0].runtime)
        and one[0].model != other[0].model
        for p in other
    ]
    return Calibrations(between, straight, others)


def predicted(point: MeasuredPoint, costs: Vector) -> Held:
    """Predict a point by the costs of the terms."""
    return Held(point, 1e6 / float(_amounts(point) @ costs))


def calibrated(costs: Vector, curve: Sequence[MeasuredPoint]) -> tuple[Vector, Vector]:
    """Calibrate on the two ends of a curve.

    Returns
    -------
    (terms,) arrays
        The costs for any model on the machine, and for the curve's own.
    """
    ends = [curve[0], curve[-1]]
    rows = np.array([_amounts(point) for point in ends])
    times = np.array([1e6 / point.tokens_per_s for point in ends])
    machine = machine_costs(costs, rows, times)
    return machine, model_costs(machine, rows, times)


def _straight(curve: Sequence[MeasuredPoint]) -> list[Held]:
    shares = [sum(p.setting.host_calls) if p.setting else 0.0 for p in curve]
    times = [1.0 / p.tokens_per_s for p in curve]
    ends = [shares[0], shares[-1]], [times[0], times[-1]]
    between = np.interp(shares[1:-1], *ends)
    return [Held(p, float(1.0 / t)) for p, t in zip(curve[1:-1], between, strict=True)]


Group = Callable[[MeasuredPoint], object]


def by_machine(point: MeasuredPoint) -> object:
    """Return what points of one machine share."""
    return point.group


def by_curve(point: MeasuredPoint) -> object:
    """Return what points of one machine, model, width and runtime share."""
    return point.curve


def factor_holding(held: Sequence[Held], group: Group = by_machine, share: float = 0.8) -> float:
    """Return the factor around a prediction that holds a share of the points.

    A group of n points weighs as much as the root of n, so that none decides alone.
    """
    errors = np.array([abs(one.log_error) for one in held])
    weights = group_weights([str(group(one.point)) for one in held])
    order = np.argsort(errors)
    passed = np.cumsum(weights[order]) >= share * weights.sum() - 1e-12
    return float(np.exp(errors[order][int(np.argmax(passed))]))


def coverage(held: Sequence[Held], group: Group = by_machine) -> float | None:
    """Return the share of points in their interval, each interval from other groups' errors.

    None if there is only one group.
    """
    limits: dict[object, float] = {}
    for key in {group(one.point) for one in held}:
        others = [one for one in held if group(one.point) != key]
        if not others:
            return None
        limits[key] = float(np.log(factor_holding(others, group)))
    inside = [abs(one.log_error) <= limits[group(one.point)] for one in held]
    return sum(inside) / len(inside)


Row = tuple[str, list[Held], Group]


@dataclass(frozen=True)
class CrossValidated:
    """Predictions of points that were held out, by what was held out.

    Attributes
    ----------
    machines, models
        All points of a machine, or of a model, at a time.
    loose
        Machines again, with twice the spread of what is expected before any measurement.
    llama
        Calibrations on the curves of llama.cpp and ik_llama.cpp.
    all_runtimes
        Calibrations on all curves.
    """

    machines: list[Held]
    models: list[Held]
    loose: list[Held]
    llama: Calibrations
    all_runtimes: Calibrations

    def rows(self) -> list[Row]:
        """Return what a table of it says: what was held out, predictions, and their groups."""
        llama, every = self.llama, self.all_runtimes
        return [
            ("machine", self.machines, by_machine),
            ("machine, spread of the expected costs doubled", self.loose, by_machine),
            ("model", self.models, by_machine),
            ("between two calibrated points, llama.cpp", llama.between, by_curve),
            ("the same by a straight line, llama.cpp", llama.straight, by_curve),
            ("between two calibrated points, with ktransformers", every.between, by_curve),
            ("the same by a straight line, with ktransformers", every.straight, by_curve),
            ("calibrated on another model of the machine", llama.other_models, by_curve),
        ]


def cross_validated(
    points: Sequence[MeasuredPoint], fitted_on: Sequence[MeasuredPoint] | None = None
) -> CrossValidated:
    """Hold out machines, models and parts of curves in turn.

    Parameters
    ----------
    points
        What is predicted.
    fitted_on
        What profiles are fitted on, always without what is held out; by default the points.
    """
    used = expressible(points)
    fitted_on = used if fitted_on is None else expressible(fitted_on)
    stated = [point for point in points if point.setting is not None]
    return CrossValidated(
        machines=leave_out(used, lambda p: p.group, fitted_on=fitted_on),
        models=leave_out(used, lambda p: p.model, fitted_on=fitted_on),
        loose=leave_out(used, lambda p: p.group, 2.0, fitted_on),
        llama=calibrations([p for p in stated if p.runtime != "ktransformers"], fitted_on),
        all_runtimes=calibrations(stated, fitted_on),
    )


def fitted_profiles(
    points: Sequence[MeasuredPoint], found: CrossValidated | None = None
) -> list[RuntimeProfile]:
    """Return the profiles that the points give; intervals are of what `cross_validated` found."""
    used = expressible(points)
    found = cross_validated(points) if found is None else found
    kinds: list[tuple[Certainty, list[Held], Group]] = [
        ("not calibrated", found.machines, by_machine),
        ("calibrated on this model", found.all_runtimes.between, by_curve),
        ("calibrated on another model", found.llama.other_models, by_curve),
    ]
    intervals = tuple(
        Within(
            certainty=certainty,
            factor=round(factor_holding(held, group), 4),
            median_error=round(float(np.median([abs(one.error) for one in held])), 4),
            points=len(held),
        )
        for certainty, held, group in kinds
    )
    costs = fit_runtimes(used)
    return [
        RuntimeProfile(
            name=name,
            costs=as_costs(costs[name]),
            numa_aware=name == "ktransformers",
            intervals=intervals,
            source=_source(name, used),
        )
        for name in RUNTIMES
    ]


def _source(runtime: str, used: Sequence[MeasuredPoint]) -> str:
    own = [point for point in used if point.runtime == runtime]
    machines = len({point.group for point in own})
    places = sorted({point.source.split("@")[0].removeprefix("github ") for point in own})
    return (
        f"{len(own)} public points on {machines} machines, and {len(used) - len(own)} of other"
        f" runtimes (benchmarks/studies/measured.py): {'; '.join(places)}"
    )
