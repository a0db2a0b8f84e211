"""The search for good plans: annealing again and again, each result with its exact schedules."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.problems.layout.check import objective
from moeopt.problems.layout.instance import Instance
from moeopt.problems.search import Search

from .annealing import Best, anneal
from .plan import DIMM, DOMAIN, RESIDENT, Integers, load, new_plan
from .plan import objective as plan_objective
from .resplit import resplit_pairs
from .rows import CPU, GPU, IDLE, NDP, STRIPED, Layout, Rows, as_solution
from .second_stage import scheduled

FIRST_MOVES = 12_000
"""Moves per row in the first round, for a plan soon."""

MOVES = 48_000
"""Moves per row in later ones; each after a round without success takes twice as many."""

BATCHES = 40
"""Temperatures in a round, at least."""

WORK = 800_000
"""Moves times scenarios between two looks at the clock: about 50 ms."""

HOT, REHEATED, COLD = 1.6e-3, 5e-4, 8e-5
"""Temperatures relative to the objective: at the start, of the best plan anew, and the last."""

CROWDED = ((6, 8), (5, 8), (6, 8), (4, 8))
SPARSE = ((2, 7), (4, 8), (3, 8), (6, 8))
"""First and last exponents of the norm, as powers of two, by round: which are best varies.

Low ones first are best where DIMMs hold one row or two (`FEW`): they level the DIMMs before all
else. Where there are many the norm must be near the maximum from the beginning, or a slow search
settles on what is best for the average.
"""

FEW = 3
"""Localized rows per DIMM up to which DIMMs are sparse."""

AGAIN = 3
"""Which round of four goes on from the best plan; the others are from the start."""

PATIENCE = 4
"""Rounds without success, each twice as long as the last, after which it is given up."""


class Improver:
    """Rounds of annealing from one starting layout; what is better goes to the search.

    Parameters
    ----------
    instance, rows, search
        The problem, its rows, and where results go.
    start
        The layout that rounds start from in turn with the best one.
    seed
        In place of the search's.
    lock
        Held while a plan is offered, where several improvers work for one search.
    """

    def __init__(
        self,
        instance: Instance,
        rows: Rows,
        search: Search,
        start: Layout,
        seed: int | None = None,
        lock: AbstractContextManager[Any] | None = None,
    ) -> None:
        self.instance, self.rows, self.search = instance, rows, search
        self.lock: AbstractContextManager[Any] = lock or nullcontext()
        slots = instance.dimm_slots
        self.slots = len(rows.experts) if slots is None else slots
        seed = search.seed if seed is None else seed
        self.random = np.array([seed * 0x9E3779B97F4A7C15 % 2**64 or 1], dtype=np.uint64)
        self.start = first_choice(rows, start)
        few = int((start.dimm != STRIPED).sum()) <= FEW * instance.dimms
        self.norms = SPARSE if few else CROWDED
        reads = (instance.dram_striped_ns, instance.dram_localized_ns)
        self.plan = new_plan(rows, reads, instance.dimms, self.start.copy())
        load(self.plan, 0)
        self.best = Best(self.start.copy(), np.array([plan_objective(self.plan.state)]))
        self.rounds, self.failures, self.moves = 0, 0, 0
        self._report()

    @property
    def given_up(self) -> bool:
        """Whether the last rounds brought nothing."""
        return self.failures >= PATIENCE

    def round(self, until_s: float = 0.0) -> None:
        """Anneal once; cools down faster if only `until_s` seconds would be left in the end."""
        before = float(self.best.objective[0])
        each = MOVES << self.failures if self.rounds else FIRST_MOVES
        moves = each * len(self.rows.experts)
        again = self.rounds % len(self.norms) == AGAIN
        self.plan.choice[:] = self.best.choice if again else self.start
        hot = REHEATED if again else HOT
        first, last = self.norms[self.rounds % len(self.norms)]
        batches = max(BATCHES, moves * len(self.rows.weight) // WORK)
        given_s = self.search.remaining_s - until_s
        for batch in range(batches):
            left_s = self.search.remaining_s - until_s
            if left_s <= 0 or self.search.closed:
                break
            done = max(batch / batches, 1 - left_s / given_s)
            temperature = hot * (COLD / hot) ** done * before
            doublings = round(first + (last - first) * done)
            batch_moves = moves // batches + 1
            anneal(
                self.plan,
                self.best,
                self.slots,
                self.random,
                max(temperature, 1e-9),
                doublings,
                batch_moves,
            )
            self.moves += batch_moves
        self.rounds += 1
        self._resplit(until_s)
        self.failures = 0 if self._report() < before else self.failures + 1

    def _resplit(self, until_s: float) -> None:
        """Divide the rows of the best plan's DIMMs anew, two by two."""
        self.plan.choice[:] = self.best.choice
        resplit_pairs(self.plan, self.slots, lambda: self.search.remaining_s <= until_s)
        self.best.choice[:] = self.plan.choice
        self.best.objective[0] = plan_objective(self.plan.state)

    def _report(self) -> float:
        """Give the best layout its best schedules, offer it, and return its objective."""
        choice = self.best.choice
        layout = Layout(choice[:, RESIDENT] == 1, choice[:, DIMM].copy())
        domain = scheduled(self.instance, self.rows, layout, choice[:, DOMAIN:].astype(np.int8))
        choice[:, DOMAIN:] = domain
        solution = as_solution(self.instance, self.rows, layout, domain)
        found = objective(self.instance, solution)
        with self.lock:
            self.search.offer(solution, found)
        self.best.objective[0] = found / int(self.rows.weight.max())
        return float(self.best.objective[0])


def first_choice(rows: Rows, layout: Layout) -> Integers:
    """Return `Plan.choice`: NDP runs what is localized, the GPU its hits, the CPU the rest."""
    domain = np.where(layout.dimm == STRIPED, CPU, NDP)[:, None]
    domain = np.where(layout.resident[:, None], GPU, domain)
    domain = np.where(rows.active, domain, IDLE)
    choice = np.column_stack([layout.dimm, layout.resident, domain])
    return np.ascontiguousarray(choice, dtype=np.int64)


def start_layout(
    instance: Instance, rows: Rows, resident: NDArray[np.bool_], localized: NDArray[np.bool_]
) -> Layout:
    """Return a layout that localizes some rows: longest first, each where the squares grow least.

    Parameters
    ----------
    resident
        Which rows are wished resident, of shape (rows,); the HBM is filled with those of the most
        NDP work besides.
    localized
        Which rows to localize as far as there are slots.
    """
    work = np.where(rows.active, rows.cost[5], 0)
    order = np.lexsort((-work.sum(axis=1), ~resident))
    held = np.zeros(len(rows.experts), dtype=np.bool_)
    held[order[: instance.hbm_slots]] = True
    size = np.minimum(work, instance.dram_localized_ns).astype(float)
    dimm = np.full(len(rows.experts), STRIPED)
    own = np.zeros((instance.dimms, work.shape[1]))
    count = np.zeros(instance.dimms, dtype=np.int64)
    slots = len(rows.experts) if instance.dimm_slots is None else instance.dimm_slots
    for i in np.argsort(-size.sum(axis=1), kind="stable").tolist():
        if not localized[i] or slots == 0:
            continue
        growth = (own * size[i]).sum(axis=1)
        growth[count >= slots] = np.inf
        d = int(growth.argmin())
        if count[d] < slots:
            dimm[i] = d
            own[d] += size[i]
            count[d] += 1
    return Layout(held, dimm)
