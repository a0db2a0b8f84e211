"""Moves: one expert's layout changed, or two experts' exchanged, everything else kept.

Whoever is moved chooses its device anew in every scenario: the pair of devices with the least
makespan there and, at a tie, the least sum of squared loads. With two DIMMs at the makespan no
single move lowers it, but relieving one of them is a step, and the squares see that.
"""

from typing import Any

import numpy as np

from moeopt.core.compiled import compiled
from moeopt.core.device_loads import OWN, STRIPED_READS
from moeopt.problems.layout.paths import IDLE, STRIPED, Device

from .state import (
    CHANNEL,
    EVERY_CHANNEL,
    NOBODY,
    PCIE,
    Costs,
    SearchState,
    add,
    book,
    channel_of,
    links_at,
    links_of,
    load_of,
    longest_link,
    rank,
)

GPU, CPU, NDP = Device

EPSILON = 1e-12
"""Relative fall of the squared loads that counts."""


@compiled
def allowed(at: SearchState, i: int, resident: bool, dimm: int) -> bool:
    """Tell whether there is a slot for an expert's new layout."""
    if resident and not at.resident[i] and at.free[0] <= 0:
        return False
    return bool(dimm == STRIPED or dimm == at.dimm[i] or at.free[1 + dimm] > 0)


@compiled
def devices(at: SearchState, s: int, i: int, dimm: int) -> tuple[int, int]:
    """Return the first device an expert may choose, and the one after the last."""
    if i == NOBODY or at.device[s, i] == IDLE:
        return IDLE, IDLE + 1
    return GPU, (CPU if dimm == STRIPED else NDP) + 1


@compiled
def best_devices(
    costs: Costs, at: SearchState, s: int, i: int, resident: bool, dimm: int, j: int
) -> tuple[float, float, int, int]:
    """Return the changes of makespan and squared loads, and the devices of i and j, at their best.

    Expert i gets the layout (resident, dimm); j, if not `NOBODY`, gets i's present one in exchange,
    and (resident, dimm) is j's. So no DIMMs are touched but p, where i is now, and q = dimm.
    """
    p, q = at.dimm[i], dimm
    loads, longest = at.loads, at.longest
    dimms = len(at.free) - 1
    gpu, cpu, every, total = loads[s, GPU], loads[s, CPU], loads[s, STRIPED_READS], at.own_sum[s]
    own_p = loads[s, OWN + p] if p != STRIPED else 0.0
    own_q = loads[s, OWN + q] if q != STRIPED else 0.0
    before = max(gpu, cpu, every + loads[s, OWN + longest[s, 0]])
    squares = gpu * gpu + cpu * cpu + _squares(dimms, every, total, 0.0)
    old_p, old_q = own_p, own_q
    g, c, e, o = load_of(costs, s, i, at.resident[i], p, at.device[s, i])
    gpu, cpu, every, own_p = gpu - g, cpu - c, every - e, own_p - o
    if p == q:
        own_q = own_p
    if j != NOBODY:
        g, c, e, o = load_of(costs, s, j, resident, q, at.device[s, j])
        gpu, cpu, every, own_q = gpu - g, cpu - c, every - e, own_q - o
        if p == q:
            own_p = own_q
    rest = 0.0
    for k in range(3):
        d = longest[s, k]
        if d != NOBODY and d != p and d != q:
            rest = loads[s, OWN + d]
            break
    linked = loads.shape[1] > links_at(at)
    if linked:
        before = max(before, longest_link(at, s))
    best, best_squares, best_i, best_j = np.inf, np.inf, IDLE, IDLE
    first_i, end_i = devices(at, s, i, q)
    first_j, end_j = devices(at, s, j, p)
    for device_i in range(first_i, end_i):
        gi, ci, ei, oi = load_of(costs, s, i, resident, q, device_i)
        for device_j in range(first_j, end_j):
            gj, cj, ej, oj = 0.0, 0.0, 0.0, 0.0
            if j != NOBODY:
                gj, cj, ej, oj = load_of(costs, s, j, at.resident[i], p, device_j)
            new_p, new_q = own_p + oj, own_q + oi
            if p == q:
                new_p = new_q = own_p + oi + oj
            g, c, e = gpu + gi + gj, cpu + ci + cj, every + ei + ej
            most = rest
            more, of_squares = 0.0, 0.0
            if p != STRIPED:
                most = max(most, new_p)
                more += new_p - old_p
                of_squares += new_p * new_p - old_p * old_p
            if q != STRIPED and q != p:
                most = max(most, new_q)
                more += new_q - old_q
                of_squares += new_q * new_q - old_q * old_q
            span = max(g, c, e + most)
            if linked and span <= best:  # else it is no better, whatever the links say
                span = max(span, link_after(costs, at, s, i, resident, q, j, device_i, device_j))
            square = g * g + c * c + _squares(dimms, e, total + more, of_squares)
            if span < best or (span == best and square < best_squares):
                best, best_squares, best_i, best_j = span, square, device_i, device_j
    return best - before, best_squares - squares, best_i, best_j


@compiled
def link_after(
    costs: Costs,
    at: SearchState,
    s: int,
    i: int,
    resident: bool,
    dimm: int,
    j: int,
    device_i: int,
    device_j: int,
) -> Any:
    """Return how long PCIe or the busiest channel is busy after a move, see `best_devices`."""
    p, q, loads, links = at.dimm[i], dimm, at.loads, links_at(at)
    copy, left = links_of(costs, s, i, at.resident[i], p, at.device[s, i])
    more, came = links_of(costs, s, i, resident, q, device_i)
    pcie, on_p, on_q = loads[s, links + PCIE] + more - copy, -left, came
    if j != NOBODY:
        copy, left = links_of(costs, s, j, resident, q, at.device[s, j])
        more, came = links_of(costs, s, j, at.resident[i], p, device_j)
        pcie, on_p, on_q = pcie + more - copy, on_p + came, on_q - left
    every, most = loads[s, links + EVERY_CHANNEL], 0.0
    if p == STRIPED:
        every += on_p
    if q == STRIPED:
        every += on_q
    channel_p, channel_q = channel_of(costs, p), channel_of(costs, q)
    for channel in range(loads.shape[1] - links - CHANNEL):
        load = loads[s, links + CHANNEL + channel]
        if channel == channel_p:
            load += on_p
        if channel == channel_q:
            load += on_q
        most = max(most, load)
    return max(pcie, every + most)


@compiled
def _squares(dimms: int, every: float, total: float, squares: float) -> float:
    """Return the sum of (every + own)**2 over the DIMMs from the sums of own and own**2."""
    return dimms * every * every + 2 * every * total + squares


@compiled
def change(
    costs: Costs, at: SearchState, i: int, resident: bool, dimm: int, j: int
) -> tuple[float, float]:
    """Return the weighted changes of makespans and of squared loads, a fall by rounding apart."""
    spans = squares = scale = 0.0
    for s in range(len(costs.weight)):
        if at.device[s, i] != IDLE or (j != NOBODY and at.device[s, j] != IDLE):
            span, square, _, _ = best_devices(costs, at, s, i, resident, dimm, j)
            spans += costs.weight[s] * span
            squares += costs.weight[s] * square
            busy = at.loads[s, STRIPED_READS] + at.loads[s, OWN + at.longest[s, 0]]
            scale += costs.weight[s] * busy * busy
    if squares < 0 and squares >= -EPSILON * scale:
        squares = 0.0
    return spans, squares


@compiled
def move(costs: Costs, at: SearchState, i: int, resident: bool, dimm: int, j: int) -> None:
    """Give i a layout, j (if not `NOBODY`) i's old one, and both the best devices."""
    old_resident, old_dimm = at.resident[i], at.dimm[i]
    device_i, device_j = IDLE, IDLE
    for s in range(len(costs.weight)):
        _, _, device_i, device_j = best_devices(costs, at, s, i, resident, dimm, j)
        book(costs, at, s, i, -1)
        if j != NOBODY:
            book(costs, at, s, j, -1)
        at.device[s, i] = device_i
        add(costs, at, s, i, resident, dimm, device_i, 1)
        if j != NOBODY:
            at.device[s, j] = device_j
            add(costs, at, s, j, old_resident, old_dimm, device_j, 1)
        rank(at, s)
    at.resident[i], at.dimm[i] = resident, dimm
    if j != NOBODY:
        at.resident[j], at.dimm[j] = old_resident, old_dimm
        return
    at.free[0] -= int(resident) - int(old_resident)
    if old_dimm != STRIPED:
        at.free[1 + old_dimm] += 1
    if dimm != STRIPED:
        at.free[1 + dimm] -= 1
