"""The host-bound case: how many of each class of equal experts take each path.

Where the dominant experts do not fit the hosts, others leave NDP. Experts with equal costs are
interchangeable, so that a class's count per path is all there is to decide. The feasibility
subproblem is always whether a branch (r, e) has a schedule within a makespan; `class_cpsat` decides
it in integers.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moeopt.core.search import Feasibility
from moeopt.problems.layout.paths import GPU_PATHS, LOCAL_READS

from .arc_flow import Graph, Packing
from .lagrangian import Multipliers, admitted
from .scenario import Branch, Ints, Row, SingleScenario

MANY_COSTS = 3
MANY_SUMS = 100_000
"""From so many costs of one path, or sums of costs, on there is one near every makespan."""


@dataclass(frozen=True)
class ClassAnswer:
    """Paths of all experts if feasible, and with a graph the items (see `Graph`) of each DIMM."""

    feasibility: Feasibility
    path: Ints | None = None
    bins: Packing | None = None


@dataclass(frozen=True)
class ClassProblem:
    """The subproblem whether a branch has a schedule within a makespan.

    Attributes
    ----------
    scenario, branch, makespan
        The branch and the makespan.
    multipliers
        Multipliers that hold within the makespan: they limit the counts.
    graph, step
        If given, the DIMMs' items flow through the graph, whose sizes are in steps of `step`,
        rounded down. Otherwise the DIMM rows (LA-C7, LA-C4) are aggregated into their sum, which is
        a surrogate relaxation.
    """

    scenario: SingleScenario
    branch: Branch
    makespan: int
    multipliers: Multipliers | None = None
    graph: Graph | None = None
    step: int = 1

    @property
    def capacity(self) -> int:
        """What a DIMM can hold beside the striped reads."""
        return self.scenario.dimm_capacity(self.branch, self.makespan)

    @property
    def refuted(self) -> bool:
        """Whether it is infeasible by integers alone: reads, base load, or the multipliers."""
        found, late = self.multipliers, self.scenario.channel_time(self.branch) > self.makespan
        late = late or self.capacity < 0 or self.scenario.base > self.makespan
        return late or (found is not None and found.bound(self.branch) > self.makespan)

    def max_counts(self) -> Ints:
        """Return how many of each class may take each path, at most; shape (6, classes)."""
        cost, size = self.scenario.classes
        usage, base = self.scenario.usage, self.scenario.base
        may = admitted(self.scenario, self.capacity) & (cost <= self.makespan)
        may &= (usage[Row.GPU] <= self.makespan - base) & (usage[Row.PCIE] <= self.makespan)
        if self.capacity < self.scenario.local_read:
            may[LOCAL_READS] = False
        most = np.where(may, size, 0)
        if self.multipliers is not None:
            most = np.minimum(most, self.multipliers.max_counts(self.branch, self.makespan))
        return most

    def limits(self) -> tuple[list[int], list[int]]:
        """Return the least and the largest use of each `Row` of the scenario."""
        scenario, branch = self.scenario, self.branch
        gpu = largest_sum(scenario, branch, Row.GPU, self.makespan - scenario.base)
        pcie = largest_sum(scenario, branch, Row.PCIE, self.makespan)
        dimms, slots = scenario.dimms * self.capacity, scenario.dimms * scenario.slots
        most = [gpu, self.makespan, dimms, pcie, scenario.hits, *branch, slots]
        return [0, 0, 0, 0, 0, *branch, 0], most

    def demand(self, graph: Graph) -> NDArray[np.bool_]:
        """Return which classes put an item of each of the graph's sizes on a DIMM, by path.

        Shape (sizes, 6, classes).
        """
        item = self.scenario.usage[Row.DIMMS] // self.step
        localized = self.scenario.usage[Row.SLOTS] > 0
        found = np.asarray(localized & (item == graph.sizes[:, None, None]))
        if graph.most_first is not None:  # the first size is that of localized reads, and only it
            found[0] = False
            found[:, LOCAL_READS] = False
            found[0, LOCAL_READS] = True
        return found


def largest_sum(scenario: SingleScenario, branch: Branch, row: Row, limit: int) -> int:
    """Return the largest time within a limit that a branch's schedule can give the GPU or PCIe.

    Memory-bound experts cost the GPU all the same, and copies take as long, so that there are few
    sums of costs, and the largest is well below the limit. Where there are many, the limit is
    returned.
    """
    cost, (_, size) = scenario.usage[row], scenario.classes
    sums = np.zeros(1, dtype=np.int64)
    for path, count in zip(GPU_PATHS, (scenario.hits, *branch), strict=True):
        values, at = np.unique(cost[path], return_inverse=True)
        for number, value in enumerate(values[values <= limit].tolist()):
            most = min(count, int(size[at == number].sum()))
            if len(values) > MANY_COSTS or len(sums) * most > MANY_SUMS:
                return limit
            sums = np.add.outer(sums, value * np.arange(most + 1)).ravel()
            sums = np.unique(sums[sums <= limit])
    return int(sums[-1])
