"""A greedy assignment of the dominant experts to GPU and CPU; CP-SAT decides where it fails.

It prefers little host time in all: a second key that makes the schedule deterministic, no part of
any proof.
"""

import numpy as np

from moeopt.problems.layout.paths import Path

from .scenario import GPU_PATHS, Branch, Ints, SingleScenario, Times
from .state_bounds import leaving

OTHER_HOST = np.array(
    [Path.HIT, Path.CPU_STRIPED, Path.CPU_LOCAL, Path.GPU_STRIPED, Path.GPU_LOCAL, Path.NDP]
)
"""The path with the same read on the other host."""

ON_GPU = np.isin(np.arange(len(Path)), GPU_PATHS)


def assign_hosts(scenario: SingleScenario, branch: Branch, makespan: int) -> Ints | None:
    """Return paths of all experts with which the hosts keep to the makespan; None refutes nothing.

    The `leaving` experts of largest NDP cost leave; those that are not read are hits. Where a host
    is late, experts change host: first the one whose change costs least host time per time it
    relieves.
    """
    leavers = leaving(scenario, branch)
    here, cost, copy = np.arange(leavers), scenario.cost[:, :leavers], scenario.pcie[:, :leavers]
    path = _cheapest(cost, leavers - branch.striped - branch.local, branch.local)
    for _ in range(leavers + 1):
        own, other = cost[path, here], cost[OTHER_HOST[path], here]
        on_gpu = ON_GPU[path]
        # What is left until the makespan, of the GPU, PCIe and the CPU; below 0 it is late.
        gpu = makespan - scenario.base - int(own[on_gpu].sum())
        pcie = makespan - int(copy[path, here].sum())
        cpu = makespan - int(own[~on_gpu].sum())
        if min(gpu, pcie, cpu) >= 0:
            return np.append(path, np.full(scenario.experts - leavers, Path.NDP))
        if cpu >= 0:
            eased, late = (own, gpu) if gpu < 0 else (copy[path, here], pcie)
            movable = on_gpu & (path != Path.HIT) & (other <= cpu)
        elif min(gpu, pcie) >= 0:
            eased, late = own, cpu
            movable = ~on_gpu & (other <= gpu) & (copy[OTHER_HOST[path], here] <= pcie)
        else:
            return None
        movable &= eased > 0
        if not movable.any():
            return None
        relieved = np.minimum(eased, -late)
        ratio = np.where(movable, (other - own) / np.maximum(relieved, 1), np.inf)
        chosen = int(ratio.argmin())
        path[chosen] = OTHER_HOST[path[chosen]]
    return None


def _cheapest(cost: Times, hits: int, local: int) -> Ints:
    """Return paths of little host time: hits save most, localized reads cost least more."""
    here = np.arange(cost.shape[1])
    striped = np.where(
        cost[Path.GPU_STRIPED] < cost[Path.CPU_STRIPED], Path.GPU_STRIPED, Path.CPU_STRIPED
    )
    localized = np.where(
        cost[Path.GPU_LOCAL] < cost[Path.CPU_LOCAL], Path.GPU_LOCAL, Path.CPU_LOCAL
    )
    path = striped.copy()
    hit = np.argsort(cost[Path.HIT] - cost[striped, here], kind="stable")[:hits]
    more = (cost[localized, here] - cost[striped, here]).astype(np.float64)
    more[hit] = np.inf
    at = np.argsort(more, kind="stable")[:local]
    path[at], path[hit] = localized[at], Path.HIT
    return path
