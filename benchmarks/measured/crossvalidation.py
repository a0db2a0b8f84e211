"""How far predictions are off on machines, models and settings that were held out of the fit."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, permutations
from typing import Self, get_args

import numpy as np
from numpy.typing import NDArray

from benchmarks.measured.effects import Effects, Held, needs, predicted
from benchmarks.measured.fit import RUNTIMES, Fitted, fit
from benchmarks.measured.nested import Nested, data_of, kind_of_point, nested, predicted_by
from benchmarks.measured.points import MeasuredPoint
from benchmarks.rooms.sim import (
    Certainty,
    Kind,
    PromptCosts,
    RuntimeProfile,
    Uncertainty,
    Within,
    as_costs,
    machine_costs,
    model_costs,
    vendor_of,
)
from moeopt import InputError

Vector = NDArray[np.float64]


def expressible(points: Iterable[MeasuredPoint]) -> list[MeasuredPoint]:
    """Return the points that can be predicted from what was published of them."""
    return [point for point in points if point.setting is not None and not point.why_not]


class Fits:
    """Fits of the chosen form without a machine or a model, each made once.

    Nothing is fitted to points of guessed hosts.
    """

    def __init__(self, points: Sequence[MeasuredPoint]) -> None:
        self.points = points
        self.stated = [point for point in points if not point.assumed]
        self.nested = nested(self.stated)
        self.whole = by_runtime(self.nested.fitted)
        self._made: dict[tuple[str, str], dict[str, Vector]] = {}

    def without(self, what: Callable[[MeasuredPoint], str], name: str) -> dict[str, Vector]:
        """Return the costs by runtime, fitted to the points whose `what` is another."""
        key = (what.__name__, name)
        if key not in self._made:
            kept = np.array([what(point) != name for point in self.stated])
            start, data = self.nested.fitted.unknowns, data_of(self.stated)
            self._made[key] = by_runtime(fit(data.of(kept), self.nested.form, start))
        return self._made[key]

    def held_out(self, what: Callable[[MeasuredPoint], str]) -> list[Held]:
        """Predict every point by a fit to those whose `what` is another."""
        return [predicted(p, self.without(what, what(p))[p.runtime]) for p in self.stated]

    @cached_property
    def guessed(self) -> list[Held]:
        """The points of guessed hosts, which nothing is fitted to."""
        points = [point for point in self.points if point.assumed]
        if not points:
            return []
        data, chosen = data_of(points), self.nested
        us, sd = predicted_by(chosen.form, chosen.fitted, data)
        scale = [chosen.scale[kind_of_point(point)] for point in points]
        factors = np.exp(np.array(scale) * sd)
        return [Held(p, 1e6 / t, f) for p, t, f in zip(points, us, factors.tolist(), strict=True)]

    def factor(self, group: str) -> float:
        """Return within what 80 % of the points of machines but one are predicted."""
        others = self.nested.outer
        return factor_holding([one for one in others if one.point.group != group])


def by_runtime(found: Fitted) -> dict[str, Vector]:
    """Return the costs of a fit by the runtime's name."""
    return dict(zip(RUNTIMES, np.exp(found.logs), strict=True))


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
        sorted(curve, key=lambda p: sum(p.host_calls))
        for curve in found.values()
        if len(curve) >= 3
    ]


@dataclass(frozen=True)
class Calibrations:
    """Predictions after a calibration, by a profile that was fitted without the machine.

    Attributes
    ----------
    between
        Calibrated on the two ends of a curve: the points between them.
    straight
        The same by the straight line through the ends, in the share of experts on the CPU.
    other_curves
        The same: the curves of other models on the same machine and runtime.
    possible_curves
        Of them those of no curve above the memory's peak (`HostRate`).
    several
        Of each machine with points of several models.
    """

    between: list[Held]
    straight: list[Held]
    other_curves: list[Held]
    possible_curves: list[Held]
    several: list["SeveralModels"]

    @property
    def by_another(self) -> list[Held]:
        """Return the predictions of all machines after a calibration on another model."""
        return [one for machine in self.several for one in machine.by_another]


@dataclass
class SeveralModels:
    """Points of a machine with several models, predicted from what other models have there.

    Attributes
    ----------
    effects
        How large those of machines and models are elsewhere.
    by_another
        Calibrated on all points of one other model, two at least, in turn.
    not_calibrated, by_effects, by_all
        Those points, each once: by the profile, by two effects of the machine from all its other
        models, and calibrated on all points of the machine, the point included.
    expected, left
        Of `by_another`, and of a machine known exactly: half of the errors should be below.
    """

    effects: Effects
    by_another: list[Held] = field(default_factory=list)
    not_calibrated: list[Held] = field(default_factory=list)
    by_effects: list[Held] = field(default_factory=list)
    by_all: list[Held] = field(default_factory=list)
    expected: list[float] = field(default_factory=list)
    left: list[float] = field(default_factory=list)


def calibrations(points: Sequence[MeasuredPoint], fits: Fits) -> Calibrations:
    """Calibrate on parts of what was measured on a machine, and predict the rest."""
    found = curves(points)

    def profile(point: MeasuredPoint) -> Vector:
        return fits.without(machine_of, point.group)[point.runtime]

    own = {
        curve[0].curve: calibrated(profile(curve[0]), curve, fits.factor(curve[0].group))
        for curve in found
    }
    possible = {curve[0].curve for curve in found if not HostRate.of(curve).above_peak}
    between = [predicted(p, own[p.curve][1]) for curve in found for p in curve[1:-1]]
    straight = [held for curve in found for held in _straight(curve)]
    pairs = [
        (one, other)
        for one, other in permutations(found, 2)
        if _place(one[0]) == _place(other[0]) and one[0].model != other[0].model
    ]
    by_pair = {
        (one[0].curve, other[0].curve): [predicted(p, own[one[0].curve][0]) for p in other]
        for one, other in pairs
    }
    several = [_on_machine(own, profile(own[0]), fits) for own in several_models(points)]
    several = [own for own in several if own.by_another]
    return Calibrations(
        between=between,
        straight=straight,
        other_curves=[one for made in by_pair.values() for one in made],
        possible_curves=[
            one for pair, made in by_pair.items() if possible.issuperset(pair) for one in made
        ],
        several=several,
    )


def _on_machine(machine: Sequence[MeasuredPoint], costs: Vector, fits: Fits) -> "SeveralModels":
    group = machine[0].group
    rest = [p for p in fits.stated if p.group != group]
    effects = Effects.of(rest, fits.without(machine_of, group))
    everything = _of_machine(costs, machine, ALWAYS)
    found = SeveralModels(effects)
    for name in dict.fromkeys(point.model for point in machine):
        mine = [point for point in machine if point.model == name]
        others = [point for point in machine if point.model != name]
        names = dict.fromkeys(p.model for p in others)
        by_model = [[p for p in others if p.model == other] for other in names]
        sweeps = [own for own in by_model if len(own) > 1]
        if not sweeps:
            continue
        found.not_calibrated += [predicted(p, costs) for p in mine]
        found.by_effects += effects.predicted(mine, others, costs)
        found.by_all += [predicted(p, everything) for p in mine]
        found.left += effects.expected_errors(mine, [], costs)
        for sweep in sweeps:
            calibrated_on = _of_machine(costs, sweep, fits.factor(group))
            found.by_another += [predicted(p, calibrated_on) for p in mine]
            found.expected += effects.expected_errors(mine, sweep, costs)
    return found


def _place(point: MeasuredPoint) -> tuple[str, str]:
    return point.machine, point.runtime


def several_models(points: Iterable[MeasuredPoint]) -> list[list[MeasuredPoint]]:
    """Return the points of each machine and runtime with stated memory that has several models."""
    found: dict[tuple[str, str], list[MeasuredPoint]] = {}
    for point in points:
        if not point.assumed and not point.why_not:
            found.setdefault(_place(point), []).append(point)
    return [own for own in found.values() if len({point.model for point in own}) > 1]


@dataclass(frozen=True)
class HostRate:
    """What a curve says that the host reads of experts, in GB/s, and the peak of its memory.

    By the two ends: bytes of the experts that move to the CPU over the time that they add, whatever
    that time is spent on.
    """

    gb_s: float
    peak_gb_s: float

    @property
    def above_peak(self) -> bool:
        """Whether no memory of that kind can do it: what is published is not all that ran."""
        return self.gb_s > self.peak_gb_s

    @classmethod
    def of(cls, curve: Sequence[MeasuredPoint]) -> Self:
        """Return the rate of a curve."""
        first, last = curve[0].setting, curve[-1].setting
        if first is None or last is None:
            raise InputError(f"{curve[0].machine} {curve[0].knob}: cannot be expressed")
        calls = sum(curve[-1].host_calls) - sum(curve[0].host_calls)
        seconds = 1.0 / curve[-1].tokens_per_s - 1.0 / curve[0].tokens_per_s
        rate = calls * first.model.top_k * first.model.expert_bytes / seconds / 1e9
        return cls(rate, sum(device.memory.gb_s for device in first.machine.offload))


def host_rates(points: Iterable[MeasuredPoint]) -> dict[str, list[HostRate]]:
    """Return the rates of machines with curves of several models, rising."""
    found: dict[str, list[list[MeasuredPoint]]] = {}
    for curve in curves(points):
        found.setdefault(curve[0].machine, []).append(curve)
    return {
        name: sorted((HostRate.of(curve) for curve in own), key=lambda rate: rate.gb_s)
        for name, own in found.items()
        if len({curve[0].model for curve in own}) > 1
    }


def repeats(points: Iterable[MeasuredPoint]) -> list[float]:
    """Return how far apart speeds are that were measured in one setting on one machine.

    Of every two: faster over slower, less 1. Settings are equal if nothing that was published of
    them differs: machine, model, widths, context, experts on the CPU, runtime.
    """
    return [
        max(one.tokens_per_s, other.tokens_per_s) / min(one.tokens_per_s, other.tokens_per_s) - 1.0
        for one, other in combinations(points, 2)
        if one.setting is not None and one.started == other.started
    ]


def calibrated(
    costs: Vector, curve: Sequence[MeasuredPoint], factor: float
) -> tuple[Vector, Vector]:
    """Calibrate on the two ends of a curve.

    Returns
    -------
    (terms,) arrays
        The costs for any model on the machine, and for the curve's own.
    """
    ends = [curve[0], curve[-1]]
    machine = _of_machine(costs, ends, factor)
    return machine, model_costs(machine, *_needs(ends))


ALWAYS = 1.0
"""Factor within which nothing is taken for a model's own error."""


def _of_machine(costs: Vector, points: Sequence[MeasuredPoint], factor: float) -> Vector:
    return machine_costs(costs, *_needs(points), [point.model for point in points], factor)


def _needs(points: Sequence[MeasuredPoint]) -> tuple[NDArray[np.float64], Vector]:
    rows = np.array([needs(point) for point in points])
    return rows, np.array([1e6 / point.tokens_per_s for point in points])


def _straight(curve: Sequence[MeasuredPoint]) -> list[Held]:
    shares = [sum(p.host_calls) for p in curve]
    times = [1.0 / p.tokens_per_s for p in curve]
    ends = [shares[0], shares[-1]], [times[0], times[-1]]
    between = np.interp(shares[1:-1], *ends)
    return [Held(p, float(1.0 / t)) for p, t in zip(curve[1:-1], between, strict=True)]


Group = Callable[[MeasuredPoint], object]


def by_machine(point: MeasuredPoint) -> object:
    """Return what points of one machine share."""
    return point.group


def by_model(point: MeasuredPoint) -> object:
    """Return what points of one model on one machine share, whatever else differs."""
    return point.machine, point.runtime, point.model


def by_curve(point: MeasuredPoint) -> object:
    """Return what points of one machine, model, width and runtime share."""
    return point.curve


def factor_holding(held: Sequence[Held], share: float = 0.8) -> float:
    """Return the factor around a prediction that holds a share of the points."""
    errors = np.sort([abs(one.log_error) for one in held])
    return float(np.exp(errors[math.ceil(share * len(errors) - 1e-9) - 1]))


def coverage(held: Sequence[Held], group: Group = by_machine) -> float | None:
    """Return the share of points in their interval, each interval from other groups' errors.

    None if there is only one group.
    """
    limits: dict[object, float] = {}
    for key in {group(one.point) for one in held}:
        others = [one for one in held if group(one.point) != key]
        if not others:
            return None
        limits[key] = float(np.log(factor_holding(others)))
    inside = [abs(one.log_error) <= limits[group(one.point)] for one in held]
    return sum(inside) / len(inside)


def inside(held: Sequence[Held]) -> float:
    """Return the share of points in the interval that each of them has by itself."""
    return sum(one.inside for one in held) / len(held)


@dataclass(frozen=True)
class CrossValidated:
    """Predictions of points that were held out, by what was held out.

    Attributes
    ----------
    machines, models
        All points of a machine, or of a model, at a time; of machines by choices that have not
        seen them, with the interval that those give.
    guessed
        Points of machines whose host's memory is a guess.
    nested
        What was chosen, and how far off that is by the errors it was chosen by.
    public
        The same of the public points alone; None where there are no others.
    llama
        Calibrations on the curves of llama.cpp and ik_llama.cpp.
    costs
        Runtime -> costs fitted to all points.
    """

    machines: list[Held]
    models: list[Held]
    guessed: list[Held]
    nested: Nested
    public: Nested | None
    llama: Calibrations
    costs: dict[str, Vector]


def cross_validated(points: Sequence[MeasuredPoint]) -> CrossValidated:
    """Hold out machines, models and parts of curves in turn."""
    used = expressible(points)
    fits = Fits(used)
    stated = [p for p in points if p.runtime != "ktransformers" and (p in used or _other_host(p))]
    public = [p for p in fits.stated if p.public]
    return CrossValidated(
        public=nested(public) if len(public) < len(fits.stated) else None,
        machines=fits.nested.outer,
        models=fits.held_out(model_of),
        guessed=fits.guessed,
        nested=fits.nested,
        llama=calibrations(stated, fits),
        costs=fits.whole,
    )


def _other_host(point: MeasuredPoint) -> bool:
    """Return whether nothing but the host's memory is unknown, which a calibration finds."""
    return point.setting is not None and point.why_not == "host memory not stated"


LEAST_MACHINES = 3
"""Fewer of a class have no numbers of their own."""


def intervals(found: CrossValidated) -> tuple[Within, ...]:
    """Return what to expect, by how much is known of the machine and by what computes."""
    machines = found.machines
    made = [
        _within("not calibrated", "any", machines),
        _within("calibrated on this model", "any", found.llama.between),
        _within("calibrated on another model", "any", found.llama.by_another),
    ]
    for kind in get_args(Kind)[1:]:
        own = [one for one in machines if kind_of_point(one.point) == kind]
        if len({one.point.group for one in own}) >= LEAST_MACHINES:
            made.append(_within("not calibrated", kind, own))
    return tuple(made)


def _within(certainty: Certainty, kind: Kind, held: list[Held]) -> Within:
    return Within(
        certainty=certainty,
        kind=kind,
        factor=round(factor_holding(held), 3),
        median_error=round(float(np.median([abs(one.error) for one in held])), 3),
        points=len(held),
    )


def uncertainty(found: CrossValidated, runtime: str) -> Uncertainty:
    """Return how far off predictions of a runtime should be on machines that nobody measured."""
    chosen = found.nested
    matrix = chosen.fitted.covariance[RUNTIMES.index(runtime)]
    rows = [[float(f"{x:.3g}") for x in row[: n + 1]] for n, row in enumerate(matrix.tolist())]
    return Uncertainty(
        covariance=tuple(map(tuple, rows)),
        machines=chosen.form.machines,
        noise=chosen.form.noise,
        scale={kind: round(scale, 3) for kind, scale in chosen.scale.items()},
        measured=measured_machines([one.point for one in found.machines]),
    )


def measured_machines(points: Iterable[MeasuredPoint]) -> dict[str, int]:
    """Return kind of setting, or vendor of a GPU -> machines of it among the points."""
    groups: dict[str, set[str]] = {}
    for point in points:
        assert point.setting is not None
        groups.setdefault(kind_of_point(point), set()).add(point.group)
        for gpu in point.setting.machine.gpus[:1]:
            if (vendor := vendor_of(gpu.only("gpu").name)) is not None:
                groups.setdefault(vendor, set()).add(point.group)
    return {name: len(own) for name, own in sorted(groups.items())}


def fitted_profiles(
    points: Sequence[MeasuredPoint], found: CrossValidated, prompt: PromptCosts
) -> list[RuntimeProfile]:
    """Return the profiles that the points give; intervals are of what `cross_validated` found."""
    used = [point for point in expressible(points) if not point.assumed]
    return [
        RuntimeProfile(
            name=name,
            costs=as_costs(found.costs[name]),
            numa_aware=name == "ktransformers",
            intervals=intervals(found),
            uncertainty=uncertainty(found, name),
            prompt=prompt,
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
