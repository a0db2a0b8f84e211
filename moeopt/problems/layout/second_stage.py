"""The second stage: given a layout, the schedule of each scenario (TriMoE 4.2)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moeopt.problems.device_loads import loads_of, makespan_of, refine, table_of
from moeopt.problems.tri_domain.heuristics import cheapest_path
from moeopt.problems.tri_domain.threshold import NO_CUTOFF, certify

from .instance import Instance
from .paths import IDLE, STRIPED, Device
from .solution import DOMAINS, Solution

GPU, CPU, NDP = Device

EFFORT = 2**18
"""Labels that one scenario's best schedule may take: some milliseconds."""

Devices = NDArray[np.int64]
"""A `Device` or `IDLE` per scenario and expert."""


@dataclass(frozen=True)
class Layout:
    """The first-stage decision: who is resident, and each expert's DIMM (`STRIPED` if on all)."""

    resident: NDArray[np.bool_]
    dimm: NDArray[np.int64]


def as_solution(instance: Instance, layout: Layout, device: Devices) -> Solution:
    """Return a layout and its schedules as a solution."""
    return Solution(
        instance=instance.name,
        resident=tuple(layout.resident.tolist()),
        dimm=tuple(None if d == STRIPED else d for d in layout.dimm.tolist()),
        assignment=tuple(
            tuple(None if of == IDLE else DOMAINS[of] for of in row) for row in device.tolist()
        ),
    )


def tables(instance: Instance, layout: Layout) -> list[NDArray[np.int64]]:
    """Return each scenario under a layout as `moeopt.problems.device_loads` takes it."""
    cost, dram = instance.path_times.by_device(layout.resident, layout.dimm)
    return [
        table_of(cost[GPU, s], cost[CPU, s], cost[NDP, s], dram[GPU, s], dram[CPU, s], layout.dimm)
        for s in range(len(instance.scenarios))
    ]


def refined(
    instance: Instance, layout: Layout, *, tie_order: str = "cpu", refinement: str = "one"
) -> tuple[Devices, int]:
    """Schedule every scenario as `moeopt.problems.tri_domain.heuristics.trimoe` does.

    Each expert starts where it alone is cheapest; then TriMoE's refinement, both under its
    settlements. A test holds the two together. The second result is the weighted sum of the
    makespans, in ns.
    """
    times = instance.path_times
    cost, _ = times.by_device(layout.resident, layout.dimm)
    cost[NDP, :, layout.dimm == STRIPED] = np.iinfo(np.int64).max
    device = np.where(times.active, cheapest_path(cost, tie_order), IDLE)
    objective = 0
    for s, table in enumerate(tables(instance, layout)):
        makespan = refine(table, device[s], instance.dimms, refinement == "all", True)
        objective += instance.scenarios[s].weight * int(makespan)
    return device, objective


def best_schedules(instance: Instance, layout: Layout, device: Devices) -> Devices:
    """Return schedules that are in no scenario later than those given, and optimal where possible.

    A scenario on a fixed layout is the problem tri_domain; its threshold search gets `EFFORT`.
    """
    found, active = device.copy(), instance.path_times.active
    for s, table in enumerate(tables(instance, layout)):
        at = np.flatnonzero(active[s])
        if len(at) == 0:
            continue
        gpu, cpu, _, gpu_dram, cpu_dram, ndp, _ = np.ascontiguousarray(table[:, at])
        columns = (gpu, cpu, ndp, gpu_dram, cpu_dram, layout.dimm[at])
        _, makespan, chosen = certify(*columns, instance.dimms, NO_CUTOFF, EFFORT)
        if makespan < makespan_of(loads_of(table, device[s], instance.dimms), instance.dimms):
            found[s, at] = chosen
    return found
