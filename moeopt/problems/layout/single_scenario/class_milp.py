"""The host-bound case as a mixed-integer program over classes of equal experts, in HiGHS.

Where the dominant experts do not fit the hosts, others leave NDP. Experts with equal costs are
interchangeable, so that a class's count per path is all there is to decide. The feasibility
subproblem is always whether a branch (r, e) has a schedule within a makespan.

Why HiGHS's "infeasible" is taken for a refutation. Times are scaled so that the makespan is
`LONGEST`, paths that take longer are out, and `MARGIN` is added to the makespan: a schedule that
exists satisfies every row with that to spare, a hundred times HiGHS's tolerance for a row. With
``Search.verify`` it is taken only where `class_cpsat` confirms it. Its "feasible" is never trusted:
the caller recomputes everything, and asks `class_cpsat` where there is none.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array, hstack, vstack

from moeopt.numeric.feasibility import Feasibility
from moeopt.numeric.highs import Program, Vector, minimize
from moeopt.problems.layout.paths import Path

from .arc_flow import Graph, Packing, arc_costs, decompose
from .lagrangian import Multipliers, admitted
from .scenario import (
    CPU_PATHS,
    GPU_PATHS,
    LOCAL_READS,
    STRIPED_READS,
    Branch,
    Ints,
    SingleScenario,
)

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
        """Whether the multipliers' bound, in integers, exceeds the makespan."""
        found = self.multipliers
        return found is not None and found.bound(self.branch) > self.makespan

    def max_counts(self) -> Ints:
        """Return how many of each class may take each path, at most; shape (6, classes)."""
        cost, size = self.scenario.classes
        may = admitted(self.scenario, self.capacity) & (cost <= self.makespan)
        if self.capacity < self.scenario.local_read:
            may[LOCAL_READS] = False
        most = np.where(may, size, 0)
        if self.multipliers is not None:
            most = np.minimum(most, self.multipliers.max_counts(self.branch, self.makespan))
        return most


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
    scenario, (striped, local) = problem.scenario, problem.branch
    cost, size = scenario.classes
    unit = max(problem.makespan, 1) / LONGEST
    classes = len(size)
    # Rows: LA-C5, LA-C6, the sum of LA-C7, LA-C3, the branch's two counts, the sum of LA-C4; below
    # them LA-C1, each class's experts on one path each.
    rows = np.zeros((7, len(Path), classes))
    rows[0, GPU_PATHS], rows[1, CPU_PATHS] = cost[GPU_PATHS] / unit, cost[CPU_PATHS] / unit
    rows[2, Path.NDP], rows[2, LOCAL_READS] = cost[Path.NDP] / unit, scenario.local_read / unit
    rows[3, Path.HIT], rows[4, STRIPED_READS], rows[5, LOCAL_READS] = 1, 1, 1
    rows[6, Path.NDP], rows[6, LOCAL_READS] = 1, 1
    rows[:3, most == 0] = 0
    gpu = largest_gpu_sum(scenario, problem.branch, problem.makespan) / unit + MARGIN
    cpu = problem.makespan / unit + MARGIN
    dimms = (1 - slack) * scenario.dimms * problem.capacity / unit + MARGIN
    lower = [-np.inf, -np.inf, -np.inf, 0, striped, local, 0]
    slots = scenario.dimms * scenario.slots
    upper = [gpu, cpu, dimms, scenario.hits, striped, local, slots]
    # Any schedule will do, but with an objective HiGHS prunes: 2 to 10 times faster than without.
    # Host time, the CPU's counted twice, did best of those tried.
    objective = (rows[0] + 2 * rows[1]).ravel()
    matrix = np.vstack([rows.reshape(7, -1), np.hstack([np.eye(classes)] * len(Path))])
    return Program(
        objective,
        np.zeros(most.size),
        most.ravel().astype(float),
        np.ones(most.size, dtype=np.int64),
        csr_array(matrix),
        np.concatenate([lower, size]),
        np.concatenate([upper, size]),
    )


def _with_flow(
    program: Program, problem: ClassProblem, graph: Graph, *, integral_flow: bool
) -> Program:
    """Return the program with a row for each DIMM: columns for the arcs, rows for the flow."""
    arcs = len(graph.tail)
    flow, low, high = _flow_rows(problem.scenario, graph, problem.step)
    beside = csr_array((program.rows.shape[0], arcs))
    return Program(
        np.concatenate([program.cost, LONGEST / 100 * arc_costs(graph)]),
        np.concatenate([program.lower, np.zeros(arcs)]),
        np.concatenate([program.upper, np.full(arcs, problem.scenario.experts)]),
        np.concatenate([program.integer, np.full(arcs, int(integral_flow))]),
        csr_array(vstack([hstack([program.rows, beside]), flow])),
        np.concatenate([program.row_lower, low]),
        np.concatenate([program.row_upper, high]),
    )


def _flow_rows(
    scenario: SingleScenario, graph: Graph, step: int
) -> tuple[csr_array, Vector, Vector]:
    """Return the rows of the flow, over the classes' columns and the arcs', and their limits.

    Flow is conserved at each node, or ends there; each size is used as often as there are experts
    on NDP with that cost, or localized reads.
    """
    cost, size = scenario.classes
    arcs, nodes, sizes = len(graph.tail), len(graph.ends), graph.sizes
    each, ones = np.arange(arcs), np.ones(arcs)
    row = np.concatenate([graph.head, graph.tail, nodes + graph.item])
    entries = (np.concatenate([ones, -ones, ones]), (row, np.tile(each, 3)))
    uses = coo_array(entries, shape=(nodes + len(sizes), arcs))
    demand = np.zeros((nodes + len(sizes), len(Path), len(size)))
    for number, of_size in enumerate(sizes.tolist()):
        demand[nodes + number, Path.NDP, cost[Path.NDP] // step == of_size] = -1
        if of_size == scenario.local_read // step:
            demand[nodes + number, LOCAL_READS] = -1
    low, high = np.zeros(nodes + len(sizes)), np.zeros(nodes + len(sizes))
    high[:nodes][graph.ends] = scenario.dimms
    low[0], high[0] = -scenario.dimms, 0
    return csr_array(hstack([csr_array(demand.reshape(len(low), -1)), uses])), low, high


def largest_gpu_sum(scenario: SingleScenario, branch: Branch, makespan: int) -> int:
    """Return the largest time of the GPU within the makespan that a branch's schedule can have.

    Memory-bound experts cost the GPU all the same, so that there are few sums of its costs, and the
    largest is well below the makespan. Where there are many, the makespan is returned.
    """
    cost, size = scenario.classes
    sums = np.zeros(1, dtype=np.int64)
    for path, count in zip(GPU_PATHS, (scenario.hits, *branch), strict=True):
        values, at = np.unique(cost[path], return_inverse=True)
        for number, value in enumerate(values[values <= makespan].tolist()):
            most = min(count, int(size[at == number].sum()))
            if len(values) > MANY_COSTS or len(sums) * most > MANY_SUMS:
                return makespan
            sums = np.add.outer(sums, value * np.arange(most + 1)).ravel()
            sums = np.unique(sums[sums <= makespan])
    return int(sums[-1])
