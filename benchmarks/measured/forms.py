"""Which form of the terms to take: chosen without a machine, tried on it.

``python -m benchmarks.measured --forms`` (1 CPU minute). A form leaves terms out or counts them
otherwise. For each machine the form is taken whose errors on the other machines, each left out in
turn, are least (median of their medians); fitted to those others, it predicts the machine.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from benchmarks.measured.crossvalidation import expressible
from benchmarks.measured.points import MeasuredPoint
from benchmarks.measured.together import fit_together
from benchmarks.rooms.sim import OVERLAP, TERMS, amounts, cores_of, prior, token_us
from moeopt import InputError

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Form:
    """A way to count: terms that are left out, and how several sockets read.

    `own_rates`: reads of several sockets are over the sum of their own rates, and expected to take
    2.5 times that (spread 0.4), in place of an even spread over the link. `all_compute`: where one
    socket computes, both are taken to. `overlap`: of reads and computing.
    """

    name: str
    without: tuple[str, ...] = ()
    own_rates: bool = False
    all_compute: bool = False
    overlap: float = OVERLAP

    def rows(self, points: Sequence[MeasuredPoint]) -> Vector:
        """Return what each point needs of the terms."""
        found = []
        for point in points:
            if point.setting is None:
                raise InputError(f"{point.machine} {point.knob}: cannot be expressed")
            row = amounts(point.setting, point.host_calls)
            machine, numa = point.setting.machine, point.setting.numa
            if self.own_rates and len(machine.nodes) > 1:
                own = cores_of(machine, "tensor-parallel").read_gb_s
                row[OBLIVIOUS] *= cores_of(machine, numa).read_gb_s / own
            elif self.all_compute and numa == "one-computes":
                row[OBLIVIOUS] /= len(machine.nodes)
            row[[TERMS.index(term) for term in self.without]] = 0.0
            found.append(row)
        return np.array(found)

    def expected(self) -> tuple[Vector, Vector]:
        """Return what is expected of the terms, and how uncertain that is."""
        expected, spread = prior()
        if self.own_rates:
            expected[OBLIVIOUS], spread[OBLIVIOUS] = np.log(2.5), 0.4
        return expected, spread


OBLIVIOUS = TERMS.index("oblivious_read")

FORMS = (
    Form("all terms"),
    Form("sockets by the sum of their own rates", own_rates=True),
    Form("two sockets under Windows both compute", all_compute=True),
    Form("attention's products left out", ("gpu_scores",)),
    Form("reads and computing overlap less: root of squares", overlap=2.0),
    Form("decoding on the GPU left out", ("gpu_decode",)),
    Form("decoding on the CPU left out", ("host_decode",)),
    Form("barriers per expert left out", ("host_expert_us",)),
)
"""Forms to choose from; the first is what predictions use."""


def choose(points: Sequence[MeasuredPoint]) -> Iterator[str]:
    """Yield a table: each form's errors on left-out machines, and those of the choice among them.

    A machine's form and fit know nothing of it.
    """
    used = [point for point in expressible(points) if not point.assumed]
    groups = np.array([point.group for point in used])
    machines = list(dict.fromkeys(groups.tolist()))
    inner = np.zeros((len(FORMS), len(machines), len(machines)))
    outer = np.zeros((len(FORMS), len(used)))
    for number, form in enumerate(FORMS):
        fits = _Fits(form, used, groups)
        for row, name in enumerate(machines):
            own = groups == name
            outer[number, own] = fits.errors((name,), own)
            inner[number, row, row] = np.median(np.abs(outer[number, own]))
        for a, b in combinations(range(len(machines)), 2):
            pair = (machines[a], machines[b])
            for held, other in ((a, b), (b, a)):
                own = groups == machines[other]
                inner[number, held, other] = np.median(np.abs(fits.errors(pair, own)))
    chosen = np.zeros(len(used))
    picks = []
    for row, name in enumerate(machines):
        others = [other for other in range(len(machines)) if other != row]
        best = int(np.argmin(np.median(inner[:, row, others], axis=1)))
        picks.append(best)
        chosen[groups == name] = outer[best, groups == name]
    yield "| form | taken for | median | p90 |"
    yield "|---|--:|--:|--:|"
    for number, form in enumerate(FORMS):
        yield _row(form.name, f"{picks.count(number)} machines", outer[number], groups)
    yield _row("taken without the machine", f"{len(machines)} machines", chosen, groups)


def _row(name: str, taken: str, errors: Vector, groups: NDArray[np.str_]) -> str:
    medians = [np.median(np.abs(errors[groups == name])) for name in dict.fromkeys(groups.tolist())]
    p90 = np.quantile(np.abs(errors), 0.9)
    return f"| {name} | {taken} | {100 * np.median(medians):.1f} % | {100 * p90:.1f} % |"


class _Fits:
    """Fits of a form without some machines, each made once."""

    def __init__(self, form: Form, used: Sequence[MeasuredPoint], groups: NDArray[np.str_]) -> None:
        self.form, self.groups = form, groups
        self.rows, self.expected = form.rows(used), form.expected()
        self.times = np.array([1e6 / point.tokens_per_s for point in used])
        self.labels = [(point.runtime, point.group) for point in used]
        self._made: dict[tuple[str, ...], Vector] = {}

    def errors(self, without: tuple[str, ...], own: NDArray[np.bool_]) -> Vector:
        """Return predicted over measured, less 1, of some points by a fit without machines."""
        if without not in self._made:
            kept = ~np.isin(self.groups, without)
            labels = [label for label, keep in zip(self.labels, kept, strict=True) if keep]
            rows, how = self.rows[kept], self.form.overlap
            found = fit_together(rows, self.times[kept], labels, self.expected, overlap=how)
            common = np.exp(found.common_log)
            costs = [found.costs.get(runtime, common) for runtime, _ in self.labels]
            self._made[without] = token_us(self.rows, np.array(costs), how)
        return np.asarray(self.times[own] / self._made[without][own] - 1.0)
