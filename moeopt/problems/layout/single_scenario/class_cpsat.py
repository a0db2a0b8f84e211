"""The subproblems of `classes` and `arc_flow` in CP-SAT: in integers, as a nanosecond decides."""

import numpy as np

from moeopt.core import cpsat
from moeopt.core.formulation import cp_model
from moeopt.core.search import Feasibility

from .arc_flow import Graph, Packing, decompose
from .classes import ClassAnswer, ClassProblem
from .scenario import Ints, Row


def solve_class_cpsat(problem: ClassProblem, limit_s: float) -> ClassAnswer:
    """Decide a class problem with CP-SAT within `limit_s` seconds."""
    scenario, graph = problem.scenario, problem.graph
    if problem.refuted:
        return ClassAnswer(Feasibility.INFEASIBLE)
    model, most = cp_model.CpModel(), problem.max_counts()
    count = np.array([model.new_int_var(0, top, "") for top in most.ravel().tolist()])
    by_class = count.reshape(most.shape)
    for number, experts in enumerate(scenario.classes[1].tolist()):
        model.add(sum(by_class[:, number]) == experts)  # LA-C1
    usage = np.minimum(scenario.usage, problem.makespan + 1)  # longer paths are out
    for use, least, limit in zip(usage, *problem.limits(), strict=True):
        total = cp_model.LinearExpr.weighted_sum(count.tolist(), use.ravel().tolist())
        model.add_linear_constraint(total, least, limit)
    # An objective is of no interest, but cuts and bounds need one: up to ten times faster.
    host = (usage[Row.GPU] + 2 * usage[Row.CPU]).ravel().tolist()
    model.minimize(cp_model.LinearExpr.weighted_sum(count.tolist(), host))
    arcs = []
    if graph is not None:
        arcs = _add_flow(model, graph, scenario.dimms, [scenario.experts] * len(graph.item))
        for number, demand in enumerate(problem.demand(graph)):
            used = sum(arcs[a] for a in np.flatnonzero(graph.item == number))
            model.add(used == sum(by_class[demand]))
    feasibility, answer = _solve(model, limit_s)
    if feasibility != Feasibility.FEASIBLE:
        return ClassAnswer(feasibility)
    path = scenario.expand(_values(answer, count.tolist()).reshape(most.shape))
    bins = None if graph is None else decompose(graph, _values(answer, arcs))
    return ClassAnswer(feasibility, path, bins)


def pack_cpsat(
    graph: Graph, copies: Ints, bins: int, limit_s: float
) -> tuple[Feasibility, Packing]:
    """Decide what `arc_flow.pack` decides with CP-SAT within `limit_s` seconds."""
    model = cp_model.CpModel()
    arcs = _add_flow(model, graph, bins, copies[graph.item].tolist())
    # Of no interest, but with costs flows run along few arcs, and are whole sooner.
    drawn = np.random.default_rng(0).random(len(arcs)) * graph.sizes[graph.item]
    costs = np.rint(drawn * (1000 / graph.sizes.max(initial=1))).astype(np.int64)
    model.minimize(cp_model.LinearExpr.weighted_sum(arcs, costs.tolist()))
    for number, demand in enumerate(copies.tolist()):
        model.add(sum(arcs[a] for a in np.flatnonzero(graph.item == number)) == demand)
    feasibility, answer = _solve(model, limit_s)
    if feasibility != Feasibility.FEASIBLE:
        return feasibility, []
    return feasibility, decompose(graph, _values(answer, arcs))


def _add_flow(
    model: cp_model.CpModel, graph: Graph, bins: int, most: list[int]
) -> list[cp_model.IntVar]:
    """Add the arcs, each used at most so often; flow is conserved at each node, or ends there."""
    arcs = [model.new_int_var(0, top, "") for top in most]
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


def _solve(model: cp_model.CpModel, limit_s: float) -> tuple[Feasibility, cpsat.Answer]:
    options = {
        "linearization_level": 2,  # most refutations are linear programs
        "stop_after_first_solution": True,
    }
    answer = cpsat.Run(model, limit_s, options=options).solve(proves="infeasibility")
    if answer.status == "infeasible":
        return Feasibility.INFEASIBLE, answer
    return Feasibility.FEASIBLE if answer.found else Feasibility.UNKNOWN, answer


def _values(answer: cpsat.Answer, variables: list[cp_model.IntVar]) -> Ints:
    return np.array([answer.value(v) for v in variables], dtype=np.int64)
