"""Moves of a layout search in compiled loops: one expert's layout changed, or two exchanged.

A move changes the layout of one or two experts and lets these choose their domains anew in every
scenario; the other experts stay as they are. Moves are compared by the weighted sum of makespans
and, at a tie, by the weighted sum of squared loads: with two DIMMs at the makespan no single move
lowers it, but relieving one of them is a step. Times are floats here (exact below 2**53 ns): they
guide the search, and the judge counts what it finds.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moeopt.numeric.compiled import compiled

from .paths import IDLE, PATH_OF, STRIPED, Device

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

NOBODY = -1
GPU, CPU, NDP = Device
EVERY, SUM, OWN = 2, 3, 4
"""Columns of `State.loads`, after GPU and CPU."""
EPSILON = 1e-12
"""Relative fall of the squared loads that counts."""


class Costs(NamedTuple):
    """The instance: one array for all times, since each array costs compile time.

    `time` and `read` are `cost` and `read` of `paths.PathTimes`, over a common unit.
    """

    weight: Floats
    time: Floats
    read: Floats


class State(NamedTuple):
    """A layout with its schedules, and what follows from them.

    `choice` is `IDLE` where an expert has no tokens. `loads` has shape (scenarios, OWN + dimms):
    GPU, CPU, striped reads, sum of the DIMMs' own loads, and from `OWN` on these. `top` holds each
    scenario's three DIMMs of largest own load, largest first (`NOBODY` if fewer). `free` counts the
    slots left for residents and then on each DIMM.
    """

    resident: NDArray[np.bool_]
    dimm: Integers
    choice: Integers
    loads: Floats
    top: Integers
    free: Integers


@compiled
def load(
    costs: Costs, s: int, i: int, resident: bool, dimm: int, domain: int
) -> tuple[float, float, float, float]:
    """Return what an expert adds to the GPU, the CPU, every DIMM and its own DIMM."""
    if domain == IDLE:
        return 0.0, 0.0, 0.0, 0.0
    path = PATH_OF[domain, int(dimm != STRIPED), int(resident)]
    time, read = costs.time[path, s, i], costs.read[path]
    gpu = time if domain == GPU else 0.0
    cpu = time if domain == CPU else 0.0
    if dimm == STRIPED:
        return gpu, cpu, read, 0.0
    return gpu, cpu, 0.0, time if domain == NDP else read


@compiled
def _add(at: State, s: int, dimm: int, gpu: float, cpu: float, every: float, own: float) -> None:
    loads = at.loads
    loads[s, GPU] += gpu
    loads[s, CPU] += cpu
    loads[s, EVERY] += every
    if dimm != STRIPED:
        loads[s, SUM] += own
        loads[s, OWN + dimm] += own


@compiled
def book(costs: Costs, at: State, s: int, i: int, sign: float) -> None:
    """Add (or, with sign -1, take away) an expert's load in a scenario; `top` is not kept."""
    gpu, cpu, every, own = load(costs, s, i, at.resident[i], at.dimm[i], at.choice[s, i])
    _add(at, s, at.dimm[i], sign * gpu, sign * cpu, sign * every, sign * own)


@compiled
def rank(at: State, s: int) -> None:
    """Find the three DIMMs with the largest loads of their own."""
    top, loads = at.top, at.loads
    for d in range(loads.shape[1] - OWN):
        k = min(d, 3)
        while k > 0 and loads[s, OWN + d] > loads[s, OWN + top[s, k - 1]]:
            if k < 3:
                top[s, k] = top[s, k - 1]
            k -= 1
        if k < 3:
            top[s, k] = d


@compiled
def choices(at: State, s: int, i: int, dimm: int) -> tuple[int, int]:
    """Return the first domain an expert may choose, and the one after the last."""
    if i == NOBODY or at.choice[s, i] == IDLE:
        return IDLE, IDLE + 1
    return GPU, (CPU if dimm == STRIPED else NDP) + 1


@compiled
def best_domains(
    costs: Costs, at: State, s: int, i: int, resident: bool, dimm: int, j: int
) -> tuple[float, float, int, int]:
    """Return the changes of makespan and squared loads, and the domains of i and j, at their best.

    Expert i gets the layout (resident, dimm); j, if not `NOBODY`, gets i's present one in exchange,
    and (resident, dimm) is j's. So no DIMMs are touched but p, where i is now, and q = dimm.
    """
    p, q = at.dimm[i], dimm
    loads, top = at.loads, at.top
    dimms = loads.shape[1] - OWN
    gpu, cpu, every, total = loads[s, GPU], loads[s, CPU], loads[s, EVERY], loads[s, SUM]
    own_p = loads[s, OWN + p] if p != STRIPED else 0.0
    own_q = loads[s, OWN + q] if q != STRIPED else 0.0
    before = max(gpu, cpu, every + loads[s, OWN + top[s, 0]])
    squares = gpu * gpu + cpu * cpu + _squares(dimms, every, total, 0.0)
    old_p, old_q = own_p, own_q
    g, c, e, o = load(costs, s, i, at.resident[i], p, at.choice[s, i])
    gpu, cpu, every, own_p = gpu - g, cpu - c, every - e, own_p - o
    if p == q:
        own_q = own_p
    if j != NOBODY:
        g, c, e, o = load(costs, s, j, resident, q, at.choice[s, j])
        gpu, cpu, every, own_q = gpu - g, cpu - c, every - e, own_q - o
        if p == q:
            own_p = own_q
    rest = 0.0
    for k in range(3):
        d = top[s, k]
        if d != NOBODY and d != p and d != q:
            rest = loads[s, OWN + d]
            break
    best, best_squares, best_i, best_j = np.inf, np.inf, IDLE, IDLE
    first_i, end_i = choices(at, s, i, q)
    first_j, end_j = choices(at, s, j, p)
    for domain_i in range(first_i, end_i):
        gi, ci, ei, oi = load(costs, s, i, resident, q, domain_i)
        for domain_j in range(first_j, end_j):
            gj, cj, ej, oj = 0.0, 0.0, 0.0, 0.0
            if j != NOBODY:
                gj, cj, ej, oj = load(costs, s, j, at.resident[i], p, domain_j)
            new_p, new_q = own_p + oj, own_q + oi
            if p == q:
                new_p = new_q = own_p + oi + oj
            g, c, e = gpu + gi + gj, cpu + ci + cj, every + ei + ej
            most = rest
            change, of_squares = 0.0, 0.0
            if p != STRIPED:
                most = max(most, new_p)
                change += new_p - old_p
                of_squares += new_p * new_p - old_p * old_p
            if q != STRIPED and q != p:
                most = max(most, new_q)
                change += new_q - old_q
                of_squares += new_q * new_q - old_q * old_q
            span = max(g, c, e + most)
            square = g * g + c * c + _squares(dimms, e, total + change, of_squares)
            if span < best or (span == best and square < best_squares):
                best, best_squares, best_i, best_j = span, square, domain_i, domain_j
    return best - before, best_squares - squares, best_i, best_j


@compiled
def _squares(dimms: int, every: float, total: float, squares: float) -> float:
    """Return the sum of (every + own)**2 over the DIMMs from the sums of own and own**2."""
    return dimms * every * every + 2 * every * total + squares


@compiled
def value(
    costs: Costs, at: State, i: int, resident: bool, dimm: int, j: int
) -> tuple[float, float]:
    """Return the weighted changes of makespans and squared loads; 0 where nothing is gained."""
    spans = squares = scale = 0.0
    for s in range(len(costs.weight)):
        if at.choice[s, i] != IDLE or (j != NOBODY and at.choice[s, j] != IDLE):
            span, square, _, _ = best_domains(costs, at, s, i, resident, dimm, j)
            spans += costs.weight[s] * span
            squares += costs.weight[s] * square
            longest = at.loads[s, EVERY] + at.loads[s, OWN + at.top[s, 0]]
            scale += costs.weight[s] * longest * longest
    if squares >= -EPSILON * scale:
        squares = 0.0
    return spans, squares


@compiled
def move(costs: Costs, at: State, i: int, resident: bool, dimm: int, j: int) -> None:
    """Give i a layout, j (if not `NOBODY`) i's old one, and both the best domains."""
    old_resident, old_dimm = at.resident[i], at.dimm[i]
    domain_i, domain_j = IDLE, IDLE
    for s in range(len(costs.weight)):
        _, _, domain_i, domain_j = best_domains(costs, at, s, i, resident, dimm, j)
        book(costs, at, s, i, -1.0)
        if j != NOBODY:
            book(costs, at, s, j, -1.0)
        at.choice[s, i] = domain_i
        gpu, cpu, every, own = load(costs, s, i, resident, dimm, domain_i)
        _add(at, s, dimm, gpu, cpu, every, own)
        if j != NOBODY:
            at.choice[s, j] = domain_j
            gpu, cpu, every, own = load(costs, s, j, old_resident, old_dimm, domain_j)
            _add(at, s, old_dimm, gpu, cpu, every, own)
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
