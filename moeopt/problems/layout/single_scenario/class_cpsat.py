"""The subproblems of `class_milp` and `arc_flow` once more, in CP-SAT's integers.

HiGHS works to tolerances, and where hosts bind a nanosecond decides. CP-SAT has none; it takes
longer, so that it is used where HiGHS gives a schedule that is none, where HiGHS is slow, and, with
``Search.verify``, to confirm refutations.
"""

from collections.abc import Sequence

import numpy as np
from ortools.sat.python import cp_model

from moeopt.numeric.feasibility import Feasibility
from moeopt.problems.layout.paths import Path

from .arc_flow import Graph, Packing, decompose
from .class_milp import ClassAnswer, ClassProblem, largest_gpu_sum
from .scenario import CPU_PATHS, GPU_PATHS, LOCAL_READS, STRIPED_READS, Ints


def solve_class_cpsat(problem: ClassProblem, limit_s: float) -> ClassAnswer:
    """Decide a class problem with CP-SAT within `limit_s` seconds."""
    scenario, makespan, graph = problem.scenario, problem.makespan, problem.graph
    if problem.refuted:
        return ClassAnswer(Feasibility.INFEASIBLE)
    cost, size = scenario.classes
    model = cp_model.CpModel()
    count = [[model.new_int_var(0, top, "") for top in row]
             for row in problem.max_counts().tolist()]  # fmt: skip
    for number, experts in enumerate(size.tolist()):
        model.add(sum(of_path[number] for of_path in count) == experts)  # LA-C1

    def used(paths: Sequence[Path]) -> list[cp_model.IntVar]:
        return [v for path in paths for v in count[path]]

    def times(paths: Sequence[Path]) -> list[int]:
        return [int(t) for path in paths for t in np.minimum(cost[path], makespan + 1)]

    gpu_limit = largest_gpu_sum(scenario, problem.branch, makespan)
    for host, limit in ((GPU_PATHS, gpu_limit), (CPU_PATHS, makespan)):  # LA-C5, LA-C6
        model.add(cp_model.LinearExpr.weighted_sum(used(host), times(host)) <= limit)
    model.add(sum(count[Path.HIT]) <= scenario.hits)  # LA-C3
    model.add(sum(used(STRIPED_READS)) == problem.branch.striped)
    model.add(sum(used(LOCAL_READS)) == problem.branch.local)
    localized = used([Path.NDP, *LOCAL_READS])
    model.add(sum(localized) <= scenario.dimms * scenario.slots)  # the sum of LA-C4
    work = times([Path.NDP]) + [int(scenario.local_read)] * len(size) * len(LOCAL_READS)
    total = cp_model.LinearExpr.weighted_sum(localized, work)
    model.add(total <= scenario.dimms * problem.capacity)  # the sum of LA-C7
    arcs = []
    if graph is not None:
        arcs = _add_flow(model, graph, scenario.dimms, scenario.experts)
        for number, of_size in enumerate(graph.sizes.tolist()):
            at = np.flatnonzero(cost[Path.NDP] // problem.step == of_size)
            demand = [count[Path.NDP][c] for c in at]
            if of_size == scenario.local_read // problem.step:
                demand += used(LOCAL_READS)
            model.add(sum(arcs[a] for a in np.flatnonzero(graph.item == number)) == sum(demand))
    feasibility, solver = _solve(model, limit_s)
    if feasibility != Feasibility.FEASIBLE:
        return ClassAnswer(feasibility)
    chosen = np.array([[solver.value(v) for v in row] for row in count], dtype=np.int64)
    bins = None if graph is None else decompose(graph, _values(solver, arcs))
    return ClassAnswer(feasibility, scenario.expand(chosen), bins)


def pack_cpsat(
    graph: Graph, copies: Ints, bins: int, limit_s: float
) -> tuple[Feasibility, Packing]:
    """Decide what `arc_flow.pack` decides with CP-SAT within `limit_s` seconds."""
    model = cp_model.CpModel()
    arcs = _add_flow(model, graph, bins, int(copies.sum()))
    for number, demand in enumerate(copies.tolist()):
        model.add(sum(arcs[a] for a in np.flatnonzero(graph.item == number)) == demand)
    feasibility, solver = _solve(model, limit_s)
    if feasibility != Feasibility.FEASIBLE:
        return feasibility, []
    return feasibility, decompose(graph, _values(solver, arcs))


def _add_flow(model: cp_model.CpModel, graph: Graph, bins: int, most: int) -> list[cp_model.IntVar]:
    """Add the arcs, each used at most so often; flow is conserved at each node, or ends there."""
    arcs = [model.new_int_var(0, most, "") for _ in graph.tail]
    into: list[list[cp_model.IntVar]] = [[] for _ in graph.ends]
    out: list[list[cp_model.IntVar]] = [[] for _ in graph.ends]
    for arc, tail, head in zip(arcs, graph.tail, graph.head, strict=True):
        out[tail].append(arc)
        into[head].append(arc)
    model.add(sum(out[0]) <= bins)
    for node in range(1, len(graph.ends)):
        if graph.ends[node]:
            model.add(sum(into[node]) >= sum(out[node]))
        else:
            model.add(sum(into[node]) == sum(out[node]))
    return arcs


def _solve(model: cp_model.CpModel, limit_s: float) -> tuple[Feasibility, cp_model.CpSolver]:
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.linearization_level = 2  # most refutations are linear programs
    solver.parameters.max_time_in_seconds = limit_s
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return Feasibility.INFEASIBLE, solver
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Feasibility.FEASIBLE, solver
    return Feasibility.UNKNOWN, solver


def _values(solver: cp_model.CpSolver, variables: list[cp_model.IntVar]) -> Ints:
    return np.array([solver.value(v) for v in variables], dtype=np.int64)
