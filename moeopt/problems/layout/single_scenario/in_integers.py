"""The general case once more, in CP-SAT's integers: where the plan that HiGHS sees is none.

HiGHS works to tolerances, and where hosts bind a nanosecond decides. CP-SAT has none; it takes
longer to begin with, so that it is asked last.
"""

import numpy as np
from numpy.typing import NDArray
from ortools.sat.python import cp_model

from .arc_flow import Graph, bins_of
from .classes import Answer, Ways
from .prices import LOCAL, ON_CPU, ON_GPU, STRIPED
from .scenario import HIT, NDP, Scenario


def decide_in_integers(
    scenario: Scenario,
    striped_reads: int,
    local_reads: int,
    makespan: int,
    most: NDArray[np.int64],
    limit_s: float,
    graph: Graph | None = None,
    step: int = 1,
) -> Answer:
    """Return ways of a state within the makespan and with bins in the graph, or that none are.

    Parameters
    ----------
    scenario, striped_reads, local_reads, makespan
        The question.
    most
        Shape (6, classes): how many of each class may go each way.
    limit_s
        Seconds for CP-SAT.
    graph, step
        The DIMMs' items flow through the graph, whose sizes are in steps of `step`, rounded down.
    """
    cost, size = scenario.classes
    model = cp_model.CpModel()
    count = [[model.new_int_var(0, int(top), "") for top in way] for way in most]
    for number, experts in enumerate(size.tolist()):
        model.add(sum(way[number] for way in count) == experts)
    for ways in (ON_GPU, ON_CPU):
        terms = [v for way in ways for v in count[way]]
        times = [int(t) for way in ways for t in np.minimum(cost[way], makespan + 1)]
        model.add(cp_model.LinearExpr.weighted_sum(terms, times) <= makespan)
    model.add(sum(count[HIT]) <= scenario.hits)
    model.add(sum(v for way in STRIPED for v in count[way]) == striped_reads)
    model.add(sum(v for way in LOCAL for v in count[way]) == local_reads)
    model.add(
        sum(v for way in (NDP, *LOCAL) for v in count[way]) <= scenario.dimms * scenario.slots
    )
    reads = [int(scenario.local_read)] * len(size)
    terms = [v for way in (NDP, *LOCAL) for v in count[way]]
    times = [int(t) for t in np.minimum(cost[NDP], makespan + 1)] + reads * len(LOCAL)
    room = makespan - striped_reads * scenario.striped_read
    model.add(cp_model.LinearExpr.weighted_sum(terms, times) <= scenario.dimms * room)
    arcs = [] if graph is None else _add_flow(model, scenario, graph, step, count)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = limit_s
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return "infeasible"
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return "limit"
    chosen = np.array([[solver.value(v) for v in way] for way in count], dtype=np.int64)
    if graph is None:
        return Ways(scenario.ways(chosen))
    flow = np.array([solver.value(v) for v in arcs], dtype=np.int64)
    return Ways(scenario.ways(chosen), bins_of(graph, flow))


def _add_flow(
    model: cp_model.CpModel,
    scenario: Scenario,
    graph: Graph,
    step: int,
    count: list[list[cp_model.IntVar]],
) -> list[cp_model.IntVar]:
    """Add the DIMMs: what flows into a node flows out or ends there, as often as experts ask."""
    cost, _ = scenario.classes
    arcs = [model.new_int_var(0, scenario.experts, "") for _ in graph.tail]
    into: list[list[cp_model.IntVar]] = [[] for _ in graph.ends]
    out: list[list[cp_model.IntVar]] = [[] for _ in graph.ends]
    used: list[list[cp_model.IntVar]] = [[] for _ in graph.sizes]
    for arc, tail, head, item in zip(arcs, graph.tail, graph.head, graph.item, strict=True):
        out[tail].append(arc)
        into[head].append(arc)
        used[item].append(arc)
    model.add(sum(out[0]) <= scenario.dimms)
    for node in range(1, len(graph.ends)):
        if graph.ends[node]:
            model.add(sum(into[node]) >= sum(out[node]))
        else:
            model.add(sum(into[node]) == sum(out[node]))
    for arcs_of, of_size in zip(used, graph.sizes.tolist(), strict=True):
        asked = [count[NDP][c] for c in np.flatnonzero(cost[NDP] // step == of_size)]
        if of_size == scenario.local_read // step:
            asked += [v for way in LOCAL for v in count[way]]
        model.add(sum(arcs_of) == sum(asked))
    return arcs
