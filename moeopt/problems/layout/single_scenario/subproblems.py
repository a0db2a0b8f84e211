"""The feasibility subproblems of a branch (r, e): is there a schedule within a makespan.

Three of them: the dominant items packed by an arc flow; any schedule, the DIMM rows aggregated; any
schedule, with an arc flow. Refutations by HiGHS are confirmed by CP-SAT, see `Subproblems.verify`.
What is feasible is packed and offered to the incumbent.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from moeopt.core.clock import solving_clock
from moeopt.core.search import Feasibility

from .arc_flow import Items, build, pack
from .class_milp import ClassAnswer, ClassProblem, solve_class_milp
from .lagrangian import MultiplierPool
from .packing import Incumbent
from .scenario import Branch, Ints

T = TypeVar("T")

QUICK_S, QUICK_SHARE = 1.0, 0.1
"""For so long, or this part of the time if that is more, refutations are confirmed unasked."""

MAX_ARCS = 20_000
"""Largest graph in arcs in one program with the hosts."""

TRIALS = 2000
"""Trials of one packing: some 20 ms at the most."""

SLACK = 0.005
"""Part of the DIMMs' capacity to be left free where a fuller schedule could not be packed."""

FIRST_TRY_S = 0.15
"""Seconds for HiGHS before CP-SAT has a try: one subproblem in a hundred takes it much longer."""

CPSAT_TRY_S = 1.0
"""Seconds for CP-SAT, which is mostly slower, before HiGHS has all the time left."""

PATIENCE = 0.25
"""Part of the time left for confirming a refutation."""


@dataclass
class Subproblems:
    """The feasibility subproblems of one search.

    Attributes
    ----------
    incumbent
        Gets the schedules that are found.
    remaining_s
        Says how many seconds are left.
    verify
        Whether HiGHS's refutations count only where CP-SAT confirms them; None: it tries while
        `quick_s` lasts, and those that it does not confirm are taken on trust.
    unconfirmed, trusted
        How many refutations CP-SAT did not confirm, and how many count all the same.
    multipliers
        The Lagrangian multipliers found so far.
    """

    incumbent: Incumbent
    remaining_s: Callable[[], float]
    verify: bool | None = False
    unconfirmed: int = 0
    trusted: int = 0
    multipliers: MultiplierPool = field(init=False)
    quick_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.quick_s = max(QUICK_S, QUICK_SHARE * self.remaining_s())
        self.multipliers = MultiplierPool(self.incumbent.scenario)

    def packing(self, branch: Branch, path: Ints, makespan: int, limit_s: float) -> Feasibility:
        """Decide whether the items of these paths fit, by an arc flow.

        Of the dominant experts, infeasible holds for the whole branch (Lemma 1). Feasible may be of
        rounded sizes only: then the incumbent is not within the makespan.
        """
        scenario = self.incumbent.scenario
        most = scenario.reads_per_channel(branch, makespan)
        sizes, experts = self.incumbent.items_of(path, reads_first=most is not None)
        capacity = scenario.dimm_capacity(branch, makespan)
        first = 0 if most is None else branch.local
        step, items, graph = build(scenario, sizes, capacity, int(sizes.sum()), first, most)
        found, bins = pack(graph, items.copies, scenario.dimms, limit_s)
        if found == Feasibility.INFEASIBLE:
            from .class_cpsat import pack_cpsat

            def again(limit_s: float) -> tuple[Feasibility, Any]:
                return pack_cpsat(graph, items.copies, scenario.dimms, limit_s)

            refuted: tuple[Feasibility, Any] = (found, bins)
            found, bins = self._confirmed(refuted, again, lambda pair: pair[0])
        if found == Feasibility.FEASIBLE:
            self.incumbent.offer(path, experts, items.places(bins, sizes // step))
        return found

    def aggregated(self, branch: Branch, makespan: int) -> ClassAnswer:
        """Decide whether there is any schedule with the DIMM rows aggregated."""
        problem = self._problem(branch, makespan)
        answer = self._solve(problem, min(FIRST_TRY_S, self.remaining_s()))
        if answer.feasibility == Feasibility.UNKNOWN and self.remaining_s() > 0:
            from .class_cpsat import solve_class_cpsat

            answer = solve_class_cpsat(problem, min(CPSAT_TRY_S, self.remaining_s()))
        if answer.feasibility == Feasibility.UNKNOWN and self.remaining_s() > 0:
            answer = self._solve(problem, self.remaining_s())
        return answer

    def with_arc_flow(self, branch: Branch, makespan: int, limit_s: float) -> Feasibility:
        """Decide whether there is any schedule, each DIMM with a row of its own.

        First with a fractional flow, which refutes sooner; then with an integral one; then in
        CP-SAT, if HiGHS's tolerances admit a schedule that is none. Feasible may be of rounded
        sizes only, as above.
        """
        scenario, clock = self.incumbent.scenario, solving_clock()
        begin = clock.now()
        capacity = scenario.dimm_capacity(branch, makespan)
        most = scenario.reads_per_channel(branch, makespan)
        first = 0 if most is None else branch.local
        reads = np.full(branch.local, scenario.local_read)
        sizes = np.concatenate([reads[first:], scenario.ndp])
        sizes = np.concatenate([reads[:first], -np.sort(-sizes[sizes <= capacity])])
        step, items, graph = build(scenario, sizes, capacity, 0, first, most)
        if len(graph.item) > MAX_ARCS:
            return Feasibility.UNKNOWN

        def left_s() -> float:
            return max(0.0, limit_s - (clock.now() - begin))

        multipliers = self.multipliers.best(branch, makespan)
        problem = ClassProblem(scenario, branch, makespan, multipliers, graph, step)
        answer = self._solve(problem, left_s(), integral_flow=False)
        if answer.path is not None and answer.bins is None:
            answer = self._solve(problem, left_s())
        self._offer(answer, items, step)
        too_late = answer.feasibility == Feasibility.FEASIBLE and self.incumbent.upper > makespan
        if too_late and left_s():
            from .class_cpsat import solve_class_cpsat

            answer = solve_class_cpsat(problem, left_s())
            self._offer(answer, items, step)
        return answer.feasibility

    def pack(self, branch: Branch, path: Ints, makespan: int) -> None:
        """Pack paths that `aggregated` found, or others with more slack."""
        if self.incumbent.pack(path, makespan, TRIALS):
            return
        scenario = self.incumbent.scenario
        sizes, _ = self.incumbent.items_of(path)
        total = scenario.dimms * scenario.dimm_capacity(branch, makespan)
        if sizes.sum() > (1 - SLACK) * total:
            problem, limit_s = self._problem(branch, makespan), min(FIRST_TRY_S, self.remaining_s())
            answer = solve_class_milp(problem, limit_s, slack=SLACK)
            if answer.path is not None:
                self.incumbent.pack(answer.path, makespan, TRIALS)

    def _problem(self, branch: Branch, makespan: int) -> ClassProblem:
        multipliers = self.multipliers.best(branch, makespan)
        return ClassProblem(self.incumbent.scenario, branch, makespan, multipliers)

    def _solve(
        self, problem: ClassProblem, limit_s: float, *, integral_flow: bool = True
    ) -> ClassAnswer:
        """Decide with HiGHS; a refutation is confirmed by CP-SAT."""
        answer = solve_class_milp(problem, limit_s, integral_flow=integral_flow)
        if answer.feasibility == Feasibility.INFEASIBLE and not problem.refuted:
            from .class_cpsat import solve_class_cpsat

            def again(limit_s: float) -> ClassAnswer:
                return solve_class_cpsat(problem, limit_s)

            answer = self._confirmed(answer, again, lambda answer: answer.feasibility)
        return answer

    def _confirmed(
        self, refutation: T, again: Callable[[float], T], said: Callable[[T], Feasibility]
    ) -> T:
        """Return CP-SAT's answer in place of HiGHS's refutation, as `verify` has it."""
        limit_s = PATIENCE * self.remaining_s()
        if self.verify is None:
            limit_s = min(limit_s, self.quick_s)
        if self.verify is False or not limit_s:
            self.trusted += 1
            return refutation
        clock = solving_clock()
        begin = clock.now()
        answer = again(limit_s)
        self.quick_s = max(0.0, self.quick_s - (clock.now() - begin))
        self.unconfirmed += said(answer) != Feasibility.INFEASIBLE
        if self.verify is None and said(answer) == Feasibility.UNKNOWN:
            self.trusted += 1
            return refutation
        return answer

    def _offer(self, answer: ClassAnswer, items: Items, step: int) -> None:
        if answer.path is not None and answer.bins is not None:
            sizes, experts = self.incumbent.items_of(answer.path, reads_first=items.first > 0)
            place = items.places(answer.bins, sizes // step)
            self.incumbent.offer(answer.path, experts, place)
