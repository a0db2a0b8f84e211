"""Lower bounds on the weighted sum of makespans that need no solver, each with its proof.

Every bound here is "wait and see": let each scenario choose a layout of its own. Proof. Any
solution's layout is one that scenario s may choose, so its makespan there is at least the least one
of scenario s alone, T(s), and its objective is at least sum_s weight(s) T(s).

The other functions bound T(s) and return one number per scenario. In one scenario an expert with
tokens is a hit (resident, on the GPU; at most `hbm_slots` are), or a host reads it striped, or a
host reads it localized, or NDP runs it. A resident expert that is run in another way than as a hit
is run as if it were not resident.
"""

from dataclasses import dataclass
from functools import reduce
from math import gcd

import numpy as np
from numpy.typing import NDArray

from .instance import Instance
from .paths import DEVICE_OF, Device, Path

MAX_WEIGHT = 2**16
ROUNDS = 25
PIGEONHOLES = 8

Times = NDArray[np.int64]
Floats = NDArray[np.float64]


def lower_bound(instance: Instance) -> int:
    """Return the weighted sum of each scenario's best bound, rounded up to its own grid."""
    bounds = np.stack([longest_expert_ns(instance), average_load_ns(instance)])
    bounds = np.vstack([bounds, striped_reads_ns(instance)]).max(axis=0)
    total = 0
    for number, (scenario, bound) in enumerate(
        zip(instance.scenarios, bounds.tolist(), strict=True)
    ):
        grid = makespan_grid(instance, number)
        total += scenario.weight * (-(-bound // grid) * grid)
    return total


def objective_grid(instance: Instance) -> int:
    """Return a number that every objective is a multiple of."""
    grids = [s.weight * makespan_grid(instance, n) for n, s in enumerate(instance.scenarios)]
    return reduce(gcd, grids)


def makespan_grid(instance: Instance, number: int) -> int:
    """Return a number that every makespan of a scenario is a multiple of: its costs' divisor."""
    times = instance.path_times
    return int(np.gcd.reduce(np.append(times.cost[:, number], times.read))) or 1


def longest_expert_ns(instance: Instance) -> Times:
    """Return the bounds by the experts that are long wherever they run.

    Proof. Run in some way, expert i alone keeps some device busy for the larger of its host cost
    and its read, or for its NDP cost. The least of these over the ways other than a hit is m[i], so
    the makespan is at least min(m[i], hit[i]). At most `hbm_slots` experts are hits, so among the
    `hbm_slots` + 1 of largest m one is not, and the makespan is at least its m.
    """
    times = instance.path_times
    busy = np.where(times.active, np.maximum(times.cost, times.read[:, None, None]), 0)
    no_hit = busy[Path.GPU_STRIPED :].min(axis=0)
    if instance.hbm_slots == 0:
        return np.asarray(no_hit.max(axis=1))
    either = np.minimum(no_hit, busy[Path.HIT]).max(axis=1)
    if instance.hbm_slots >= instance.experts:
        return np.asarray(either)
    return np.asarray(np.maximum(either, np.sort(no_hit, axis=1)[:, -1 - instance.hbm_slots]))


def striped_reads_ns(instance: Instance) -> Times:
    """Return the bounds by enumeration of r, the number of striped experts that hosts read.

    Proof. At most `hbm_slots` experts are hits and r are read striped; each of the others keeps its
    DIMM busy for at least a[i] = min(ndp[i], localized read). Whichever leave, the a of those that
    stay, sorted, are at least those left when the largest `hbm_slots` + r leave. Every DIMM is busy
    for r striped reads, and some DIMM in addition for q, which is at least (1) the average of the
    rest over the DIMMs, (2) the largest of the rest, (3) by the pigeonhole principle the j + 1
    smallest of the j D + 1 largest of the rest, and (4) a multiple of the divisor of all NDP costs
    and the localized read. The hosts need r times at least a striped read's cheaper host, half of
    it on one of them. r is not known: the least value over r holds.
    """
    times = instance.path_times
    cost, ndp = times.cost, times.cost[Path.NDP]
    found = []
    for number in range(len(instance.scenarios)):
        active = times.tokens[number] > 0
        stay = np.minimum(ndp[number], instance.dram_localized_ns)[active]
        host = cost[[Path.GPU_STRIPED, Path.CPU_STRIPED], number].min(axis=0)[active]
        step = gcd(int(np.gcd.reduce(ndp[number])), instance.dram_localized_ns) or 1
        left = np.sort(stay)[::-1][instance.hbm_slots :]
        reads = np.arange(len(left) + 1)
        busiest = -(-_busiest_dimm(left, instance.dimms) // step) * step
        busiest += instance.dram_striped_ns * reads
        hosts = -(-np.concatenate([[0], np.sort(host).cumsum()])[: len(reads)] // 2)
        found.append(int(np.maximum(busiest, hosts).min()))
    return np.array(found, dtype=np.int64)


def average_load_ns(instance: Instance) -> Times:
    """Return the bounds by weighted averages over the devices, the weights improved step by step.

    Proof. For any weights G, C and W >= 0 of the GPU, the CPU and each DIMM, the makespan times
    G + C + D W is at least the weighted sum of the device loads, which is a sum over the experts of
    what each costs in its way. No expert costs less than in its cheapest way other than a hit, but
    for at most `hbm_slots` hits; they save at most the largest differences. Any weights are valid;
    equal DIMMs may as well have equal ones. Multiplicative updates raise the weights of devices
    that the cheapest ways overload. They run in floats; the value is computed in integers.
    """
    paths = _PathLoads.of(instance)
    best, best_value = np.ones((len(instance.scenarios), 3)), np.full(len(instance.scenarios), -1.0)
    log_w = np.zeros_like(best)
    for step in range(ROUNDS):
        w = np.exp(log_w - log_w.max(axis=1, keepdims=True))
        w /= w.sum(axis=1, keepdims=True)
        value, load = paths.cheapest(w)
        better = value > best_value
        best[better], best_value[better] = w[better], value[better]
        log_w += load / np.maximum(load.max(axis=1, keepdims=True), 1.0) / (1 + step) ** 0.5 * 2
    times = instance.path_times
    largest = max(int(times.cost.max()), int(times.read.max()), 1)
    scale = min(MAX_WEIGHT, 2**61 // (largest * instance.experts))  # sums stay within int64
    host, dimm = best[:, :2] * scale, best[:, 2:] * scale / instance.dimms
    return paths.bound(np.hstack([host, dimm]).astype(np.int64))


@dataclass(frozen=True)
class _PathLoads:
    """What each path keeps busy in each scenario; 0 without tokens.

    `hit` has shape (scenarios, experts). `host` and `dimms` have shape (5, scenarios, experts), by
    `Path` without hits: the time of GPU or CPU (0 on NDP), and the DIMMs' total.
    """

    slots: int
    number_of_dimms: int
    hit: Times
    host: Times
    dimms: Times

    @classmethod
    def of(cls, instance: Instance) -> "_PathLoads":
        times = instance.path_times
        devices = np.ones(len(Path), dtype=np.int64)
        devices[[Path.GPU_STRIPED, Path.CPU_STRIPED]] = instance.dimms
        dimms = np.where(times.active, (times.read * devices)[:, None, None], 0)
        dimms[Path.NDP] = times.cost[Path.NDP]
        host = times.cost.copy()
        host[Path.NDP] = 0
        slots = min(instance.hbm_slots, instance.experts)
        misses = slice(Path.GPU_STRIPED, None)
        return cls(slots, instance.dimms, host[Path.HIT], host[misses], dimms[misses])

    def cheapest(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return the weighted averages, and the loads of GPU, CPU and average DIMM behind them."""
        g, c, d = (column[:, None] for column in weights.T)
        options = self._weighted(g, c, d / self.number_of_dimms)
        choice = options.argmin(axis=0)[None]
        no_hit = np.take_along_axis(options, choice, 0)[0]
        saving = no_hit - g * self.hit
        hits = np.zeros_like(saving, dtype=np.bool_)
        if self.slots:
            most = np.argsort(-saving, axis=1, kind="stable")[:, : self.slots]
            np.put_along_axis(hits, most, np.take_along_axis(saving, most, 1) > 0, 1)
        value = np.where(hits, g * self.hit, no_hit).sum(axis=1)
        host = np.where(hits, 0, np.take_along_axis(self.host, choice, 0)[0])
        device = DEVICE_OF[choice[0] + Path.GPU_STRIPED]
        on_gpu, on_cpu = device == Device.GPU, device == Device.CPU
        gpu = np.where(hits, self.hit, np.where(on_gpu, host, 0)).sum(axis=1)
        dimms = np.where(hits, 0, np.take_along_axis(self.dimms, choice, 0)[0]).sum(axis=1)
        loads = [gpu, np.where(on_cpu, host, 0).sum(axis=1), dimms / self.number_of_dimms]
        return value, np.stack(loads, axis=1).astype(np.float64)

    def bound(self, weights: Times) -> Times:
        """Return the bounds of integer weights of the GPU, the CPU and each DIMM."""
        g, c, d = (column[:, None] for column in weights.T)
        no_hit = self._weighted(g, c, d).min(axis=0)
        saving = np.sort(np.maximum(no_hit - g * self.hit, 0), axis=1)
        least = no_hit.sum(axis=1) - saving[:, saving.shape[1] - self.slots :].sum(axis=1)
        total = weights[:, 0] + weights[:, 1] + self.number_of_dimms * weights[:, 2]
        return np.asarray(-(-least // np.maximum(total, 1)))

    def _weighted(self, g: NDArray, c: NDArray, d: NDArray) -> NDArray:  # type: ignore[type-arg]
        of_host = np.stack(np.broadcast_arrays(g, g, c, c, 0 * g))  # by path, without hits
        return np.asarray(of_host * self.host + d * self.dimms)


def _busiest_dimm(left: Times, dimms: int) -> Times:
    """Return, for r = 0, 1, ..., how long some DIMM is busy at least when the r largest leave.

    `left` is sorted, largest first.
    """
    prefix = np.concatenate([[0], left.cumsum()])
    least = -(-(prefix[-1] - prefix) // dimms)
    for j in range(min(PIGEONHOLES, (len(left) - 1) // dimms) + 1):
        # The j + 1 smallest of the j D + 1 largest that are left are r + jD - j ... r + jD.
        end = prefix[j * dimms + 1 :]
        begin = prefix[j * dimms - j : len(prefix) - 1 - j]
        least[: len(end)] = np.maximum(least[: len(end)], end - begin)
    return np.asarray(least)
