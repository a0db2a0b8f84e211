"""A quick assignment of experts that leave NDP to GPU and CPU; `classes` decides where it fails.

It prefers little host time in all: the second key for a deterministic plan, no part of any proof.
"""

import numpy as np
from numpy.typing import NDArray

from .scenario import CPU_LOCAL, CPU_STRIPED, GPU_LOCAL, GPU_STRIPED, HIT, Scenario, Times

OTHER_HOST = np.array([HIT, CPU_STRIPED, GPU_STRIPED, CPU_LOCAL, GPU_LOCAL])
ON_GPU = np.array([True, True, False, True, False])


def assign(
    scenario: Scenario, striped_reads: int, local_reads: int, makespan: int
) -> NDArray[np.int64] | None:
    """Return a way for each of the experts of largest NDP cost that leave; None is no proof.

    There are `Scenario.leavers` of them; those read neither way are hits. Where hosts are late,
    experts change host: first the one whose change costs least host time per time it relieves.
    """
    leavers = scenario.leavers(striped_reads, local_reads)
    here, cost = np.arange(leavers), scenario.cost[:, :leavers]
    way = _cheapest(cost, leavers - striped_reads - local_reads, local_reads)
    for _ in range(leavers + 1):
        own, other = cost[way, here], cost[OTHER_HOST[way], here]
        gpu = int(own[ON_GPU[way]].sum())
        load = (gpu, int(own.sum()) - gpu)
        if max(load) <= makespan:
            return way
        over = load[0] > makespan
        if min(load) > makespan:
            return None
        room = makespan - min(load)
        able = (ON_GPU[way] == over) & (way != HIT) & (other <= room) & (own > 0)
        if not able.any():
            return None
        relieved = np.minimum(own, max(load) - makespan)
        price = np.where(able, (other - own) / np.maximum(relieved, 1), np.inf)
        chosen = int(price.argmin())
        way[chosen] = OTHER_HOST[way[chosen]]
    return None


def _cheapest(cost: Times, hits: int, local: int) -> NDArray[np.int64]:
    """Return ways of little host time in all: hits save most, localized reads cost least more."""
    here = np.arange(cost.shape[1])
    striped = np.where(cost[GPU_STRIPED] < cost[CPU_STRIPED], GPU_STRIPED, CPU_STRIPED)
    localized = np.where(cost[GPU_LOCAL] < cost[CPU_LOCAL], GPU_LOCAL, CPU_LOCAL)
    way = striped.copy()
    hit = np.argsort(cost[HIT] - cost[striped, here], kind="stable")[:hits]
    more = (cost[localized, here] - cost[striped, here]).astype(np.float64)
    more[hit] = np.inf
    at = np.argsort(more, kind="stable")[:local]
    way[at], way[hit] = localized[at], HIT
    return way
