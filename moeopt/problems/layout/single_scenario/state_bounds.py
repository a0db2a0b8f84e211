"""Lower bounds of a branch (r, e) by combinatorial arguments, in integers.

In a branch hosts read r experts striped and e localized. Of the others at most `hits` are hits
(LA-C3), and the rest run on NDP, each on the DIMM that holds it (LA-C1, LA-C2). The bounds are
those of the *dominant items*: what the DIMMs hold if the experts with the largest NDP costs leave
NDP. Replacing an item by a smaller one, or dropping it, keeps a packing feasible, so that no other
choice of experts that leave can be packed better (Lemma 1 in `formulations/layout/spec.md`, section
"Bound and pack").

Where a greedy assignment of the dominant experts to GPU and CPU fails, CP-SAT decides. It prefers
little host time in all: a second key that makes the schedule deterministic, no part of any proof.
"""

import numpy as np

from moeopt.problems.layout.paths import DEVICE_OF, Device, Path

from .scenario import Branch, Ints, SingleScenario, Times


def leaving(scenario: SingleScenario, branch: Branch) -> int:
    """Return how many experts can leave NDP in a branch."""
    return min(scenario.hits + branch.striped + branch.local, scenario.experts)


def dominant_items(scenario: SingleScenario, branch: Branch) -> tuple[Times, Ints]:
    """Return the dominant items of a branch: sizes, falling, and experts.

    The items of localized reads are expert -1.
    """
    first = leaving(scenario, branch)
    stay, experts = scenario.ndp[first:], np.arange(first, scenario.experts)
    if not branch.local:
        return stay, experts
    at = [int(np.searchsorted(-stay, -scenario.local_read))] * branch.local
    return np.insert(stay, at, scenario.local_read), np.insert(experts, at, -1)


def simple_bounds(scenario: SingleScenario, upper: int) -> list[tuple[int, Branch]]:
    """Return the branches whose simple bound is below `upper`, each with that bound.

    Sorted by bound, then by r and e. The bound of (r, e) is the largest of

    - r striped reads, and the DIMMs' average load of the dominant items, rounded up to a number
      that every such load is a multiple of (LA-C7);
    - r striped reads, and the largest item; or e / dimms localized reads, rounded up;
    - half the time that the hosts need at least: the r cheapest striped and the e cheapest
      localized experts, each on its cheaper host (LA-C5, LA-C6), and the GPU's base load; the same
      of PCIe and the CPU, without it (LA-C9);
    - the r striped reads of a channel, and an even share of the e localized ones (LA-C8).

    A branch with more localized experts than the DIMMs have slots is left out: it has no solution
    (LA-C4).
    """
    n, slots = scenario.experts, scenario.dimms * scenario.slots
    ndp_sum = np.concatenate([[0], scenario.ndp.cumsum()])
    largest, divisors = np.append(scenario.ndp, 0), load_divisors(scenario)
    striped, local = _host_times(scenario, scenario.cost)
    with_pcie = _host_times(scenario, scenario.pcie)
    found: list[tuple[int, Branch]] = []
    for r in range(max(0, n - scenario.hits - slots), n + 1):
        e = np.arange(min(n - r, slots) + 1)
        left = np.minimum(scenario.hits + r + e, n)
        total = ndp_sum[n] - ndp_sum[left] + e * scenario.local_read
        reads = -(-e // scenario.dimms) * scenario.local_read
        busiest = np.maximum(np.maximum(-(-total // scenario.dimms), largest[left]), reads)
        divisor = np.where(e > 0, divisors[1][left], divisors[0][left])
        busiest = -(-busiest // divisor) * divisor
        hosts = np.maximum(scenario.base + striped[r] + local[e], with_pcie[0][r] + with_pcie[1][e])
        bound = np.maximum(r * scenario.striped_read + busiest, -(-hosts // 2))
        if scenario.channels:
            shared = -(-e // scenario.channels) * scenario.local_read
            bound = np.maximum(bound, r * scenario.channel_read + shared)
        rows = zip(bound.tolist(), e.tolist(), strict=True)
        found += [(b, Branch(r, count)) for b, count in rows if b < upper]
        read = max(scenario.striped_read, scenario.channel_read)
        if r * read >= upper or striped[r] >= 2 * upper:
            break
    return sorted(found)


def load_divisors(scenario: SingleScenario) -> tuple[Times, Times]:
    """Return what every load of a DIMM is a multiple of, striped reads apart.

    If the first k experts leave NDP, k = 0, ..., experts: without, and with localized reads.
    """
    of_ndp = np.append(np.gcd.accumulate(scenario.ndp[::-1])[::-1], 0)
    with_reads = np.gcd(of_ndp, scenario.local_read)
    return np.maximum(of_ndp, 1), np.maximum(with_reads, 1)


def packing_bound(scenario: SingleScenario, sizes: Times) -> int:
    """Return a bound on the largest load of a DIMM that holds items of these sizes, falling.

    The j D + 1 largest items put j + 1 of themselves on some DIMM. With slots (LA-C4), the DIMM of
    the largest item holds at least what the other DIMMs' slots leave over.
    """
    count, dimms = len(sizes), scenario.dimms
    if not count:
        return 0
    before = np.concatenate([[0], sizes.cumsum()])
    least = int(-(-before[-1] // dimms))
    ends = np.arange(1, count + 1, dimms)
    among = np.arange(len(ends)) + 1
    least = max(least, int((before[ends] - before[ends - among]).max()))
    company = count - (dimms - 1) * scenario.slots - 1
    if company > 0:
        least = max(least, int(sizes[0] + before[-1] - before[count - company]))
    return least


def _host_times(scenario: SingleScenario, of_gpu: Times) -> tuple[Times, Times]:
    """Return the sums of the k least host times, k = 0, ..., experts: striped and localized reads.

    The CPU's times, or those that `of_gpu` has, shape (6, experts), whichever is less.
    """
    pairs = ((Path.GPU_STRIPED, Path.CPU_STRIPED), (Path.GPU_LOCAL, Path.CPU_LOCAL))
    least = (np.sort(np.minimum(of_gpu[gpu], scenario.cost[cpu])) for gpu, cpu in pairs)
    striped, local = (np.concatenate([[0], of.cumsum()]) for of in least)
    return striped, local


OTHER_HOST = np.array(
    [Path.HIT, Path.CPU_STRIPED, Path.CPU_LOCAL, Path.GPU_STRIPED, Path.GPU_LOCAL, Path.NDP]
)
"""The path with the same read on the other host."""


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
        on_gpu = DEVICE_OF[path] == Device.GPU
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
