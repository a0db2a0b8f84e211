"""The second stage: given a layout, each scenario's schedule, optimal where that is soon proven."""

import numpy as np
from numpy.typing import NDArray

from moeopt.problems.layout.instance import Instance
from moeopt.problems.tri_domain.threshold import certify

from .rows import (
    CPU_LOCAL,
    CPU_STRIPED,
    GPU_LOCAL,
    GPU_STRIPED,
    HIT,
    NDP_COST,
    STRIPED,
    Layout,
    Rows,
)

EFFORT = 2**18
"""Labels that one scenario's schedule may take: some milliseconds."""


def scheduled(
    instance: Instance, rows: Rows, layout: Layout, domain: NDArray[np.int8]
) -> NDArray[np.int8]:
    """Return domains of shape (rows, scenarios) that are in no scenario later than those given.

    A scenario on a fixed layout is the problem tri_domain.
    """
    found = domain.copy()
    for s in range(len(rows.weight)):
        at = np.flatnonzero(rows.active[:, s])
        if len(at) == 0:
            continue
        cost, dimm, resident = rows.cost[:, at, s], layout.dimm[at], layout.resident[at]
        striped = dimm == STRIPED
        miss = np.where(striped, cost[GPU_STRIPED], cost[GPU_LOCAL])
        gpu = np.where(resident, cost[HIT], miss)
        cpu = np.where(striped, cost[CPU_STRIPED], cost[CPU_LOCAL])
        read = np.where(striped, instance.dram_striped_ns, instance.dram_localized_ns)
        gpu_read, ndp = np.where(resident, 0, read), np.where(striped, 0, cost[NDP_COST])
        limit = int(np.iinfo(np.int64).max)
        _, makespan, chosen = certify(
            gpu, cpu, ndp, gpu_read, read, dimm, instance.dimms, limit, EFFORT
        )
        now = found[at, s]
        busy = [int(gpu[now == 0].sum()), int(cpu[now == 1].sum())]
        load = np.where(now == 0, gpu_read, np.where(now == 1, read, ndp))
        own = np.zeros(instance.dimms, dtype=np.int64)
        np.add.at(own, dimm[~striped], load[~striped])
        if makespan < max(*busy, int(load[striped].sum()) + int(own.max())):
            found[at, s] = chosen
    return found
