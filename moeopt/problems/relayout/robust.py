"""Migrations for loads that are not known yet: sampled futures, local search, exact schedules.

A two-stage program: the migrations come first and must fit their windows on today's layout (RE-C3
to RE-C7, RE-C13), then the loads are known and the layer gets its best schedule. What is minimised
is the mean, or a quantile, of the makespans over a fixed sample of futures.

The search adds, exchanges and drops migrations, steepest descent first, then from kicked local
optima. Thousands of candidates are told apart by a schedule that is built in some microseconds, on
a few of the futures first. The best of thousands on one sample is partly luck: so local optima, and
each without its last migrations, are compared on a second sample, with the best schedules. What is
reported has its value there, and doing nothing is among what is compared.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from moeopt.core.futures import Futures
from moeopt.core.search import Search

from .check import link_time_ns
from .futures import IN_MEMORY, Layouts
from .instance import STRIPED, Instance
from .solution import Migration, Solution
from .windows import prefetch_allowed

Draw = Callable[[int, int], Sequence[Instance]]
"""``draw(number, stream)``: `number` instances, one per future; see `moeopt.core.futures`."""

TRAIN, VALIDATE = 0, 1
"""Streams of futures: those that are searched on, and those that tell how good a plan is."""

ROUNDS = ((4, 32), (16, 8))
"""On how many futures candidates are tried first, and how many are left; then on all futures."""

FEW = 512
"""Where no more plans than this fit the windows, each of them is tried with its best schedules."""

KICKS = 2
"""Local optima that are left again by exchanging two migrations at random."""

Ints = NDArray[np.int64]


def decide(observed: Instance, draw: Draw, search: Search, futures: Futures) -> None:
    """Report migrations whose value over sampled futures falls.

    Parameters
    ----------
    observed
        Today's layout and windows; its loads only say which experts may migrate (RE-C4).
    draw
        Gives instances with sampled loads, in all else like `observed`.
    search, futures
        Where to report to, and what is minimised.
    """
    plans = _Plans(observed, Layouts(draw(futures.samples, TRAIN)), futures)
    others = Layouts(draw(futures.samples, VALIDATE))
    rng = np.random.default_rng(search.seed)

    def report(plan: list[int]) -> None:
        search.offer(plans.solution(plan), futures.value(others.best_ns(*plans.after(plan))))

    report([])
    few = list(islice(plans.all(), FEW + 1))
    if len(few) <= FEW:
        for plan in few:
            if not search.stopped:
                report(plan)
        search.note = "EVERY PLAN TRIED"
        return
    best, best_value = plans.descent([], search)
    found = [best]
    for _ in range(KICKS):
        if search.stopped or not best:
            break
        plan, value = plans.descent(plans.kicked(best, rng), search)
        found.append(plan)
        if value < best_value:
            best, best_value = plan, value
    for number, plan in enumerate(found):
        for size in range(len(plan), 0, -1):
            if search.stopped and (number or size < len(plan)):
                return
            report(plan[:size])
    search.note = "LOCAL OPTIMUM"


class _Plans:
    """Sets of migrations, by their numbers in a list of all that any may contain.

    Attributes
    ----------
    rows, to
        Which expert each migration brings where: `IN_MEMORY`, `STRIPED` or a DIMM.
    """

    def __init__(self, observed: Instance, layouts: Layouts, futures: Futures) -> None:
        self.instance, self.layouts, self.futures = observed, layouts, futures
        c = observed.columns
        self.resident, self.dimm = c.resident, c.dimm
        found = [
            (row, to)
            for row in np.flatnonzero(c.tokens).tolist()
            for to in (IN_MEMORY, STRIPED, *range(observed.dimms))
            if (not c.resident[row] if to == IN_MEMORY else to != c.dimm[row])
        ]
        self.rows = np.array([row for row, _ in found], dtype=np.int64)
        self.to = np.array([to for _, to in found], dtype=np.int64)
        links = 1 if observed.relayout_share_ns is None else observed.dimms
        self._link_ns = np.array(
            [
                link_time_ns(observed, self.migration(n), observed.experts[row].dimm)
                for n, (row, _) in enumerate(found)
            ],
            dtype=np.int64,
        ).reshape(len(found), links)
        self._slots = prefetch_allowed(observed)
        size = len(layouts)
        self._all = np.arange(size)
        self._shortlist: set[int] = set()

    def migration(self, number: int) -> Migration:
        """Return a migration by its number."""
        row, to = int(self.rows[number]), int(self.to[number])
        expert = self.instance.experts[row]
        if to == IN_MEMORY:
            return Migration(expert=expert.expert, kind="prefetch")
        if to == STRIPED:
            return Migration(expert=expert.expert, kind="stripe")
        kind = "localize" if expert.dimm is None else "rebalance"
        return Migration(expert=expert.expert, kind=kind, dimm=to)

    def all(self, plan: tuple[int, ...] = ()) -> Iterator[list[int]]:
        """Yield every plan that fits and begins with these migrations, by rising number."""
        yield list(plan)
        for number in self._able(list(plan)).tolist():
            if not plan or number > plan[-1]:
                yield from self.all((*plan, number))

    def solution(self, plan: list[int]) -> Solution:
        """Return a plan as a solution; what runs where is decided when the loads are known."""
        return Solution(
            instance=self.instance.name,
            migrations=tuple(self.migration(number) for number in plan),
            assignment=(None,) * len(self.instance.experts),
        )

    def descent(self, plan: list[int], search: Search) -> tuple[list[int], int]:
        """Return a local optimum and its value by quick schedules.

        A migration is added as long as that helps, out of all the first time and out of the
        shortlist later; then the first one is exchanged or dropped for which that helps.
        """
        broad = not plan
        value = self._quick_value(plan)
        while not search.stopped:
            after, least = self._best_addition(plan, broad)
            if least >= value:
                broad = False
                for leaving in plan:
                    kept = [number for number in plan if number != leaving]
                    after, least = self._best_addition(kept, broad, or_none=True)
                    if least < value:
                        break
            if least >= value:
                break
            plan, value = after, least
        return plan, value

    def kicked(self, plan: list[int], rng: np.random.Generator) -> list[int]:
        """Return a plan without two of its migrations, with two others at random that fit."""
        kept = list(plan)
        for _ in range(min(2, len(kept))):
            kept.pop(int(rng.integers(len(kept))))
        for _ in range(2):
            able = self._able(kept, broad=False)
            if len(able):
                kept.append(int(able[rng.integers(len(able))]))
        return kept

    def _best_addition(
        self, plan: list[int], broad: bool, or_none: bool = False
    ) -> tuple[list[int], int]:
        """Return the best plan with one more migration, and its value."""
        able = self._able(plan, broad)
        if len(able) == 0:
            return plan, self._quick_value(plan)
        layout = self.after(plan)
        for tried, left in ROUNDS:
            if len(able) > left and len(self._all) > tried:
                some = self._all[:tried]
                spans = self.layouts.quick_ns(*layout, self.rows[able], self.to[able], some)
                able = able[np.argsort(self._values(spans), kind="stable")[:left]]
            if tried == ROUNDS[0][0] and broad:
                self._shortlist.update(able.tolist())
        spans = self.layouts.quick_ns(*layout, self.rows[able], self.to[able], self._all)
        values = self._values(spans)
        at = int(values.argmin())
        if or_none and (alone := self._quick_value(plan)) <= values[at]:
            return plan, alone
        return [*plan, int(able[at])], int(values[at])

    def _able(self, plan: list[int], broad: bool = True) -> Ints:
        """Return the migrations that fit besides those of a plan."""
        chosen = np.array(plan, dtype=np.int64)
        left = self.instance.dimm_link_window_ns - self._link_ns[chosen].sum(axis=0)
        slots = self._slots - int((self.to[chosen] == IN_MEMORY).sum())
        able = (self._link_ns <= left).all(axis=1) & ~np.isin(self.rows, self.rows[chosen])
        able &= (self.to != IN_MEMORY) | (slots > 0)
        if not broad:
            listed = np.zeros(len(able), np.bool_)
            listed[list(self._shortlist)] = True
            able &= listed
        return np.flatnonzero(able)

    def after(self, plan: list[int]) -> tuple[NDArray[np.bool_], Ints]:
        """Return the layout that a plan leads to."""
        resident, dimm = self.resident.copy(), self.dimm.copy()
        for row, to in zip(self.rows[plan].tolist(), self.to[plan].tolist(), strict=True):
            if to == IN_MEMORY:
                resident[row] = True
            else:
                dimm[row] = to
        return resident, dimm

    def _quick_value(self, plan: list[int]) -> int:
        nothing = np.array([-1], dtype=np.int64)
        spans = self.layouts.quick_ns(*self.after(plan), nothing, nothing, self._all)
        return self.futures.value(spans[0])

    def _values(self, spans: Ints) -> Ints:
        """Return what is minimised, of each row."""
        return np.array([self.futures.value(row) for row in spans], dtype=np.int64)
