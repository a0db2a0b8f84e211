"""Two questions that a flow answers: whether the DIMMs hold these items, or any schedule's."""

from time import perf_counter
from typing import Literal

import numpy as np

from .arc_flow import Graph, Items, pack
from .classes import Answer, decide, most_of
from .dive import dive
from .incumbent import Incumbent, Ints
from .prices import Prices
from .scenario import Scenario, Times

MAX_CELLS = 4_000_000
"""Largest graph, in nodes times sizes before any are left out, without rounding sizes."""

MAX_ARCS = 20_000
"""Largest graph in arcs by which the general case is decided."""

COARSE = 2000
"""Steps of a DIMM's capacity in graphs that would be too large otherwise."""

Verdict = Literal["better", "no", "open", "limit"]
"""Is there a plan: a better one was found; no; undecided; stopped."""


def packs(
    incumbent: Incumbent, leavers: Ints, makespan: int, r: int, e: int, limit_s: float
) -> Verdict:
    """Decide whether the experts that are not among the `leavers`, with ways given, can be packed.

    "no" holds whatever the leavers' ways, and whoever else leaves in the state (r, e).
    """
    begin, scenario = perf_counter(), incumbent.scenario
    sizes, experts = scenario.packed(r, e)
    capacity = makespan - r * scenario.striped_read
    step, items, graph = graph_of(scenario, sizes, capacity, int(sizes.sum()))
    bins, slots = scenario.dimms, scenario.slots
    dived = dive(graph, items.copies, bins, capacity // step, slots, limit_s)
    left_s = limit_s - (perf_counter() - begin)
    packed = pack(graph, items.copies, bins, left_s) if dived == "open" else dived
    if packed == "infeasible":
        return "no"
    if packed == "limit":
        return "limit"
    incumbent.offer(incumbent.complete(leavers), experts, items.places(packed, sizes // step))
    return "better" if incumbent.upper <= makespan else "open"


def packs_well(incumbent: Incumbent, way: Ints, makespan: int, r: int, limit_s: float) -> bool:
    """Try to pack what the DIMMs hold if the experts run so; return whether that is in time."""
    scenario = incumbent.scenario
    sizes, experts = incumbent.items_of(way)
    capacity = makespan - r * scenario.striped_read
    step, items, graph = graph_of(scenario, sizes, capacity, int(sizes.sum()))
    packed = dive(graph, items.copies, scenario.dimms, capacity // step, scenario.slots, limit_s)
    if isinstance(packed, str):
        return False
    incumbent.offer(way, experts, items.places(packed, sizes // step))
    return incumbent.upper <= makespan


def packs_somehow(
    incumbent: Incumbent, makespan: int, r: int, e: int, prices: Prices | None, limit_s: float
) -> Verdict:
    """Decide whether the state (r, e) has any plan within the makespan, for which `prices` hold.

    In four steps, as the later ones take longer: ways with a fractional flow, or none; these packed
    by `dive`; ways with a flow; the same in integers, if HiGHS's tolerances let pass what is none.
    """
    begin, scenario = perf_counter(), incumbent.scenario
    capacity = makespan - r * scenario.striped_read
    sizes = np.concatenate([scenario.ndp, np.full(e, scenario.local_read)])
    sizes = -np.sort(-sizes[sizes <= capacity])
    step, items, graph = graph_of(scenario, sizes, capacity, 0)
    if len(graph.item) > MAX_ARCS:
        return "open"

    def left_s() -> float:
        return max(0.0, limit_s - (perf_counter() - begin))

    question = (scenario, r, e, makespan)
    answer = decide(*question, prices, left_s(), graph, step, whole=False)
    if not isinstance(answer, str):
        if packs_well(incumbent, answer.way, makespan, r, left_s()):
            return "better"
        answer = decide(*question, prices, left_s(), graph, step)
    verdict = _take(incumbent, answer, items, step, makespan)
    if verdict != "open" or not left_s():
        return verdict
    from .in_integers import decide_in_integers

    most = most_of(*question, prices)
    answer = decide_in_integers(*question, most, left_s(), graph, step)
    return _take(incumbent, answer, items, step, makespan)


def _take(incumbent: Incumbent, answer: Answer, items: Items, step: int, makespan: int) -> Verdict:
    """Offer the plan of an answer, if it has one; "open" if that is later than the makespan."""
    if answer == "infeasible":
        return "no"
    if answer == "limit" or answer.bins is None:
        return "limit"
    sizes, experts = incumbent.items_of(answer.way)
    incumbent.offer(answer.way, experts, items.places(answer.bins, sizes // step))
    return "better" if incumbent.upper <= makespan else "open"


def graph_of(
    scenario: Scenario, sizes: Times, capacity: int, least: int
) -> tuple[int, Items, Graph]:
    """Return the step that sizes are counted in, rounded down, the items and their graph.

    The step is the sizes' divisor unless that gives too large a graph. Rounding every size down
    admits more packings, so that a "no" holds. `least` is the sum of what is packed, at least.
    """
    dimms, slots = scenario.dimms, scenario.slots
    step = int(np.gcd.reduce(sizes)) or 1
    items = Items.of(sizes // step, slots)
    if items.cells(capacity // step) > MAX_CELLS:
        step *= max(1, -(-capacity // (COARSE * step)))
        items = Items.of(sizes // step, slots)
        least -= len(sizes) * (step - 1)
    waste = dimms * (capacity // step) - least // step
    return step, items, Graph.of(items.sizes, items.copies, capacity // step, slots, waste)
