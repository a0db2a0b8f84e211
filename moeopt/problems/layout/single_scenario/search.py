"""Branch and bound over (striped reads, localized reads), least bound first.

Each branch passes through stages, all at the same bound before any at a higher one:

`SHARPEN`           its bound is sharpened (`state_bounds.packing_bound`);
`HEURISTIC`         greedy assignment to the hosts and heuristic packing at the bound: success ends
                    the search. Where the assignment fails, Lagrangian multipliers may raise the
                    bound;
`DOMINANT_PACKING`  the hosts do not bind: an arc flow improves the incumbent, or refutes;
`HOST_BOUND`        the hosts bind: others may leave NDP, the DIMM rows aggregated;
`HOST_BOUND_PACKING`  as before, each DIMM with its own row;
`UNDECIDED`         nothing left to try: the search ends without a proof when this is the least.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from heapq import heappop, heappush

import numpy as np

from moeopt.core.clock import spend
from moeopt.core.search import Feasibility

from .packing import Incumbent
from .scenario import Branch, Ints, SingleScenario
from .state_bounds import assign_hosts, dominant_items, packing_bound, simple_bounds
from .subproblems import Subproblems

STEP = 1e-3
"""Units of work for a step of the search, but for the solvers and packings that it calls."""


class Stage(IntEnum):
    """What a branch needs next; see the module."""

    SHARPEN = 0
    HEURISTIC = 1
    DOMINANT_PACKING = 2
    HOST_BOUND = 3
    HOST_BOUND_PACKING = 4
    UNDECIDED = 5


FIRST_BRANCHES = 40
"""Branches in which an incumbent is looked for first."""

FIRST_TRIALS = 50
HEURISTIC_TRIALS = 400
PACKING_TRIALS = 200
CLASS_TRIALS = 2000
"""Trials of one heuristic packing: 5 us each and more."""

BISECTIONS = 6
"""Attempts to raise a bound where a subproblem cannot refute, or takes too long."""

SHARE = 0.15
"""Part of the time left for a subproblem, until all that is left has had one."""

Key = tuple[int, Stage, Branch]
"""A branch with its bound and stage, in the order of the search."""


@dataclass
class BranchAndBound:
    """One search on one scenario; all times in the scenario's units.

    Attributes
    ----------
    incumbent
        The best assignment; what is searched for is a better one.
    remaining_s
        Says how many seconds are left; 0 stops the search.
    on_bound
        Called with each higher proven bound.
    enough_gap
        Relative gap that need not be closed: the search ends when the bound is so near, and asks
        for schedules that are better by more alone. These are refuted sooner.
    bound
        The proven bound: no makespan is below it.
    closed
        Whether it is proven that nothing is below ``incumbent.upper``.
    note
        How the search ended.
    """

    incumbent: Incumbent
    remaining_s: Callable[[], float]
    on_bound: Callable[[int], object]
    enough_gap: float = 0.0
    bound: int = -1
    closed: bool = False
    note: str = "TIME_LIMIT"
    _heap: list[Key] = field(default_factory=list)
    _dominant: dict[Branch, Ints] = field(default_factory=dict)
    _successes: dict[Branch, int] = field(default_factory=dict)
    _given_up: dict[Branch, Stage] = field(default_factory=dict)
    _share: float = SHARE

    def __post_init__(self) -> None:
        self._subproblems = Subproblems(self.incumbent)
        self._multipliers = self._subproblems.multipliers

    def run(self) -> None:
        """Search until the proof is complete, nothing is left to try, or the time is up."""
        branches = list(simple_bounds(self._scenario, self._upper))
        self._first_incumbent(branches[:FIRST_BRANCHES])
        self._heap = [(bound, Stage.SHARPEN, branch) for bound, branch in branches]  # sorted
        while self._heap:
            bound, stage, branch = heappop(self._heap)
            self._raise_bound(min(bound, self._upper))
            if self.is_enough:
                break
            if self.remaining_s() <= 0 or not self._step(bound, stage, branch):
                return
        else:
            self._raise_bound(self._upper)
        self.closed = self.bound >= self._upper
        self.note = "PROVEN" if self.closed else "ENOUGH"

    @property
    def is_enough(self) -> bool:
        """Whether the bound is as near to the incumbent as it need be."""
        return self.bound > self._better

    @property
    def _better(self) -> int:
        """The largest makespan that is better than the incumbent's by more than enough."""
        return self._upper - 1 - self._enough

    @property
    def _enough(self) -> int:
        return int(self.enough_gap * self._upper)

    @property
    def _scenario(self) -> SingleScenario:
        return self.incumbent.scenario

    @property
    def _upper(self) -> int:
        return self.incumbent.upper

    def _first_incumbent(self, branches: list[tuple[int, Branch]]) -> None:
        """Look for a good incumbent at once, in the branches of least bounds."""
        for simple, branch in branches:
            bound = max(simple, self._multipliers.bound(branch))
            for makespan in (bound, self._upper - 1):
                if bound >= self._upper or self.remaining_s() <= 0:
                    break
                path = assign_hosts(self._scenario, branch, makespan)
                if path is not None:
                    self.incumbent.pack(path, makespan, FIRST_TRIALS)
                    break

    def _push(self, bound: int, stage: Stage, branch: Branch) -> None:
        if bound < self._upper:
            heappush(self._heap, (bound, stage, branch))

    def _raise_bound(self, bound: int) -> None:
        if bound > self.bound:
            self.bound = bound
            self.on_bound(bound)

    def _step(self, bound: int, stage: Stage, branch: Branch) -> bool:
        """Process one branch at one stage; False ends the search without a proof."""
        spend(STEP)
        known = self._multipliers.bound(branch)
        if known > bound:
            self._push(known, min(stage, Stage.HEURISTIC), branch)
        elif stage == Stage.SHARPEN:
            self._sharpen(bound, branch)
        elif stage == Stage.HEURISTIC:
            self._heuristic(bound, branch)
        elif stage == Stage.DOMINANT_PACKING:
            return self._dominant_packing(bound, branch)
        elif stage == Stage.HOST_BOUND:
            return self._host_bound(bound, branch)
        elif stage == Stage.HOST_BOUND_PACKING:
            return self._decide(bound, stage, branch)
        elif branch in self._given_up:  # now it gets all the time that is left
            self._share = 1
            self._push(bound, self._given_up.pop(branch), branch)
        else:
            self.note = "TOO_FINE_FOR_A_PROOF"
            return False
        return True

    def _sharpen(self, bound: int, branch: Branch) -> None:
        sizes, _ = dominant_items(self._scenario, branch)
        divisor = int(np.gcd.reduce(sizes)) or 1
        least = -(-packing_bound(self._scenario, sizes) // divisor) * divisor
        bound = max(bound, branch.striped * self._scenario.striped_read + least)
        self._push(bound, Stage.HEURISTIC, branch)

    def _heuristic(self, bound: int, branch: Branch) -> None:
        path = assign_hosts(self._scenario, branch, bound)
        if path is not None:
            self._dominant[branch] = path
            if not self.incumbent.pack(path, bound, HEURISTIC_TRIALS):
                self._push(bound, Stage.DOMINANT_PACKING, branch)
        elif (raised := self._multipliers.raised(branch, bound)) > bound:
            self._push(raised, Stage.HEURISTIC, branch)
        else:
            self._push(bound, Stage.HOST_BOUND, branch)

    def _dominant_packing(self, bound: int, branch: Branch) -> bool:
        """Find a packing below the incumbent's makespan, or prove that the branch has none."""
        if self.incumbent.pack(self._dominant[branch], self._better, PACKING_TRIALS):
            self._push(bound, Stage.DOMINANT_PACKING, branch)
            return True
        return self._decide(bound, Stage.DOMINANT_PACKING, branch)

    def _decide(self, bound: int, stage: Stage, branch: Branch) -> bool:
        """Solve the subproblem of a makespan below the incumbent's.

        Infeasible raises the bound, mostly as far as need be. Where it is feasible
        without a better incumbent, for sizes rounded down, or not decided, bisection may raise it.
        """
        makespan = self._target(bound, branch)
        answer = self._solve(stage, makespan, branch)
        improved = self._upper <= makespan
        self._count(branch, improved=improved)
        if improved:
            self._push(bound, stage, branch)
        elif answer == Feasibility.INFEASIBLE:
            self._push(makespan + 1, stage, branch)
        else:
            self._undecided(bound, stage, branch, answer)
        return self.remaining_s() > 0

    def _undecided(self, bound: int, stage: Stage, branch: Branch, answer: Feasibility) -> None:
        """Raise a branch's bound by smaller makespans; note whether it was given up for time."""
        if answer == Feasibility.UNKNOWN and self._share < 1:
            self._given_up[branch] = stage
        bound = self._bisected(bound, stage, branch)
        if stage == Stage.HOST_BOUND_PACKING:
            bound = self._bisected(bound, Stage.HOST_BOUND, branch)
        self._push(bound, Stage.UNDECIDED, branch)

    def _target(self, bound: int, branch: Branch) -> int:
        """Return the makespan of a branch's next subproblem: just better than the incumbent's.

        So a refutation fathoms the branch. After every second success in a row it is half way to
        the bound, so that many better schedules take few steps.
        """
        makespan, times = self._better, self._successes.get(branch, 0)
        return min(makespan, (bound + makespan) // 2) if times and times % 2 == 0 else makespan

    def _count(self, branch: Branch, *, improved: bool) -> None:
        """Count the successes in a row."""
        self._successes[branch] = self._successes.get(branch, 0) + 1 if improved else 0

    def _bisected(self, low: int, stage: Stage, branch: Branch) -> int:
        """Return a bound, from `low` on, by bisection over the makespan, as far as is enough."""
        high = self._better
        for _ in range(BISECTIONS):
            if high - low <= self._enough or self.remaining_s() <= 0:
                break
            middle = (low + high) // 2
            if self._solve(stage, middle, branch) == Feasibility.INFEASIBLE:
                low = middle + 1
            else:
                high = min(middle, self._better)
        return low

    def _solve(self, stage: Stage, makespan: int, branch: Branch) -> Feasibility:
        limit_s = self._share * self.remaining_s()
        if stage == Stage.DOMINANT_PACKING:
            return self._subproblems.packing(branch, self._dominant[branch], makespan, limit_s)
        if stage == Stage.HOST_BOUND:
            return self._subproblems.aggregated(branch, makespan, limit_s).feasibility
        return self._subproblems.with_arc_flow(branch, makespan, limit_s)

    def _host_bound(self, bound: int, branch: Branch) -> bool:
        """Refute a branch with the DIMM rows aggregated, or look for better schedules so."""
        makespan, before = self._target(bound, branch), self._upper
        limit_s = self._share * self.remaining_s()
        answer = self._subproblems.aggregated(branch, makespan, limit_s)
        if answer.feasibility == Feasibility.INFEASIBLE:
            bound = makespan + 1
        elif answer.path is not None:
            self.incumbent.pack(answer.path, makespan, CLASS_TRIALS)
        else:
            self._undecided(bound, Stage.HOST_BOUND, branch, answer.feasibility)
            return self.remaining_s() > 0
        improved = self._upper < before
        self._count(branch, improved=improved)
        # A target half way says nothing of what is just better, and that is tried next.
        halved = makespan < self._better
        again = improved or halved or answer.feasibility == Feasibility.INFEASIBLE
        self._push(bound, Stage.HOST_BOUND if again else Stage.HOST_BOUND_PACKING, branch)
        return True
