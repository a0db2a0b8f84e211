"""The feasibility subproblems of a branch (r, e): is there a schedule within a makespan.

Three of them: the dominant items packed by an arc flow; any schedule, the DIMM rows aggregated; any
schedule, with an arc flow. CP-SAT decides them in integers. What is feasible is packed and offered
to the incumbent.
"""

from dataclasses import dataclass, field

import numpy as np

from moeopt.core.search import Feasibility

from .arc_flow import build
from .classes import ClassAnswer, ClassProblem
from .lagrangian import MultiplierPool
from .packing import Incumbent
from .scenario import Branch, Ints

MAX_ARCS = 20_000
"""Largest graph in arcs in one program with the hosts."""


@dataclass
class Subproblems:
    """The feasibility subproblems of one search; CP-SAT is imported when there is one.

    Attributes
    ----------
    incumbent
        Gets the schedules that are found.
    multipliers
        The Lagrangian multipliers found so far.
    """

    incumbent: Incumbent
    multipliers: MultiplierPool = field(init=False)

    def __post_init__(self) -> None:
        self.multipliers = MultiplierPool(self.incumbent.scenario)

    def packing(self, branch: Branch, path: Ints, makespan: int, limit_s: float) -> Feasibility:
        """Decide whether the items of these paths fit, by an arc flow.

        Of the dominant experts, infeasible holds for the whole branch (Lemma 1). Feasible may be of
        rounded sizes only: then the incumbent is not within the makespan.
        """
        from .class_cpsat import pack_cpsat

        scenario = self.incumbent.scenario
        most = scenario.reads_per_channel(branch, makespan)
        sizes, experts = self.incumbent.items_of(path, reads_first=most is not None)
        capacity = scenario.dimm_capacity(branch, makespan)
        first = 0 if most is None else branch.local
        step, items, graph = build(scenario, sizes, capacity, int(sizes.sum()), first, most)
        found, bins = pack_cpsat(graph, items.copies, scenario.dimms, limit_s)
        if found == Feasibility.FEASIBLE:
            self.incumbent.offer(path, experts, items.places(bins, sizes // step))
        return found

    def aggregated(self, branch: Branch, makespan: int, limit_s: float) -> ClassAnswer:
        """Decide whether there is any schedule with the DIMM rows aggregated."""
        from .class_cpsat import solve_class_cpsat

        multipliers = self.multipliers.best(branch, makespan)
        problem = ClassProblem(self.incumbent.scenario, branch, makespan, multipliers)
        return solve_class_cpsat(problem, limit_s)

    def with_arc_flow(self, branch: Branch, makespan: int, limit_s: float) -> Feasibility:
        """Decide whether there is any schedule, each DIMM with a row of its own.

        Feasible may be of rounded sizes only, as above.
        """
        from .class_cpsat import solve_class_cpsat

        scenario = self.incumbent.scenario
        capacity = scenario.dimm_capacity(branch, makespan)
        most = scenario.reads_per_channel(branch, makespan)
        first = 0 if most is None else branch.local
        reads = np.full(branch.local, scenario.local_read)
        sizes = np.concatenate([reads[first:], scenario.ndp])
        sizes = np.concatenate([reads[:first], -np.sort(-sizes[sizes <= capacity])])
        step, items, graph = build(scenario, sizes, capacity, 0, first, most)
        if len(graph.item) > MAX_ARCS:
            return Feasibility.UNKNOWN
        multipliers = self.multipliers.best(branch, makespan)
        problem = ClassProblem(scenario, branch, makespan, multipliers, graph, step)
        answer = solve_class_cpsat(problem, limit_s)
        if answer.path is not None and answer.bins is not None:
            sizes, experts = self.incumbent.items_of(answer.path, reads_first=items.first > 0)
            self.incumbent.offer(answer.path, experts, items.places(answer.bins, sizes // step))
        return answer.feasibility
