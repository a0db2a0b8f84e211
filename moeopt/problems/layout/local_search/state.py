"""A layout with its schedules and the loads that follow, kept up to date while experts move.

Times are floats in units of a common divisor: whole numbers, exact below 2**53. They guide the
search; what it finds is checked anew in integers.
"""

from math import gcd
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moeopt.core.compiled import compiled
from moeopt.core.device_loads import OWN, STRIPED_READS
from moeopt.problems.layout.bounds import makespan_grid
from moeopt.problems.layout.instance import DOMAINS, Instance, Solution
from moeopt.problems.layout.paths import IDLE, PATH_OF, STRIPED, Device
from moeopt.problems.layout.second_stage import Devices, Layout, as_solution

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

CHANGES_PER_UNIT = 2_000_000
"""Moves times scenarios that are evaluated in a unit of work."""

NOBODY = -1
GPU, CPU, NDP = Device
COPY, CHANNEL_READ, CHANNEL_OF = 6, 6, 12
"""Where `Costs` has more in schema 2, beyond the times and reads by path."""

PCIE, EVERY_CHANNEL, CHANNEL = 0, 1, 2
"""What `SearchState.loads` has beyond the DIMMs in schema 2; channel c has ``CHANNEL + c``."""


class Costs(NamedTuple):
    """The instance as the moves see it: few arrays, since each one costs compile time.

    Attributes
    ----------
    weight
        Shape (scenarios,).
    time
        `cost` of `paths.PathTimes`, over a common unit; then from `COPY` on `pcie`, if there are
        channels or two-part misses.
    read
        `read`, likewise; then `channel_read`, and each DIMM's channel, -1 if they are no limit.
    """

    weight: Floats
    time: Floats
    read: Floats


class SearchState(NamedTuple):
    """A layout, its schedules and loads; times in the unit of `Costs`.

    Attributes
    ----------
    resident, dimm
        The layout, shape (experts,).
    device
        Shape (scenarios, experts): a `Device`, or `IDLE` where an expert has no tokens.
    loads
        Shape (scenarios, 3 + dimms), in the order of `moeopt.core.device_loads`: the GPU, the
        CPU, the striped reads that keep every DIMM busy, and each DIMM's own work. With channels
        or two-part misses 2 + channels more: PCIe, the striped reads that keep every channel busy,
        and each channel's localized reads.
    own_sum
        Shape (scenarios,): the sum of the DIMMs' own work.
    longest
        Shape (scenarios, 3): the DIMMs with most own work, most first (`NOBODY` if fewer).
    free
        Shape (1 + dimms,): the slots left for residents, and then on each DIMM.
    """

    resident: NDArray[np.bool_]
    dimm: Integers
    device: Integers
    loads: Floats
    own_sum: Floats
    longest: Integers
    free: Integers


@compiled
def load_of(
    costs: Costs, s: int, i: int, resident: bool, dimm: int, device: int
) -> tuple[float, float, float, float]:
    """Return what an expert adds to the GPU, the CPU, every DIMM and its own DIMM."""
    if device == IDLE:
        return 0.0, 0.0, 0.0, 0.0
    path = PATH_OF[device, int(dimm != STRIPED), int(resident)]
    time, read = costs.time[path, s, i], costs.read[path]
    gpu = time if device == GPU else 0.0
    cpu = time if device == CPU else 0.0
    if dimm == STRIPED:
        return gpu, cpu, read, 0.0
    return gpu, cpu, 0.0, time if device == NDP else read


@compiled
def links_of(
    costs: Costs, s: int, i: int, resident: bool, dimm: int, device: int
) -> tuple[float, float]:
    """Return what an expert adds to PCIe, and to its DIMM's channel or, striped, to all."""
    if device == IDLE:
        return 0.0, 0.0
    path = PATH_OF[device, int(dimm != STRIPED), int(resident)]
    return costs.time[COPY + path, s, i], costs.read[CHANNEL_READ + path]


@compiled
def channel_of(costs: Costs, dimm: int) -> Any:
    """Return the channel of a DIMM; -1 if striped, or if channels are no limit."""
    if dimm == STRIPED or len(costs.read) <= CHANNEL_OF:
        return -1
    return int(costs.read[CHANNEL_OF + dimm])


@compiled
def links_at(at: SearchState) -> Any:
    """Return where `SearchState.loads` goes on beyond the DIMMs: its length if it does not."""
    return OWN + len(at.free) - 1


@compiled
def add(
    costs: Costs, at: SearchState, s: int, i: int, resident: bool, dimm: int, device: int, sign: int
) -> None:
    """Add (or, with sign -1, take away) an expert's load; `longest` is not kept."""
    gpu, cpu, every, own = load_of(costs, s, i, resident, dimm, device)
    loads, links = at.loads, links_at(at)
    loads[s, GPU] += sign * gpu
    loads[s, CPU] += sign * cpu
    loads[s, STRIPED_READS] += sign * every
    if dimm != STRIPED:
        at.own_sum[s] += sign * own
        loads[s, OWN + dimm] += sign * own
    if loads.shape[1] > links:
        copy, read = links_of(costs, s, i, resident, dimm, device)
        loads[s, links + PCIE] += sign * copy
        channel = channel_of(costs, dimm)
        if dimm == STRIPED:
            loads[s, links + EVERY_CHANNEL] += sign * read
        elif channel >= 0:
            loads[s, links + CHANNEL + channel] += sign * read


@compiled
def book(costs: Costs, at: SearchState, s: int, i: int, sign: int) -> None:
    """Add (or, with sign -1, take away) an expert as it is now; `longest` is not kept."""
    add(costs, at, s, i, at.resident[i], at.dimm[i], at.device[s, i], sign)


@compiled
def longest_link(at: SearchState, s: int) -> Any:
    """Return how long PCIe or the busiest channel is busy; 0 in an instance without those."""
    loads, links, most = at.loads, links_at(at), 0.0
    if loads.shape[1] <= links:
        return 0.0
    for column in range(links + CHANNEL, loads.shape[1]):
        most = max(most, loads[s, column])
    return max(loads[s, links + PCIE], loads[s, links + EVERY_CHANNEL] + most)


@compiled
def rank(at: SearchState, s: int) -> None:
    """Find the three DIMMs with most work of their own."""
    longest, loads = at.longest, at.loads
    for d in range(len(at.free) - 1):
        k = min(d, 3)
        while k > 0 and loads[s, OWN + d] > loads[s, OWN + longest[s, k - 1]]:
            if k < 3:
                longest[s, k] = longest[s, k - 1]
            k -= 1
        if k < 3:
            longest[s, k] = d


def costs_of(instance: Instance) -> Costs:
    """Return the instance in units of `unit_of`."""
    times, unit = instance.path_times, unit_of(instance)
    weight, time, read = times.weight.astype(np.float64), times.cost, times.read
    if not has_links(instance):
        return Costs(weight, time / unit, read / unit)
    channel = times.channel if times.channels else np.full(instance.dimms, -1)
    reads = np.concatenate([read / unit, times.channel_read / unit, channel])
    return Costs(weight, np.concatenate([time, times.pcie]) / unit, reads)


def has_links(instance: Instance) -> bool:
    """Tell whether channels or PCIe are limits."""
    return instance.channels is not None or instance.in_two_parts


def unit_of(instance: Instance) -> int:
    """Return the divisor of all times: in its steps floats are whole and as small as can be."""
    return gcd(*(makespan_grid(instance, number) for number in range(len(instance.scenarios))))


def state_of(instance: Instance, costs: Costs, layout: Layout, device: Devices) -> SearchState:
    """Return the state of a layout and its schedules, whose slots must not be exceeded."""
    scenarios, dimms = len(instance.scenarios), instance.dimms
    dimm_slots = instance.experts if instance.dimm_slots is None else instance.dimm_slots
    free = np.full(1 + dimms, dimm_slots, dtype=np.int64)
    free[0] = instance.hbm_slots - layout.resident.sum()
    free[1:] -= np.bincount(layout.dimm[layout.dimm != STRIPED], minlength=dimms)
    links = CHANNEL + instance.path_times.channels if has_links(instance) else 0
    state = SearchState(
        layout.resident.copy(),
        layout.dimm.copy(),
        device.copy(),
        np.zeros((scenarios, OWN + dimms + links)),
        np.zeros(scenarios),
        np.full((scenarios, 3), NOBODY, dtype=np.int64),
        free,
    )
    state.loads[:, GPU] = instance.base_ns / unit_of(instance)
    for number in range(scenarios):
        for expert in range(instance.experts):
            book(costs, state, number, expert, 1)
        rank(state, number)
    return state


def decision_of(solution: Solution) -> tuple[Layout, Devices]:
    """Return a solution's layout and schedules as arrays."""
    code = {None: IDLE} | {domain: number for number, domain in enumerate(DOMAINS)}
    dimm = np.array([STRIPED if d is None else d for d in solution.dimm], dtype=np.int64)
    layout = Layout(np.array(solution.resident, dtype=np.bool_), dimm)
    rows = [[code[domain] for domain in row] for row in solution.assignment]
    return layout, np.array(rows, dtype=np.int64)


def solution_of(instance: Instance, state: SearchState) -> Solution:
    """Return the state's layout and schedules as a solution."""
    return as_solution(instance, Layout(state.resident, state.dimm), state.device)


def copy_of(state: SearchState) -> SearchState:
    """Return a state of its own."""
    fields = {name: array.copy() for name, array in state._asdict().items()}
    return SearchState(**fields)


@compiled
def objective_of(costs: Costs, at: SearchState) -> float:
    """Return the weighted sum of the makespans, in the unit of `Costs`."""
    found, loads = 0.0, at.loads
    for s in range(len(costs.weight)):
        dimm = loads[s, STRIPED_READS] + loads[s, OWN + at.longest[s, 0]]
        found += costs.weight[s] * max(loads[s, GPU], loads[s, CPU], dimm, longest_link(at, s))
    return found
