"""The search for incumbents: local search, then annealing again and again, from two layouts.

After each round two-bin re-partitioning, and the best layout's best schedules.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.core.clock import spend
from moeopt.core.search import Search
from moeopt.problems.layout.check import objective
from moeopt.problems.layout.idle import with_idle_localized
from moeopt.problems.layout.instance import Instance
from moeopt.problems.layout.local_search.annealing import Best, anneal
from moeopt.problems.layout.local_search.descent import iterated
from moeopt.problems.layout.local_search.state import (
    CHANGES_PER_UNIT,
    SearchState,
    copy_of,
    costs_of,
    objective_of,
    state_of,
)
from moeopt.problems.layout.local_search.two_bins import repartition
from moeopt.problems.layout.paths import IDLE, STRIPED, Device, Path
from moeopt.problems.layout.second_stage import Devices, Layout, as_solution, best_schedules

EVALUATIONS = 16_000_000
"""Moves times scenarios that the descents of the first round may look at: some seconds."""

DESCENTS = 400
"""And how many descents: small instances need few moves for each."""

FIRST_MOVES = 12_000
"""Moves per expert when annealing for the first time."""

MOVES = 48_000
"""Moves per expert in later ones; each after a round without success takes twice as many."""

BATCHES = 40
"""Temperatures in a round, at least."""

WORK = 100_000
"""Moves times scenarios between two looks at the clock: about 50 ms."""

HOT, REHEATED, COLD = 3e-3, 5e-4, 5e-5
"""Temperatures relative to the objective: at the start, of the incumbent anew, and the last."""

SPREAD = (0.1, 0.01)
"""The first and the last weight of squared loads, divided by the mean makespan."""

ROUNDS = 2
"""Annealing goes on from the incumbent in every such round, and elsewhere begins at the start."""

PATIENCE = 4
"""Rounds without success, each twice as long as the last, after which it is given up."""


class Improver:
    """Rounds of annealing from one starting layout; what is better goes to the search.

    Parameters
    ----------
    instance, search
        The problem, and where results go.
    start
        The layout that rounds start from in turn with the incumbent.
    seed
        In place of the search's.
    lock
        Held while a solution is offered, where several improvers work for one search.
    """

    def __init__(
        self,
        instance: Instance,
        search: Search,
        start: Layout,
        seed: int | None = None,
        lock: AbstractContextManager[Any] | None = None,
    ) -> None:
        self.instance, self.search = instance, search
        self.lock: AbstractContextManager[Any] = lock or nullcontext()
        seed = search.seed if seed is None else seed
        self.random = np.array([seed * 0x9E3779B97F4A7C15 % 2**64 or 1], dtype=np.uint64)
        self.costs = costs_of(instance)
        self.experts = np.flatnonzero(instance.path_times.active.any(axis=0))
        self.start = state_of(instance, self.costs, start, first_devices(instance, start))
        value = np.array([objective_of(self.costs, self.start)])
        of = copy_of(self.start)
        self.best = Best(of.resident, of.dimm, of.device, value)
        self.rounds, self.failures = 0, 0
        self._report()

    @property
    def given_up(self) -> bool:
        """Whether the last rounds brought nothing."""
        return self.failures >= PATIENCE

    def round(self, until_s: float = 0.0) -> None:
        """Descend, or anneal once; it cools down faster if only `until_s` seconds are left."""
        before = float(self.best.objective[0])
        if self.rounds == 0:
            self._descend(until_s)
        else:
            self._anneal(until_s)
            state = self._incumbent()
            repartition(self.costs, state, self._stopped(until_s))
            self._keep(state)
        self.rounds += 1
        self.failures = 0 if self._report() < before else self.failures + 1

    def _descend(self, until_s: float) -> None:
        """Go from the start to a local optimum, and on to others nearby."""
        rng = np.random.default_rng(int(self.random[0]))
        budget = EVALUATIONS // len(self.instance.scenarios)
        stopped = self._stopped(until_s)
        self._keep(
            iterated(self.costs, self.start, self.experts, rng, budget, DESCENTS, 0, stopped)
        )

    def _stopped(self, until_s: float) -> Callable[[], bool]:
        """Return what tells that no more than `until_s` seconds are left."""
        return lambda: self.search.remaining_s <= until_s or self.search.closed

    def _anneal(self, until_s: float) -> None:
        """Cool down once, from the start or from the incumbent."""
        each = FIRST_MOVES if self.rounds == 1 else MOVES << self.failures
        again = self.rounds % ROUNDS == 0
        state = self._incumbent() if again else copy_of(self.start)
        hot = REHEATED if again else HOT
        moves, value = each * len(self.experts), float(self.best.objective[0])
        mean = max(value / float(self.costs.weight.sum()), 1e-9)
        batches = max(BATCHES, moves * len(self.costs.weight) // WORK)
        given_s = self.search.remaining_s - until_s
        for batch in range(batches):
            left_s = self.search.remaining_s - until_s
            if left_s <= 0 or self.search.closed:
                break
            done = max(batch / batches, 1 - left_s / given_s)
            temperature = max(hot * (COLD / hot) ** done * value, 1e-9)
            spread = SPREAD[0] * (SPREAD[1] / SPREAD[0]) ** done / mean
            anneal(
                self.costs,
                state,
                self.best,
                self.experts,
                self.random,
                temperature,
                spread,
                moves // batches + 1,
            )
            spend((moves // batches + 1) * len(self.costs.weight) / CHANGES_PER_UNIT)

    def _incumbent(self) -> SearchState:
        """Return the best layout and its devices with their loads."""
        layout = Layout(self.best.resident, self.best.dimm)
        return state_of(self.instance, self.costs, layout, self.best.device)

    def _keep(self, state: SearchState) -> None:
        """Note a state if none better is known, or its works are more even."""
        value = objective_of(self.costs, state)
        if value <= self.best.objective[0]:
            self.best.resident[:], self.best.dimm[:] = state.resident, state.dimm
            self.best.device[:], self.best.objective[0] = state.device, value

    def _report(self) -> float:
        """Give the best layout its best schedules, offer it, and return its objective."""
        layout = Layout(self.best.resident, self.best.dimm)
        self.best.device[:] = best_schedules(self.instance, layout, self.best.device)
        solution = as_solution(self.instance, layout, self.best.device)
        solution = with_idle_localized(self.instance, solution)
        with self.lock:
            self.search.offer(solution, objective(self.instance, solution))
        self.best.objective[0] = objective_of(self.costs, self._incumbent())
        return float(self.best.objective[0])


def first_devices(instance: Instance, layout: Layout) -> Devices:
    """Return schedules: the GPU runs its hits, NDP what is localized, the CPU the rest."""
    device = np.where(layout.dimm == STRIPED, Device.CPU, Device.NDP)
    device = np.where(layout.resident, Device.GPU, device)
    return np.where(instance.path_times.active, device, IDLE).astype(np.int64)


def value(instance: Instance, layout: Layout) -> int:
    """Return the objective of a layout with its best schedules."""
    device = best_schedules(instance, layout, first_devices(instance, layout))
    return objective(instance, as_solution(instance, layout, device))


def start_layout(
    instance: Instance, resident: NDArray[np.bool_], localized: NDArray[np.bool_]
) -> Layout:
    """Return a layout that localizes some experts: longest first, where the squares grow least.

    Parameters
    ----------
    resident
        Which experts are wished resident, of shape (experts,); the HBM is filled with those of the
        most NDP work besides.
    localized
        Which experts to localize as far as there are slots.
    """
    times = instance.path_times
    work, used = times.cost[Path.NDP], times.active.any(axis=0)
    order = np.lexsort((-work.sum(axis=0), ~resident, ~used))
    held = np.zeros(instance.experts, dtype=np.bool_)
    held[order[: instance.hbm_slots]] = True
    size = np.minimum(work, instance.dram_localized_ns).astype(float)
    dimm = np.full(instance.experts, STRIPED, dtype=np.int64)
    own = np.zeros((instance.dimms, len(work)))
    count = np.zeros(instance.dimms, dtype=np.int64)
    slots = instance.experts if instance.dimm_slots is None else instance.dimm_slots
    for i in np.argsort(-size.sum(axis=0), kind="stable").tolist():
        if not localized[i] or slots == 0:
            continue
        growth = (own * size[:, i]).sum(axis=1)
        growth[count >= slots] = np.inf
        d = int(growth.argmin())
        if count[d] < slots:
            dimm[i] = d
            own[d] += size[:, i]
            count[d] += 1
    return Layout(held & used, dimm)
