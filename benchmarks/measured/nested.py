"""Choices made without a machine and tried on it: which form of the terms, and how wide intervals.

For each outer machine the inner folds leave one further machine out in turn. They choose the form
whose errors are least, and the scale of the intervals of each kind; fitted to all but the outer
machine, the form predicts it once. So nothing that was chosen has seen what it is judged by.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from benchmarks.measured.effects import Held, needs
from benchmarks.measured.fit import RUNTIMES, Fitted, Form, Points, fit
from benchmarks.measured.points import MeasuredPoint
from benchmarks.rooms.sim import Kind, Vector, expected_sd, kind_of_setting, sensitivity

FORMS = (
    Form("as expected beforehand"),
    Form("spreads halved", loose=0.5),
    Form("the same, memories reached alike however wide", ("host_width", "gpu_width"), loose=0.5),
    Form("the same, no versions", ("version", "linear_version"), loose=0.5),
    Form("the same, no vendors", ("amd", "apple", "intel", "other_hand_overs"), loose=0.5),
    Form("the same, points off by 15 %", loose=0.5, noise=0.15),
)
"""Forms to choose from."""

KINDS: tuple[Kind, ...] = get_args(Kind)

INSIDE = 0.8

OTHERS = 10.0
"""Points of other kinds count together as so many of a kind's own in the scale of its interval.

So a kind with one machine has the scale of all, and one with many its own."""


@dataclass(frozen=True)
class Errors:
    """What a fit without some machines predicts of points.

    Attributes
    ----------
    log
        (points,): logarithm of predicted over measured speed.
    sd
        (points,): how far off it should be.
    """

    log: Vector
    sd: Vector


class Folds:
    """Fits to the points of all machines but one or two, each made once."""

    def __init__(self, points: Sequence[MeasuredPoint]) -> None:
        self.points = points
        self.groups = list(dict.fromkeys(point.group for point in points))
        self.kinds = np.array([kind_of_point(point) for point in points])
        self.data = data_of(points)
        self._start: dict[str, Vector] = {}

    def fitted(self, form: Form, without: Sequence[int] = ()) -> Fitted:
        """Return a form's fit to all machines but some."""
        kept = ~np.isin(self.data.machine, list(without))
        found = fit(self.data.of(kept), form, self._start.get(form.name))
        if not without:
            self._start[form.name] = found.unknowns
        return found

    def errors(self, form: Form, found: Fitted, own: NDArray[np.bool_]) -> Errors:
        """Return the errors of some points by a fit that knows nothing of their machines."""
        us, sd = predicted_by(form, found, self.data.of(own))
        return Errors(np.log(self.data.us[own] / us), sd)

    @cached_property
    def forms(self) -> list["Left"]:
        """Every form's errors with one machine left out, and with two."""
        return [self._left(form) for form in FORMS]

    def _left(self, form: Form) -> "Left":
        machines, count = len(self.groups), len(self.points)
        self.fitted(form)
        one, two = np.zeros((2, count)), np.zeros((2, machines, count))
        for row in range(machines):
            own = self.data.machine == row
            made = self.errors(form, self.fitted(form, [row]), own)
            one[:, own] = made.log, made.sd
        for pair in combinations(range(machines), 2):
            found = self.fitted(form, pair)
            for outer, other in (pair, pair[::-1]):
                own = self.data.machine == other
                made = self.errors(form, found, own)
                two[:, outer, own] = made.log, made.sd
        return Left(form, one, two)


@dataclass(frozen=True)
class Left:
    """A form's errors.

    Attributes
    ----------
    one
        (2, points): log error and its expected size, without the point's machine.
    two
        (2, machines, points): without the point's machine and another.
    """

    form: Form
    one: Vector
    two: Vector


@dataclass(frozen=True)
class Nested:
    """Predictions of machines that no choice has seen, and what was chosen.

    Attributes
    ----------
    outer
        Every point, by form and scale chosen without its machine.
    inner
        Every point left out of the fit, by the form and scales that were chosen with it: what
        choosing by these errors makes of them.
    chosen
        Form -> number of machines it was chosen for.
    form, scale
        Chosen with all machines.
    fitted
        The fit of `form` to all.
    """

    outer: list[Held]
    inner: list[Held]
    chosen: dict[str, int]
    table: list[tuple[str, list[Held]]]
    form: Form
    scale: dict[Kind, float]
    fitted: Fitted


def nested(points: Sequence[MeasuredPoint]) -> Nested:
    """Choose form and scales in inner folds, and predict each outer machine once."""
    folds = Folds(points)
    machine, machines = folds.data.machine, len(folds.groups)
    outer, chosen = list[Held](), dict.fromkeys((form.name for form in FORMS), 0)
    by_point: dict[int, Held] = {}
    for row in range(machines):
        others = machine != row
        best = min(folds.forms, key=lambda left: _cost(left.two[0, row], machine, others))
        chosen[best.form.name] += 1
        scale = _scales(best.two[:, row][:, others], folds.kinds[others])
        for at in np.flatnonzero(~others):
            by_point[at] = _held(points[at], best.one[:, at], scale, folds.kinds[at])
    outer = [by_point[at] for at in range(len(points))]
    every = np.ones(len(points), dtype=bool)
    best = min(folds.forms, key=lambda left: _cost(left.one[0], machine, every))
    scale = _scales(best.one, folds.kinds)

    def by(left: Left) -> list[Held]:
        own = _scales(left.one, folds.kinds)
        return [_held(p, left.one[:, at], own, folds.kinds[at]) for at, p in enumerate(points)]

    return Nested(
        outer=outer,
        inner=by(best),
        chosen=chosen,
        table=[(left.form.name, by(left)) for left in folds.forms],
        form=best.form,
        scale=scale,
        fitted=folds.fitted(best.form),
    )


def _held(point: MeasuredPoint, made: Vector, scale: dict[Kind, float], kind: Kind) -> Held:
    log, sd = made
    return Held(point, float(point.tokens_per_s * np.exp(log)), float(np.exp(scale[kind] * sd)))


def _cost(log: Vector, machine: NDArray[np.int64], kept: NDArray[np.bool_]) -> float:
    """Return what a form is chosen by: the median of the machines' median errors in size."""
    sizes = np.abs(np.expm1(log))
    rows = np.unique(machine[kept])
    return float(np.median([np.median(sizes[machine == row]) for row in rows]))


def _scales(made: Vector, kinds: NDArray[np.str_]) -> dict[Kind, float]:
    """Return by kind how many expected sizes hold 80 % of the errors; see `OTHERS`."""
    sizes = np.abs(made[0]) / made[1]
    order = np.argsort(sizes)
    found: dict[Kind, float] = {}
    for kind in KINDS:
        own = kinds == kind
        weights = np.where(own, 1.0, OTHERS / max(1, int((~own).sum())))[order]
        reached = np.cumsum(weights) / weights.sum()
        found[kind] = float(sizes[order][np.searchsorted(reached, INSIDE)])
    return found


def data_of(points: Sequence[MeasuredPoint]) -> Points:
    """Return what points need, as arrays."""
    groups = list(dict.fromkeys(point.group for point in points))
    return Points(
        rows=np.array([needs(point) for point in points]),
        us=np.array([1e6 / point.tokens_per_s for point in points]),
        runtime=np.array([RUNTIMES.index(point.runtime) for point in points]),
        machine=np.array([groups.index(point.group) for point in points]),
        machines=len(groups),
    )


def predicted_by(form: Form, found: Fitted, data: Points) -> tuple[Vector, Vector]:
    """Return the times of points on machines that a fit has not seen, and how unsure they are."""
    us, slopes = sensitivity(form.rows(data.rows), np.exp(found.logs[data.runtime]))
    return us, expected_sd(slopes, found.covariance[data.runtime], form.machines, form.noise)


def kind_of_point(point: MeasuredPoint) -> Kind:
    """Return what computes in a point's setting."""
    return "any" if point.setting is None else kind_of_setting(point.setting, point.host_calls)
