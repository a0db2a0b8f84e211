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


MANY_COSTS = 6
"""With more different costs there is a sum of them near every makespan."""


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
    cost, size = scenario.classes
    room = makespan - striped_reads * scenario.striped_read
    unit = max(makespan, 1) / LONGEST
    columns, classes = cost.size, len(size)
    rows = np.zeros((7, 6, classes))
    rows[0, ON_GPU], rows[1, ON_CPU] = cost[ON_GPU] / unit, cost[ON_CPU] / unit
    rows[2, NDP], rows[2, LOCAL] = cost[NDP] / unit, scenario.local_read / unit
    rows[3, HIT], rows[4, STRIPED], rows[5, LOCAL] = 1, 1, 1
    rows[6, NDP], rows[6, LOCAL] = 1, 1
    limit = makespan / unit + MARGIN
    gpu_limit = latest(scenario, striped_reads, local_reads, makespan) / unit + MARGIN
    together = (1 - to_spare) * scenario.dimms * room / unit + MARGIN
    lower = [-np.inf, -np.inf, -np.inf, 0, striped_reads, local_reads, 0]
    slots = scenario.dimms * scenario.slots
    upper = [gpu_limit, limit, together, scenario.hits, striped_reads, local_reads, slots]
    rows[:3, most == 0] = 0
    matrix = csr_array(np.vstack([rows.reshape(7, -1), np.hstack([np.eye(classes)] * 6)]))
    lower_all, upper_all = np.concatenate([lower, size]), np.concatenate([upper, size])
    lows, highs = np.zeros(columns), most.ravel().astype(float)
    if graph is not None:
        flow, low, high = _flow_rows(scenario, graph, step)
        matrix = csr_array(
            vstack([hstack([matrix, csr_array((matrix.shape[0], len(graph.tail)))]), flow])
        )
        lower_all, upper_all = np.concatenate([lower_all, low]), np.concatenate([upper_all, high])
        lows = np.concatenate([lows, np.zeros(len(graph.tail))])
        highs = np.concatenate([highs, np.full(len(graph.tail), scenario.experts)])
    width = len(lows)
    kind = np.ones(width, dtype=np.int64)
    if not whole:
        kind[columns:] = 0
    # Any schedule will do, but with an objective HiGHS prunes: 2 to 10 times faster than without.
    # Host time, the CPU's counted twice, did best of those tried.
    price = np.zeros(width)
    price[:columns] = (rows[0] + 2 * rows[1]).ravel()
    if graph is not None:
        price[columns:] = LONGEST / 100 * preference(graph)
    program = Program(price, lows, highs, kind, matrix, lower_all, upper_all)
    found = minimize(program, limit_s, relative_gap=ANY_SCHEDULE)
    if found.values is None:
        return "infeasible" if found.status == "infeasible" else "limit"
    values = np.rint(found.values).astype(np.int64)
    way = scenario.ways(values[:columns].reshape(6, classes))
    return Ways(way, bins_of(graph, values[columns:]) if graph is not None and whole else None)


def latest(scenario: Scenario, striped_reads: int, local_reads: int, makespan: int) -> int:
    """Return when the GPU can be done at the latest within the makespan.

    Memory-bound experts cost it all the same, so that there are few sums of its costs; where there
    are many, the makespan is returned.
    """
    cost, size = scenario.classes
    reads = {HIT: scenario.hits, ON_GPU[1]: striped_reads, ON_GPU[2]: local_reads}
    kinds = {way: np.unique(cost[way], return_inverse=True) for way in reads}
    if sum(len(values) for values, _ in kinds.values()) > MANY_COSTS:
        return makespan
    times = np.zeros(1, dtype=np.int64)
    for way, (values, at) in kinds.items():
        for number, value in enumerate(values.tolist()):
            most = min(reads[way], int(size[at == number].sum()))
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
