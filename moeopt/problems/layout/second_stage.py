"""The second stage: given a layout, the schedule of each scenario (TriMoE 4.2)."""

import numpy as np
from numpy.typing import NDArray

from moeopt.core.clock import spend
from moeopt.problems.device_loads import loads_of, makespan_of, refine, table_for
from moeopt.problems.tri_domain.heuristics import cheapest_path

from .instance import DOMAINS, Instance, Solution
from .paths import IDLE, STRIPED, Device
from .systems import Layout as Layout

GPU, CPU, NDP = Device

REFINED = 1_000_000
"""So many experts of scenarios are refined in a unit of work, on an idle core."""

Devices = NDArray[np.int64]
"""A `Device` or `IDLE` per scenario and expert."""


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
    times, place = instance.path_times, (layout.resident, layout.dimm)
    alone, read = times.under(times.alone, *place), times.under(times.full_read, *place)
    calc, pcie = (times.under(of, *place)[GPU] for of in (times.cost, times.pcie))
    return [
        table_for(
            instance,
            *(alone[GPU, s], alone[CPU, s], alone[NDP, s], read[GPU, s], read[CPU, s]),
            layout.dimm,
            gpu_calc_ns=calc[s] if instance.in_two_parts else None,
            pcie_ns=pcie[s] if instance.in_two_parts else None,
        )
        for s in range(len(instance.scenarios))
    ]


def starting(
    instance: Instance, layout: Layout, tie_order: str = "cpu"
) -> tuple[Devices, list[int]]:
    """Schedule every scenario as `moeopt.problems.tri_domain.heuristics.greedy` does.

    Each expert starts where it alone is cheapest. The second result has the makespans, in ns.
    """
    device = _cheapest(instance, layout, tie_order)
    return device, [
        int(makespan_of(loads_of(table, device[s], instance.dimms), instance.dimms))
        for s, table in enumerate(tables(instance, layout))
    ]


def refined(
    instance: Instance, layout: Layout, *, tie_order: str = "cpu", refinement: str = "one"
) -> tuple[Devices, list[int]]:
    """Schedule every scenario as `moeopt.problems.tri_domain.heuristics.trimoe` does.

    Each expert starts where it alone is cheapest; then TriMoE's refinement, both under its
    assumptions. A test holds the two together. The second result has the makespans, in ns.
    """
    device = _cheapest(instance, layout, tie_order)
    makespans = [
        int(refine(table, device[s], instance.dimms, refinement == "all", True))
        for s, table in enumerate(tables(instance, layout))
    ]
    spend(instance.path_times.active.sum() / REFINED)
    return device, makespans


def _cheapest(instance: Instance, layout: Layout, tie_order: str) -> Devices:
    times = instance.path_times
    cost = times.under(times.alone, layout.resident, layout.dimm)
    cost[NDP, :, layout.dimm == STRIPED] = np.iinfo(np.int64).max
    return np.where(times.active, cheapest_path(cost, tie_order), IDLE)
