"""How far predictions are off on machines, models and settings that were held out of the fit."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from benchmarks.measured.points import MeasuredPoint
from benchmarks.measured.together import fit_together
from moeopt.core.errors import InputError
from moeopt.sim.machines.runtimes.calibration import machine_costs, model_costs
from moeopt.sim.machines.runtimes.profile import Certainty, Kind, RuntimeProfile, Within, as_costs
from moeopt.sim.machines.runtimes.setting import amounts
from moeopt.sim.machines.runtimes.terms import prior, token_us

Vector = NDArray[np.float64]

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


def fit_runtimes(
    points: Sequence[MeasuredPoint], loose: float = 1.0, start: Vector | None = None
) -> dict[str, Vector]:
    """Return the costs of every runtime, fitted together; points of guessed hosts are left out.

    Parameters
    ----------
    loose
        The spreads of what is expected before any measurement are multiplied by this.
    """
    expected, spread = prior()
    used = [point for point in points if not point.assumed]
    rows, times = _needs(used)
    labels = [(point.runtime, point.group) for point in used]
    found = fit_together(rows, times, labels, (expected, loose * spread), start)
    common = np.exp(found.common_log)
    return {name: found.costs.get(name, common) for name in RUNTIMES}


def _amounts(point: MeasuredPoint) -> Vector:
    if point.setting is None:
        raise InputError(f"{point.machine} {point.knob} {point.value}: cannot be expressed")
    return amounts(point.setting)


class Fits:
    """Fits without a machine or a model, each made once."""

    def __init__(self, points: Sequence[MeasuredPoint]) -> None:
        self.points = points
        self.whole = fit_runtimes(points)
        self._start = np.log(self.whole["llama.cpp"])
        self._made: dict[tuple[str, str], dict[str, Vector]] = {}

    def without(self, what: Callable[[MeasuredPoint], str], name: str) -> dict[str, Vector]:
        """Return the costs by runtime, fitted to the points whose `what` is another."""
        key = (what.__name__, name)
        if key not in self._made:
            others = [p for p in self.points if what(p) != name]
            self._made[key] = fit_runtimes(others, start=self._start)
        return self._made[key]

    def held_out(self, what: Callable[[MeasuredPoint], str]) -> list[Held]:
        """Predict every point by a fit to those whose `what` is another."""
        return [predicted(p, self.without(what, what(p))[p.runtime]) for p in self.points]


def machine_of(point: MeasuredPoint) -> str:
    """Return the machine of a point: two configurations of one are one."""
    return point.group


def model_of(point: MeasuredPoint) -> str:
    """Return the model of a point."""
    return point.model


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
    not_calibrated, by_all_others, by_all
        The same curves by the profile, by a calibration on every point of all other models of the
        machine, and by one on all its points, theirs included: what one cost for all models leaves.
    """

    between: list[Held]
    straight: list[Held]
    other_models: list[Held]
    not_calibrated: list[Held]
    by_all_others: list[Held]
    by_all: list[Held]


def calibrations(points: Sequence[MeasuredPoint], fits: Fits) -> Calibrations:
    """Calibrate on the two ends of every curve; the profile was fitted without its machine."""
    found = curves(points)
    without = {
        group: fits.without(machine_of, group) for group in {curve[0].group for curve in found}
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
    several = [
        [other for other in found if _place(other) == place]
        for place in dict.fromkeys(_place(curve) for curve in found)
    ]
    several = [own for own in several if len({curve[0].model for curve in own}) > 1]
    profile = {_place(own[0]): without[own[0][0].group][own[0][0].runtime] for own in several}
    plain, by_others, by_all = [], [], []
    for machine in several:
        costs = profile[_place(machine[0])]
        for curve in machine:
            alike = [p for other in machine for p in other if p.model != curve[0].model]
            everything = [p for other in machine for p in other]
            plain += [predicted(p, costs) for p in curve]
            by_others += [predicted(p, _of_machine(costs, alike)) for p in curve]
            by_all += [predicted(p, _of_machine(costs, everything)) for p in curve]
    return Calibrations(between, straight, others, plain, by_others, by_all)


def _place(curve: Sequence[MeasuredPoint]) -> tuple[str, str]:
    return curve[0].machine, curve[0].runtime


def host_rates(points: Iterable[MeasuredPoint]) -> dict[str, tuple[list[float], float]]:
    """Return what machines with curves of several models read of experts, in GB/s, and the peak.

    By the two ends of each curve of llama.cpp and ik_llama.cpp: bytes of the experts that move to
    the CPU over the time that they add, whatever that time is spent on.
    """
    found: dict[str, dict[tuple[str, ...], float]] = {}
    peaks = dict[str, float]()
    for curve in curves(points):
        settings = [point.setting for point in (curve[0], curve[-1]) if point.setting is not None]
        calls = sum(settings[1].host_calls) - sum(settings[0].host_calls)
        seconds = 1.0 / curve[-1].tokens_per_s - 1.0 / curve[0].tokens_per_s
        model = settings[0].model
        rate = calls * model.top_k * model.expert_bytes / seconds / 1e9
        found.setdefault(curve[0].machine, {})[curve[0].curve] = rate
        peaks[curve[0].machine] = settings[0].machine.dram.striped_gb_s
    models = {name: {curve[1] for curve in own} for name, own in found.items()}
    return {
        name: (sorted(own.values()), peaks[name])
        for name, own in found.items()
        if len(models[name]) > 1
    }


def repeats(points: Iterable[MeasuredPoint]) -> list[float]:
    """Return how far apart speeds are that were measured in one setting on one machine.

    Of every two: faster over slower, less 1. Settings are equal if nothing that was published of
    them differs: machine, model, widths, context, experts on the CPU, runtime.
    """
    return [
        max(one.tokens_per_s, other.tokens_per_s) / min(one.tokens_per_s, other.tokens_per_s) - 1.0
        for one, other in combinations(points, 2)
        if one.curve == other.curve and one.setting is not None and one.setting == other.setting
    ]


def predicted(point: MeasuredPoint, costs: Vector) -> Held:
    """Predict a point by the costs of the terms."""
    return Held(point, 1e6 / float(token_us(_amounts(point), costs)))


def calibrated(costs: Vector, curve: Sequence[MeasuredPoint]) -> tuple[Vector, Vector]:
    """Calibrate on the two ends of a curve.

    Returns
    -------
    (terms,) arrays
        The costs for any model on the machine, and for the curve's own.
    """
    ends = [curve[0], curve[-1]]
    machine = _of_machine(costs, ends)
    return machine, model_costs(machine, *_needs(ends))


def _of_machine(costs: Vector, points: Sequence[MeasuredPoint]) -> Vector:
    return machine_costs(costs, *_needs(points))


def _needs(points: Sequence[MeasuredPoint]) -> tuple[NDArray[np.float64], Vector]:
    rows = np.array([_amounts(point) for point in points])
    return rows, np.array([1e6 / point.tokens_per_s for point in points])


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
    weights = _weights([str(group(one.point)) for one in held])
    order = np.argsort(errors)
    passed = np.cumsum(weights[order]) >= share * weights.sum() - 1e-12
    return float(np.exp(errors[order][int(np.argmax(passed))]))


def _weights(groups: Sequence[str]) -> Vector:
    counts = Counter(groups)
    return np.array([counts[name] ** -0.5 for name in groups])


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


def coverage_by_kind(held: Sequence[Held]) -> float:
    """Return the share of points in the interval of their kind, made of other machines' errors."""
    inside = 0
    for kind in {kind_of(one) for one in held}:
        own = [one for one in held if kind_of(one) == kind]
        inside += round((coverage(own) or 0.0) * len(own))
    return inside / len(held)


@dataclass(frozen=True)
class CrossValidated:
    """Predictions of points that were held out, by what was held out.

    Attributes
    ----------
    machines, models
        All points of a machine, or of a model, at a time.
    llama
        Calibrations on the curves of llama.cpp and ik_llama.cpp.
    costs
        Runtime -> costs fitted to all points.
    """

    machines: list[Held]
    models: list[Held]
    llama: Calibrations
    costs: dict[str, Vector]


def cross_validated(points: Sequence[MeasuredPoint]) -> CrossValidated:
    """Hold out machines, models and parts of curves in turn."""
    used = expressible(points)
    fits = Fits(used)
    stated = [p for p in points if p.runtime != "ktransformers" and (p in used or _other_host(p))]
    return CrossValidated(
        fits.held_out(machine_of),
        fits.held_out(model_of),
        calibrations(stated, fits),
        fits.whole,
    )


def _other_host(point: MeasuredPoint) -> bool:
    """Return whether nothing but the host's memory is unknown, which a calibration finds."""
    return point.setting is not None and point.why_not == "host memory not stated"


LEAST_MACHINES = 4
"""Fewer of a kind have no interval of their own."""


def intervals(found: CrossValidated) -> tuple[Within, ...]:
    """Return what to expect, by how much is known of the machine and by what computes."""
    machines = [one for one in found.machines if not one.point.assumed]
    made = [
        _within("not calibrated", "any", machines, by_machine),
        _within("calibrated on this model", "any", found.llama.between, by_curve),
        _within("calibrated on another model", "any", found.llama.other_models, by_curve),
    ]
    kinds = get_args(Kind)[1:]
    for kind in kinds:
        own = [one for one in machines if kind_of(one) == kind]
        if len({one.point.group for one in own}) >= LEAST_MACHINES:
            made.append(_within("not calibrated", kind, own, by_machine))
    return tuple(made)


def kind_of(held: Held) -> Kind:
    """Return what computes in a point's setting."""
    return "any" if held.point.setting is None else held.point.setting.kind


def _within(certainty: Certainty, kind: Kind, held: list[Held], group: Group) -> Within:
    return Within(
        certainty=certainty,
        kind=kind,
        factor=round(factor_holding(held, group), 3),
        median_error=round(float(np.median([abs(one.error) for one in held])), 3),
        points=len(held),
    )


def fitted_profiles(points: Sequence[MeasuredPoint], found: CrossValidated) -> list[RuntimeProfile]:
    """Return the profiles that the points give; intervals are of what `cross_validated` found."""
    used = [point for point in expressible(points) if not point.assumed]
    return [
        RuntimeProfile(
            name=name,
            costs=as_costs(found.costs[name]),
            numa_aware=name == "ktransformers",
            intervals=intervals(found),
            source=_source(name, used),
        )
        for name in RUNTIMES
    ]


def _source(runtime: str, used: Sequence[MeasuredPoint]) -> str:
    own = [point for point in used if point.runtime == runtime]
    machines = len({point.group for point in own})
    return (
        f"{len(own)} public points on {machines} machines, and {len(used) - len(own)} of other"
        f" runtimes (docs/measured.md)"
    )
