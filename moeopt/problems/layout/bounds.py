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
from typing import Any

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


def on_grid(instance: Instance, bound: int) -> int:
    """Return the least value from a bound on that an objective can have."""
    grid = objective_grid(instance)
    return -(-bound // grid) * grid


def makespan_grid(instance: Instance, number: int) -> int:
    """Return a number that every makespan of a scenario is a multiple of: its costs' divisor."""
    times = instance.path_times
    reads = [*times.read, *times.channel_read, times.base]
    busy = (times.cost[:, number].ravel(), times.pcie[:, number].ravel(), reads)
    return int(np.gcd.reduce(np.concatenate(busy))) or 1


def longest_expert_ns(instance: Instance) -> Times:
    """Return the bounds by the experts that are long wherever they run.

    Proof. Run in some way, expert i alone keeps some device busy for the largest of its host cost,
    with the base load if that host is the GPU, its read, of a DIMM or a channel, and its copy over
    PCIe, or for its NDP cost. The least of these over the ways other than a hit is m[i], so the
    makespan is at least min(m[i], hit[i]). At most `hbm_slots` experts are hits, so among the
    `hbm_slots` + 1 of largest m one is not, and the makespan is at least its m. The GPU's base load
    is a bound by itself.
    """
    times = instance.path_times
    reads = np.maximum(times.read, times.channel_read)[:, None, None]
    base = np.where(DEVICE_OF == Device.GPU, times.base, 0)[:, None, None]
    longest = np.maximum(np.maximum(times.cost + base, times.pcie), reads)
    busy = np.where(times.active, longest, times.base)
    no_hit = busy[Path.GPU_STRIPED :].min(axis=0)
    no_shorter = np.maximum(no_hit.max(axis=1), times.base)
    if instance.hbm_slots == 0:
        return np.asarray(no_shorter)
    either = np.maximum(np.minimum(no_hit, busy[Path.HIT]).max(axis=1), times.base)
    if instance.hbm_slots >= instance.experts:
        return np.asarray(either)
    return np.asarray(np.maximum(either, np.sort(no_hit, axis=1)[:, -1 - instance.hbm_slots]))


def striped_reads_ns(instance: Instance) -> Times:
    """Return the bounds by enumeration of r, the number of striped experts that hosts read.

    Proof. At most `hbm_slots` experts are hits and r are read striped; each of the others keeps its
    DIMM busy for at least a[i] = min(ndp[i], localized read). Whichever leave, the a of those that
    stay, sorted, are at least those left when the largest `hbm_slots` + r leave. Every DIMM is busy
    for the charge of r striped reads, and some DIMM in addition for q, which is at least (1) the
    average of the rest over the DIMMs, (2) the largest of the rest, (3) by the pigeonhole principle
    the j + 1 smallest of the j D + 1 largest of the rest, and (4) a multiple of the divisor of all
    NDP costs and the localized read. Every channel is busy for r whole striped reads. The hosts
    need r times at least a striped read's cheaper host, and the GPU its base load, half of that on
    one of them; so do PCIe and the CPU without the base load. r is not known: the least value over
    r holds.
    """
    times = instance.path_times
    cost, ndp = times.cost, times.cost[Path.NDP]
    found = []
    for number in range(len(instance.scenarios)):
        active = times.tokens[number] > 0
        stay = np.minimum(ndp[number], instance.dram_localized_ns)[active]
        step = gcd(int(np.gcd.reduce(ndp[number])), instance.dram_localized_ns) or 1
        left = np.sort(stay)[::-1][instance.hbm_slots :]
        reads = np.arange(len(left) + 1)
        busiest = -(-_busiest_dimm(left, instance.dimms) // step) * step
        busiest += int(times.read[Path.GPU_STRIPED]) * reads
        busiest = np.maximum(busiest, int(times.channel_read[Path.GPU_STRIPED]) * reads)
        for of_gpu, base in ((cost, times.base), (times.pcie, 0)):
            host = np.minimum(of_gpu[Path.GPU_STRIPED, number], cost[Path.CPU_STRIPED, number])
            total = np.concatenate([[0], np.sort(host[active]).cumsum()])[: len(reads)]
            busiest = np.maximum(busiest, -(-(total + base) // 2))
        found.append(int(busiest.min()))
    return np.array(found, dtype=np.int64)


def average_load_ns(instance: Instance) -> Times:
    """Return the bounds by weighted averages over the devices, the weights improved step by step.

    Proof. For any weights >= 0 of the GPU, the CPU, each DIMM, each channel and PCIe, the makespan
    times their sum is at least the weighted sum of the device loads, which is the GPU's base load
    and a sum over the experts of what each costs in its way. No expert costs less than in its
    cheapest way other than a hit, but for at most `hbm_slots` hits; they save at most the largest
    differences. Any weights are valid; equal devices may as well have equal ones. Multiplicative
    updates raise the weights of devices that the cheapest ways overload. They run in floats; the
    value is computed in integers.
    """
    paths = _PathLoads.of(instance)
    kinds = len(paths.devices)
    best, best_value = (
        np.ones((len(instance.scenarios), kinds)),
        np.full(len(instance.scenarios), -1.0),
    )
    log_w = np.zeros_like(best)
    for step in range(ROUNDS):
        w = np.exp(log_w - log_w.max(axis=1, keepdims=True))
        w /= w.sum(axis=1, keepdims=True)
        value, load = paths.cheapest(w)
        better = value > best_value
        best[better], best_value[better] = w[better], value[better]
        log_w += load / np.maximum(load.max(axis=1, keepdims=True), 1.0) / (1 + step) ** 0.5 * 2
    scale = min(MAX_WEIGHT, 2**61 // (paths.longest * instance.experts))  # sums stay within int64
    return paths.bound((best * scale / paths.devices).astype(np.int64))


@dataclass(frozen=True)
class _PathLoads:
    """What each path keeps busy, by kind of device: GPU, CPU, DIMMs, and in schema 2 the others.

    Attributes
    ----------
    slots
        How many experts can be hits.
    base
        The GPU's base load.
    devices
        How many devices of each kind there are, shape (kinds,).
    busy
        The sum over the devices of a kind, shape (kinds, 6, scenarios, experts), by `Path`; 0
        without tokens.
    """

    slots: int
    base: int
    devices: Times
    busy: Times

    @classmethod
    def of(cls, instance: Instance) -> "_PathLoads":
        times, dimms = instance.path_times, instance.dimms
        on_gpu, on_cpu = np.equal.outer([Device.GPU, Device.CPU], DEVICE_OF)[..., None, None]
        of_gpu, of_cpu = np.where(on_gpu, times.cost, 0), np.where(on_cpu, times.cost, 0)
        of_dimms = _on_all(times.read, dimms, times.active)
        of_dimms[Path.NDP] = times.cost[Path.NDP]
        kinds = [(1, of_gpu), (1, of_cpu), (dimms, of_dimms)]
        if times.channels:
            of_channels = _on_all(times.channel_read, times.channels, times.active)
            kinds.append((times.channels, of_channels))
        if times.pcie.any():
            kinds.append((1, times.pcie))
        devices, busy = zip(*kinds, strict=True)
        slots = min(instance.hbm_slots, instance.experts)
        return cls(slots, times.base, np.array(devices, dtype=np.int64), np.stack(busy))

    @property
    def longest(self) -> int:
        """The longest that any device is busy with one expert, or with the base load."""
        of_kind = self.busy.max(axis=(1, 2, 3)) // self.devices
        return max(int(of_kind.max()) + 1, self.base)

    def cheapest(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return the weighted averages, and the loads of the average devices behind them.

        `weights` are those of all devices of a kind together, shape (scenarios, kinds).
        """
        options = self._weighted(weights / self.devices)
        path = options[Path.GPU_STRIPED :].argmin(axis=0) + Path.GPU_STRIPED
        no_hit = np.take_along_axis(options, path[None], 0)[0]
        saving = no_hit - options[Path.HIT]
        if self.slots:
            most = np.argsort(-saving, axis=1, kind="stable")[:, : self.slots]
            gains = np.take_along_axis(saving, most, 1) > 0
            chosen = np.where(gains, Path.HIT, np.take_along_axis(path, most, 1))
            np.put_along_axis(path, most, chosen, 1)
        value = np.take_along_axis(options, path[None], 0)[0].sum(axis=1)
        busy = np.take_along_axis(self.busy, path[None, None], 1)[:, 0].sum(axis=2)
        load = busy.T / self.devices
        load[:, Device.GPU] += self.base
        return value + weights[:, Device.GPU] * self.base, load

    def bound(self, weights: Times) -> Times:
        """Return the bounds of integer weights of each device of a kind."""
        options = self._weighted(weights)
        no_hit = options[Path.GPU_STRIPED :].min(axis=0)
        saving = np.sort(np.maximum(no_hit - options[Path.HIT], 0), axis=1)
        least = no_hit.sum(axis=1) - saving[:, saving.shape[1] - self.slots :].sum(axis=1)
        least += weights[:, Device.GPU] * self.base
        return np.asarray(-(-least // np.maximum(weights @ self.devices, 1)))

    def _weighted(self, weights: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.einsum("sk,kpse->pse", weights, self.busy))


def _on_all(reads: Times, devices: int, active: NDArray[np.bool_]) -> Times:
    """Return the sums over all DIMMs or channels of each path's reads; striped ones keep all busy.

    Shape (6, scenarios, experts).
    """
    several = np.ones(len(Path), dtype=np.int64)
    several[[Path.GPU_STRIPED, Path.CPU_STRIPED]] = devices
    return np.where(active, (reads * several)[:, None, None], 0)


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
