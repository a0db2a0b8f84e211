"""The host-bound case as a mixed-integer program over classes of equal experts, in HiGHS.

Where the dominant experts do not fit the hosts, others leave NDP. Experts with equal costs are
interchangeable, so that a class's count per path is all there is to decide. The feasibility
subproblem is always whether a branch (r, e) has a schedule within a makespan.

Why HiGHS's "infeasible" is taken for a refutation. Times are scaled so that the makespan is
`LONGEST`, paths that take longer are out, and `MARGIN` is added to the makespan: a schedule that
exists satisfies every row with that to spare, a hundred times HiGHS's tolerance for a row. With
``Search.verify`` it is taken only where `class_cpsat` confirms it. Its "feasible" is never trusted:
the caller recomputes everything, and turns to `class_cpsat` where there is no schedule.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack, vstack

from moeopt.core.highs import Program, minimize
from moeopt.core.search import Feasibility
from moeopt.problems.layout.paths import Path

from .arc_flow import Graph, Packing, arc_costs, decompose, flow_rows
from .lagrangian import Multipliers, admitted
from .scenario import GPU_PATHS, LOCAL_READS, TIMES, Branch, Ints, Row, SingleScenario

LONGEST = 10_000.0
MARGIN = 1e-4
"""The makespan in the program's units, and what is added to it."""

ANY_SCHEDULE = 10.0
"""Relative gap at which the first schedule found ends the search."""

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


def solve_class_milp(
    problem: ClassProblem, limit_s: float, *, integral_flow: bool = True, slack: float = 0.0
) -> ClassAnswer:
    """Decide a class problem with HiGHS.

    Parameters
    ----------
    problem
        The feasibility subproblem.
    limit_s
        Seconds for HiGHS.
    integral_flow
        Whether the flow must be integral; if not, only the counts are, and there are no bins.
    slack
        The part of the DIMMs' capacity that shall stay free: then they are easier to pack.
    """
    if problem.refuted:
        return ClassAnswer(Feasibility.INFEASIBLE)
    most = problem.max_counts()
    program, graph = _aggregated(problem, most, slack), problem.graph
    if graph is not None:
        program = _with_flow(program, problem, graph, integral_flow=integral_flow)
    found = minimize(program, limit_s, relative_gap=ANY_SCHEDULE)
    if found.values is None:
        infeasible = found.status == "infeasible"
        return ClassAnswer(Feasibility.INFEASIBLE if infeasible else Feasibility.UNKNOWN)
    values = np.rint(found.values).astype(np.int64)
    path = problem.scenario.expand(values[: most.size].reshape(most.shape))
    bins = decompose(graph, values[most.size :]) if graph is not None and integral_flow else None
    return ClassAnswer(Feasibility.FEASIBLE, path, bins)


def _aggregated(problem: ClassProblem, most: Ints, slack: float) -> Program:
    """Return the program of how many of each class take each path, the DIMM rows aggregated."""
    _, size = problem.scenario.classes
    unit = max(problem.makespan, 1) / LONGEST
    use = problem.scenario.usage.astype(np.float64)
    use[TIMES] /= unit
    use[TIMES, most == 0] = 0
    lower, upper = (np.array(limits, dtype=np.float64) for limits in problem.limits())
    upper[Row.DIMMS] *= 1 - slack
    upper[TIMES] = upper[TIMES] / unit + MARGIN
    lower[TIMES] = -np.inf
    # Any schedule will do, but with an objective HiGHS prunes: 2 to 10 times faster than without.
    # Host time, the CPU's counted twice, did best of those tried.
    objective = (use[Row.GPU] + 2 * use[Row.CPU]).ravel()
    one_path = np.hstack([np.eye(len(size))] * len(Path))  # LA-C1
    return Program(
        objective,
        np.zeros(most.size),
        most.ravel().astype(float),
        np.ones(most.size, dtype=np.int64),
        csr_array(np.vstack([use.reshape(len(use), -1), one_path])),
        np.concatenate([lower, size]),
        np.concatenate([upper, size]),
    )


def _with_flow(
    program: Program, problem: ClassProblem, graph: Graph, *, integral_flow: bool
) -> Program:
    """Return the program with rows of each DIMM: columns for the arcs, rows for the flow.

    Each size is used as often as there are experts on NDP with that cost, or localized reads.
    """
    arcs, nodes, scenario = len(graph.tail), len(graph.ends), problem.scenario
    flow, low, high = flow_rows(graph, scenario.dimms)
    demand = np.zeros((len(low), *scenario.classes[0].shape))
    demand[nodes:] -= problem.demand(graph)
    beside = csr_array((program.rows.shape[0], arcs))
    rows = hstack([csr_array(demand.reshape(len(low), -1)), flow])
    return Program(
        np.concatenate([program.cost, LONGEST / 100 * arc_costs(graph)]),
        np.concatenate([program.lower, np.zeros(arcs)]),
        np.concatenate([program.upper, np.full(arcs, scenario.experts)]),
        np.concatenate([program.integer, np.full(arcs, int(integral_flow))]),
        csr_array(vstack([hstack([program.rows, beside]), rows])),
        np.concatenate([program.row_lower, low]),
        np.concatenate([program.row_upper, high]),
    )


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
