"""Layouts with hindsight, each with TriMoE's online schedule per scenario.

All of them see the scenarios that they are measured on: the loads are known, not predicted. Hot,
warm and cold go by the weighted sum of an expert's tokens over the scenarios (ties: lowest number).
What a system could know, and the layouts that other systems use, are in `systems`.
"""

from collections.abc import Callable, Iterator
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from moeopt.core.clock import out_of_time
from moeopt.problems.cold_cut import DEFAULT as DEFAULT_CUT
from moeopt.problems.cold_cut import ColdCut

from .bounds import lower_bound
from .check import objective
from .copies import within_memory
from .instance import Instance, Solution, with_idle_localized
from .paths import Path
from .systems import Layout, weighted_sums

MAX_WORK = 3 * 10**8
"""Scenarios x experts**2 x cold shares that a search over the shares may look at."""

MOVES = 20_000
"""Moves in a first round of `local_search`; 100,000 make 0.07 points of the median excess."""

Packing = Callable[[NDArray[np.int64]], NDArray[np.int64]]
"""Gives each of the experts to be localized, hottest first, a DIMM."""


def trimoe_layout(
    instance: Instance,
    *,
    cold_cut: str = DEFAULT_CUT,
    tie_order: str = "cpu",
    refinement: str = "one",
) -> Solution:
    """Keep hot experts resident, stripe warm ones, localize cold ones (TriMoE 4.3 and 3.1).

    The paper only says "localizing cold experts onto single DIMMs": resident are the `hbm_slots`
    experts with most tokens; cold are those that the assumption `cold_cut` says; they go to the
    DIMMs in turn, by falling load. If `dimm_slots` is too small for all, the coldest are localized.
    A resident expert is never cold: its host copy is striped. An expert without tokens counts among
    the coldest and has no layout. The schedules are TriMoE's (4.2).
    """
    loads = weighted_sums(instance, instance.path_times.tokens)
    count = ColdCut.parse(cold_cut).count(loads)
    reading = {"tie_order": tie_order, "refinement": refinement}
    return _best(instance, round_robin(instance), [count], **reading)


def trimoe_layout_tuned(
    instance: Instance, *, tie_order: str = "cpu", refinement: str = "one"
) -> Solution:
    """Do as `trimoe-layout` with the share of cold experts that gives the best objective.

    The paper calls the layout "optimized", and the share is what the offline analysis can choose.
    Every share is tried, or evenly spaced ones where that would be more than `MAX_WORK`.
    """
    reading = {"tie_order": tie_order, "refinement": refinement}
    return _best(instance, round_robin(instance), cold_counts_of(instance), **reading)


def lpt(instance: Instance) -> Solution:
    """Do as `trimoe-layout-tuned`, but pack the cold experts by longest processing time first.

    By falling weighted sum of NDP costs, each cold expert goes to the DIMM whose sum is least so
    far among those with a slot left (ties: lowest DIMM).
    """
    return _best(instance, longest_first(instance), cold_counts_of(instance))


def local_search(instance: Instance) -> Solution:
    """Improve the best of the others by annealing, see `moeopt.problems.layout.annealing`.

    Where several copies are permitted as in `moeopt.problems.layout.with_copies`.
    """
    if instance.copies is not None:
        from .with_copies import improved

        return improved(instance)
    from .rounds import in_turn  # compiled loops are imported when they are run

    rules = [rule(instance) for rule in (trimoe_layout, trimoe_layout_tuned, lpt)]
    best = min(rules, key=lambda solution: objective(instance, solution))
    bound = lower_bound(instance)
    for found in in_turn(instance, best, 1, MOVES, out_of_time):
        best = min(best, found, key=lambda solution: objective(instance, solution))
        if out_of_time() or objective(instance, best) == bound:
            break
    return best


def warm_start(instance: Instance) -> Solution:
    """Return longest first, its ties as exact methods have them (`idle`)."""
    return with_idle_localized(instance, lpt(instance))


WARM_START = warm_start
"""The heuristic whose solution the exact methods start from."""


def round_robin(instance: Instance) -> Packing:
    """Give the experts to the DIMMs in turn."""
    return lambda cold: np.arange(len(cold)) % instance.dimms


def longest_first(instance: Instance) -> Packing:
    """Give each expert, longest on NDP first, to the DIMM with the least NDP work so far."""
    length = weighted_sums(instance, instance.path_times.cost[Path.NDP])
    slots = instance.experts if instance.dimm_slots is None else instance.dimm_slots

    def pack(cold: NDArray[np.int64]) -> NDArray[np.int64]:
        place = np.zeros(len(cold), dtype=np.int64)
        held = [0] * instance.dimms
        open_dimms = [(0, dimm) for dimm in range(instance.dimms)]
        for at, row in sorted(enumerate(cold.tolist()), key=lambda item: (-length[item[1]], item)):
            busy, place[at] = heappop(open_dimms)
            held[place[at]] += 1
            if held[place[at]] < slots:
                heappush(open_dimms, (busy + length[row], int(place[at])))
        return place

    return pack


def _best(instance: Instance, packing: Packing, cold_counts: list[int], **reading: str) -> Solution:
    """Return the best solution over the given numbers of cold experts (ties: the first)."""
    from .second_stage import as_solution, refined  # compiled loops are imported when run

    def tried() -> Iterator[tuple[int, Layout, NDArray[np.int64]]]:
        for layout in family(instance, packing, cold_counts):
            device, makespans = refined(instance, layout, **reading)
            yield _weighted(instance, makespans), layout, device

    _, layout, device = min(tried(), key=lambda of: of[0])
    return as_solution(instance, layout, device)


def _weighted(instance: Instance, makespans: list[int]) -> int:
    pairs = zip(instance.scenarios, makespans, strict=True)
    return sum(scenario.weight * makespan for scenario, makespan in pairs)


def family(instance: Instance, packing: Packing, cold_counts: list[int]) -> Iterator[Layout]:
    """Yield a layout for each number of cold experts."""
    order = _hottest_first(instance)
    idle = instance.experts - len(order)
    room = len(order) if instance.dimm_slots is None else instance.dimm_slots * instance.dimms
    resident = np.zeros(instance.experts, dtype=np.bool_)
    resident[order[: instance.hbm_slots]] = True
    for count in cold_counts:
        local = min(max(count - idle, 0), room, len(order) - int(resident.sum()))
        dimm = np.full(instance.experts, -1)
        cold = order[len(order) - local :]
        dimm[cold] = packing(cold)
        yield Layout(resident, within_memory(instance, dimm))


def _hottest_first(instance: Instance) -> NDArray[np.int64]:
    """Return the experts with tokens by falling weighted sum of tokens (ties: lowest number)."""
    loads = weighted_sums(instance, instance.path_times.tokens)
    rows = [row for row in range(instance.experts) if loads[row]]
    return np.array(sorted(rows, key=lambda row: (-loads[row], row)), dtype=np.int64)


def cold_counts_of(instance: Instance) -> list[int]:
    """Return the numbers of cold experts to try: all, or evenly spaced ones (`MAX_WORK`)."""
    counts = MAX_WORK // (len(instance.scenarios) * instance.experts**2)
    if counts > instance.experts:
        return list(range(instance.experts + 1))
    steps = max(counts, 1)
    return sorted({round(k * instance.experts / steps) for k in range(steps + 1)})
