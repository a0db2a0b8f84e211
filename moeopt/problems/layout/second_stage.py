"""Given a layout, every scenario's schedule: TriMoE's greedy start and refinement (4.2)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moeopt.numeric.compiled import compiled

from .instance import Instance
from .paths import IDLE, STRIPED, Device
from .solution import DOMAINS, Solution

GPU, CPU, NDP = Device
EVERY, OWN = 2, 3
"""In an array of loads, after GPU and CPU: every DIMM's time, and where each DIMM's own begin."""

Times = NDArray[np.int64]
Choice = NDArray[np.int64]
"""One of GPU, CPU, NDP or IDLE per scenario and expert."""


@dataclass(frozen=True)
class Layout:
    """For each expert, whether it is resident, and its DIMM (`STRIPED` if on all of them)."""

    resident: NDArray[np.bool_]
    dimm: NDArray[np.int64]


@dataclass(frozen=True)
class Plan:
    """A layout, each scenario's schedule, and the weighted sum of the makespans."""

    layout: Layout
    choice: Choice
    objective_ns: int

    def solution(self, instance: Instance) -> Solution:
        """Return the plan as a solution."""
        return Solution(
            instance=instance.name,
            resident=tuple(self.layout.resident.tolist()),
            dimm=tuple(None if d == STRIPED else d for d in self.layout.dimm.tolist()),
            assignment=tuple(
                tuple(None if o == IDLE else DOMAINS[o] for o in row)
                for row in self.choice.tolist()
            ),
        )


def schedule(instance: Instance, layout: Layout) -> Plan:
    """Schedule every scenario as `moeopt.problems.tri_domain.heuristics.trimoe` does.

    The same decisions with the same ties, in compiled loops: a layout search schedules thousands of
    times. A test holds the two together.
    """
    times = instance.path_times
    cost, dram = times.by_device(layout.resident, layout.dimm)
    allowed = cost.copy()
    allowed[NDP, :, layout.dimm == STRIPED] = np.iinfo(np.int64).max
    choice = np.where(times.active, allowed.argmin(axis=0), IDLE)
    objective = 0
    for number, scenario in enumerate(instance.scenarios):
        load = np.zeros(OWN + instance.dimms, dtype=np.int64)
        makespan = _refine(cost[:, number], dram[:, number], layout.dimm, load, choice[number])
        objective += scenario.weight * int(makespan)
    return Plan(layout, choice, objective)


@compiled
def _refine(cost: Times, dram: Times, dimm: Times, load: Times, choice: Choice) -> int:
    """Move the bottleneck's costliest expert while that lowers the makespan, and return that.

    `cost` and `dram` have shape (3, experts): what an expert costs in each domain, and how long it
    keeps busy the DIMMs that it lies on. `load` is all zeros, of shape (3 + dimms,): the GPU's
    time, the CPU's, what keeps every DIMM busy, and then each DIMM's own.
    """
    for row in range(len(dimm)):
        if choice[row] != IDLE:
            _add(cost, dram, dimm, load, row, choice[row], 1)
    while True:
        makespan, busiest = _makespan(load)
        device = NDP
        if load[GPU] == makespan:
            device = GPU
        elif load[CPU] == makespan:
            device = CPU
        row = _costliest(cost, dimm, choice, device, busiest)
        if row < 0:
            return int(makespan)
        domain = _best_domain(cost, dram, dimm, load, row, device, makespan)
        if domain == device:
            return int(makespan)
        _add(cost, dram, dimm, load, row, device, -1)
        _add(cost, dram, dimm, load, row, domain, 1)
        choice[row] = domain


@compiled
def _add(
    cost: Times, dram: Times, dimm: Times, load: Times, row: int, domain: int, sign: int
) -> None:
    if domain != NDP:
        load[domain] += sign * cost[domain, row]
    at = EVERY if dimm[row] == STRIPED else OWN + dimm[row]
    load[at] += sign * dram[domain, row]


@compiled
def _makespan(load: Times) -> tuple[int, int]:
    """Return the largest load of a device, and the first of the busiest DIMMs."""
    busiest = OWN
    for at in range(OWN + 1, len(load)):
        if load[at] > load[busiest]:
            busiest = at
    return max(load[GPU], load[CPU], load[EVERY] + load[busiest]), busiest - OWN


@compiled
def _costliest(cost: Times, dimm: Times, choice: Choice, device: int, busiest: int) -> int:
    """Return the first costliest expert that runs on the device, or on the busiest DIMM, or -1."""
    found = -1
    for row in range(len(dimm)):
        there = choice[row] == device and (device != NDP or dimm[row] == busiest)
        if there and (found < 0 or cost[device, row] > cost[device, found]):
            found = row
    return found


@compiled
def _best_domain(
    cost: Times, dram: Times, dimm: Times, load: Times, row: int, now: int, span: int
) -> int:
    """Return the domain that lowers the makespan `span` most, or `now` (tie: least growth)."""
    best, best_growth, best_domain = span, 0, now
    for domain in range(2 if dimm[row] == STRIPED else 3):
        if domain == now:
            continue
        _add(cost, dram, dimm, load, row, now, -1)
        _add(cost, dram, dimm, load, row, domain, 1)
        after, _ = _makespan(load)
        _add(cost, dram, dimm, load, row, domain, -1)
        _add(cost, dram, dimm, load, row, now, 1)
        growth = cost[domain, row]
        if domain == NDP:  # its DIMM is relieved of the host's read at the same time
            growth -= dram[now, row]
        if after < best or (after == best and best_domain != now and growth < best_growth):
            best, best_growth, best_domain = after, growth, domain
    return best_domain
