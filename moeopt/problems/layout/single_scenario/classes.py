"""The general case, where it matters who leaves NDP: counts per class of equal experts, in HiGHS.

Experts with equal costs are exchangeable, so a class's count per way is all there is to decide. The
question is always whether a state (r, e) has a schedule within a makespan, yes or no.

Why HiGHS's "no" is a proof. Times are divided so that the makespan is `LONGEST`, ways that take
longer are out, and `MARGIN` is added to the makespan: a schedule that exists satisfies every row
with that to spare, a hundred times HiGHS's tolerance for a row. Its "yes" is no proof: the caller
recomputes everything, and asks `in_integers` where it is none.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, hstack, vstack

from moeopt.numeric.highs import Program, Vector, minimize

from .arc_flow import Graph, bins_of, preference
from .prices import LOCAL, ON_CPU, ON_GPU, STRIPED, Prices, allowed_ways
from .scenario import HIT, NDP, Scenario

LONGEST = 10_000.0
MARGIN = 1e-4
"""The makespan in the program's units, and what is added to it."""

ANY_SCHEDULE = 10.0
"""Relative gap at which the first schedule found ends the search."""


MANY_COSTS = 3
MANY_TIMES = 100_000
"""From so many costs of one way, or sums of costs, on there is one near every makespan."""


@dataclass(frozen=True)
class Ways:
    """Ways for all experts, and with a graph the items (see `Graph`) of each DIMM."""

    way: NDArray[np.int64]
    bins: list[list[int]] | None = None


Answer = Ways | Literal["infeasible", "limit"]


def decide(
    scenario: Scenario,
    striped_reads: int,
    local_reads: int,
    makespan: int,
    prices: Prices | None,
    limit_s: float,
    graph: Graph | None = None,
    step: int = 1,
    *,
    whole: bool = True,
    to_spare: float = 0.0,
) -> Answer:
    """Return ways of a state within the makespan, or that there are none.

    Parameters
    ----------
    scenario, striped_reads, local_reads, makespan
        The question.
    prices
        Prices that hold within the makespan: `prices_at`. They shrink the program.
    limit_s
        Seconds for HiGHS.
    graph, step
        If given, the DIMMs' items flow through the graph, whose sizes are in steps of `step`,
        rounded down; otherwise the DIMMs are taken together.
    whole
        Whether the flow must be whole; if not, the ways are, and come without bins.
    to_spare
        The part of the DIMMs' room that shall be left: then they are easier to pack.
    """
    if prices is not None and prices.bound(striped_reads, local_reads) > makespan:
        return "infeasible"
    most = most_of(scenario, striped_reads, local_reads, makespan, prices)
    program = _together(scenario, striped_reads, local_reads, makespan, most, to_spare)
    if graph is not None:
        program = _with_flow(program, scenario, graph, step, whole)
    found = minimize(program, limit_s, relative_gap=ANY_SCHEDULE)
    if found.values is None:
        return "infeasible" if found.status == "infeasible" else "limit"
    values = np.rint(found.values).astype(np.int64)
    way = scenario.ways(values[: most.size].reshape(most.shape))
    return Ways(way, bins_of(graph, values[most.size :]) if graph is not None and whole else None)


def _together(
    scenario: Scenario,
    striped_reads: int,
    local_reads: int,
    makespan: int,
    most: NDArray[np.int64],
    to_spare: float,
) -> Program:
    """Return the program of how many of each class go each way, the DIMMs taken together."""
    cost, size = scenario.classes
    room = makespan - striped_reads * scenario.striped_read
    unit = max(makespan, 1) / LONGEST
    classes = len(size)
    rows = np.zeros((7, 6, classes))
    rows[0, ON_GPU], rows[1, ON_CPU] = cost[ON_GPU] / unit, cost[ON_CPU] / unit
    rows[2, NDP], rows[2, LOCAL] = cost[NDP] / unit, scenario.local_read / unit
    rows[3, HIT], rows[4, STRIPED], rows[5, LOCAL] = 1, 1, 1
    rows[6, NDP], rows[6, LOCAL] = 1, 1
    rows[:3, most == 0] = 0
    gpu = latest(scenario, striped_reads, local_reads, makespan) / unit + MARGIN
    cpu = makespan / unit + MARGIN
    together = (1 - to_spare) * scenario.dimms * room / unit + MARGIN
    lower = [-np.inf, -np.inf, -np.inf, 0, striped_reads, local_reads, 0]
    slots = scenario.dimms * scenario.slots
    upper = [gpu, cpu, together, scenario.hits, striped_reads, local_reads, slots]
    # Any schedule will do, but with an objective HiGHS prunes: 2 to 10 times faster than without.
    # Host time, the CPU's counted twice, did best of those tried.
    price = (rows[0] + 2 * rows[1]).ravel()
    matrix = np.vstack([rows.reshape(7, -1), np.hstack([np.eye(classes)] * 6)])
    return Program(
        price,
        np.zeros(most.size),
        most.ravel().astype(float),
        np.ones(most.size, dtype=np.int64),
        csr_array(matrix),
        np.concatenate([lower, size]),
        np.concatenate([upper, size]),
    )


def _with_flow(
    program: Program, scenario: Scenario, graph: Graph, step: int, whole: bool
) -> Program:
    """Return the program with each DIMM for itself: columns for the arcs, rows for the flow."""
    arcs = len(graph.tail)
    flow, low, high = _flow_rows(scenario, graph, step)
    beside = csr_array((program.rows.shape[0], arcs))
    return Program(
        np.concatenate([program.cost, LONGEST / 100 * preference(graph)]),
        np.concatenate([program.lower, np.zeros(arcs)]),
        np.concatenate([program.upper, np.full(arcs, scenario.experts)]),
        np.concatenate([program.integer, np.full(arcs, int(whole))]),
        csr_array(vstack([hstack([program.rows, beside]), flow])),
        np.concatenate([program.row_lower, low]),
        np.concatenate([program.row_upper, high]),
    )


def latest(scenario: Scenario, striped_reads: int, local_reads: int, makespan: int) -> int:
    """Return when the GPU can be done at the latest within the makespan, in such a state.

    Memory-bound experts cost it all the same, so that there are few sums of its costs, and the last
    one is well before the makespan. Where there are many, the makespan is returned.
    """
    cost, size = scenario.classes
    times = np.zeros(1, dtype=np.int64)
    for way, reads in zip(ON_GPU, (scenario.hits, striped_reads, local_reads), strict=True):
        values, at = np.unique(cost[way], return_inverse=True)
        for number, value in enumerate(values[values <= makespan].tolist()):
            most = min(reads, int(size[at == number].sum()))
            if len(values) > MANY_COSTS or len(times) * most > MANY_TIMES:
                return makespan
            times = np.add.outer(times, value * np.arange(most + 1)).ravel()
            times = np.unique(times[times <= makespan])
    return int(times[-1])


def most_of(
    scenario: Scenario,
    striped_reads: int,
    local_reads: int,
    makespan: int,
    prices: Prices | None,
) -> NDArray[np.int64]:
    """Return how many of each class may go each way within the makespan, shape (6, classes)."""
    cost, size = scenario.classes
    room = makespan - striped_reads * scenario.striped_read
    allowed = allowed_ways(scenario, room) & (cost <= makespan)
    if room < scenario.local_read:
        allowed[LOCAL] = False
    most = np.where(allowed, size, 0)
    if prices is not None:
        most = np.minimum(most, prices.most(striped_reads, local_reads, makespan))
    return most


def _flow_rows(scenario: Scenario, graph: Graph, step: int) -> tuple[csr_array, Vector, Vector]:
    """Return the rows of the flow, over the classes' columns and the arcs', and their limits.

    What flows into a node flows out, or ends there; each size is used as often as the experts with
    that NDP cost, or the localized reads, ask for.
    """
    cost, size = scenario.classes
    arcs, nodes, sizes = len(graph.tail), len(graph.ends), graph.sizes
    each, ones = np.arange(arcs), np.ones(arcs)
    row = np.concatenate([graph.head, graph.tail, nodes + graph.item])
    entries = (np.concatenate([ones, -ones, ones]), (row, np.tile(each, 3)))
    uses = coo_array(entries, shape=(nodes + len(sizes), arcs))
    asked = np.zeros((nodes + len(sizes), 6, len(size)))
    for number, of_size in enumerate(sizes.tolist()):
        asked[nodes + number, NDP, cost[NDP] // step == of_size] = -1
        if of_size == scenario.local_read // step:
            asked[nodes + number, LOCAL] = -1
    low, high = np.zeros(nodes + len(sizes)), np.zeros(nodes + len(sizes))
    high[:nodes][graph.ends] = scenario.dimms
    low[0], high[0] = -scenario.dimms, 0
    return csr_array(hstack([csr_array(asked.reshape(len(low), -1)), uses])), low, high
