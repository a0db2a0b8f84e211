"""One scenario by itself: experts with tokens, largest NDP cost first, in coarse time units."""

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moeopt.problems.layout.bounds import makespan_grid
from moeopt.problems.layout.instance import Instance
from moeopt.problems.layout.paths import CPU_PATHS, GPU_PATHS, LOCAL_READS, STRIPED_READS, Path

Times = NDArray[np.int64]
Ints = NDArray[np.int64]


class Branch(NamedTuple):
    """A branch of the search: how many experts hosts read striped, and how many localized."""

    striped: int
    local: int


class Row(IntEnum):
    """What a branch's schedules use: the first index of `SingleScenario.usage`."""

    GPU = 0  # LA-C5
    CPU = 1  # LA-C6
    DIMMS = 2  # the sum of LA-C7 over the DIMMs, striped reads apart
    PCIE = 3  # LA-C9
    HITS = 4  # LA-C3
    STRIPED = 5  # the branch's striped reads, which LA-C8 holds to the makespan
    LOCAL = 6  # the branch's localized reads
    SLOTS = 7  # the sum of LA-C4 over the DIMMs


TIMES = slice(Row.GPU, Row.HITS)
"""The rows that are times; the others are counts."""


@dataclass(frozen=True)
class SingleScenario:
    """The data of one scenario; all times in units of `unit_ns`.

    Attributes
    ----------
    unit_ns
        Common divisor of all costs and reads.
    rows
        The experts with tokens, as rows of the instance, by falling NDP cost (ties: lower row).
    cost, pcie
        How long the device that computes is busy, and PCIe: shape (6, experts), by `Path`.
    base
        How long the GPU is busy before any expert.
    striped_read, local_read
        How long a host's read keeps every DIMM, or its own, busy.
    channel_read
        How long a striped read keeps every channel busy; a localized one its own `local_read`.
    channel
        The channel of each DIMM, numbered 0, 1, ...; empty where channels are no limit.
    dimms
        Number of DIMMs.
    hits
        How many experts can be hits (LA-C3): HBM slots, at most the number of experts.
    slots
        How many localized experts one DIMM holds (LA-C4), at most the number of experts.
    """

    unit_ns: int
    rows: Ints
    cost: Times
    pcie: Times
    base: int
    striped_read: int
    local_read: int
    channel_read: int
    channel: Ints
    dimms: int
    hits: int
    slots: int

    @classmethod
    def of(cls, instance: Instance, number: int) -> "SingleScenario":
        """Return scenario `number`; it needs at least one expert with tokens."""
        times = instance.path_times
        rows = np.flatnonzero(times.tokens[number])
        rows = rows[np.argsort(-times.cost[Path.NDP, number, rows], kind="stable")]
        unit = makespan_grid(instance, number)
        slots = len(rows) if instance.dimm_slots is None else instance.dimm_slots
        return cls(
            unit,
            rows,
            times.cost[:, number, rows] // unit,
            times.pcie[:, number, rows] // unit,
            times.base // unit,
            int(times.read[Path.GPU_STRIPED]) // unit,
            int(times.read[Path.GPU_LOCAL]) // unit,
            int(times.channel_read[Path.GPU_STRIPED]) // unit,
            times.channel,
            instance.dimms,
            min(instance.hbm_slots, len(rows)),
            min(slots, len(rows)),
        )

    @property
    def experts(self) -> int:
        """Number of experts with tokens."""
        return len(self.rows)

    @property
    def ndp(self) -> Times:
        """NDP costs, falling."""
        return np.asarray(self.cost[Path.NDP])

    @property
    def channels(self) -> int:
        """Number of memory channels; 0 where they are no limit."""
        return int(self.channel.max(initial=-1)) + 1

    @property
    def classes(self) -> tuple[Times, Ints]:
        """The `cost` of each class of experts, shape (6, classes), and how many experts it has.

        Experts of one class have equal columns of `cost` and `pcie`: they are interchangeable.
        """
        times, _, size = self._classes
        return times[: len(Path)], size

    @cached_property
    def _classes(self) -> tuple[Times, Ints, Ints]:
        times = np.concatenate([self.cost, self.pcie])
        times, of, size = np.unique(times, axis=1, return_inverse=True, return_counts=True)
        return times, of.astype(np.int64), size.astype(np.int64)

    @cached_property
    def usage(self) -> Times:
        """What an expert of each class uses of each `Row` on each path, shape (8, 6, classes)."""
        cost, size = self.classes
        use = np.zeros((len(Row), len(Path), len(size)), dtype=np.int64)
        use[Row.GPU, GPU_PATHS], use[Row.CPU, CPU_PATHS] = cost[GPU_PATHS], cost[CPU_PATHS]
        use[Row.DIMMS, Path.NDP], use[Row.DIMMS, LOCAL_READS] = cost[Path.NDP], self.local_read
        use[Row.PCIE] = self._classes[0][len(Path) :]
        use[Row.HITS, Path.HIT], use[Row.STRIPED, STRIPED_READS] = 1, 1
        use[Row.LOCAL, LOCAL_READS], use[Row.SLOTS, [Path.NDP, *LOCAL_READS]] = 1, 1
        return use

    def expand(self, count: Ints) -> Ints:
        """Return a path for each expert, given how many of each class take each path."""
        of = self._classes[1]
        path = np.empty(self.experts, dtype=np.int64)
        for number, of_class in enumerate(count.T):
            path[of == number] = np.repeat(np.arange(len(Path)), of_class)
        return path

    def dimm_capacity(self, branch: Branch, makespan: int) -> int:
        """Return what the striped reads leave of each DIMM's time within the makespan (LA-C7)."""
        return makespan - branch.striped * self.striped_read

    def reads_per_channel(self, branch: Branch, makespan: int) -> int | None:
        """Return how many localized reads a channel has time for (LA-C8); None if for all."""
        if not self.channels or not self.local_read:
            return None
        most = (makespan - branch.striped * self.channel_read) // self.local_read
        return None if most >= branch.local else max(most, 0)

    def channel_time(self, branch: Branch) -> int:
        """Return how long some channel is busy at least (LA-C8): localized reads spread evenly."""
        if not self.channels:
            return 0
        return branch.striped * self.channel_read + -(-branch.local // self.channels) * (
            self.local_read
        )


@dataclass(frozen=True)
class Assignment:
    """A path and a DIMM for each expert of a `SingleScenario`, in its order.

    `dimm` is -1 where an expert is striped.
    """

    path: Ints
    dimm: Ints

    def host_makespan(self, scenario: SingleScenario) -> int:
        """Return when hosts and PCIe are done (LA-C5, LA-C6, LA-C9), in the scenario's units."""
        here = np.arange(scenario.experts)
        cost, pcie = scenario.cost[self.path, here], scenario.pcie[self.path, here].sum()
        gpu, cpu = (cost[np.isin(self.path, host)].sum() for host in (GPU_PATHS, CPU_PATHS))
        return int(max(scenario.base + gpu, cpu, pcie))

    def makespan(self, scenario: SingleScenario) -> int:
        """Return the makespan in the scenario's units (LA-C5 to LA-C9)."""
        cost = scenario.cost[self.path, np.arange(scenario.experts)]
        reads = int(np.isin(self.path, STRIPED_READS).sum())
        own = np.zeros(scenario.dimms, dtype=np.int64)
        local = self.dimm >= 0
        work = np.where(self.path == Path.NDP, cost, scenario.local_read)
        np.add.at(own, self.dimm[local], work[local])
        busy = max(self.host_makespan(scenario), reads * scenario.striped_read + int(own.max()))
        if scenario.channels:
            read_on = self.dimm[np.isin(self.path, LOCAL_READS)]
            local_reads = np.bincount(scenario.channel[read_on], minlength=scenario.channels)
            channels = reads * scenario.channel_read + scenario.local_read * int(local_reads.max())
            busy = max(busy, channels)
        return busy


def all_striped(scenario: SingleScenario) -> Assignment:
    """Return an assignment without localized experts, each on the host that then ends first."""
    path = np.empty(scenario.experts, dtype=np.int64)
    gpu, cpu = scenario.base, 0
    for expert, cost in enumerate(scenario.cost.T.tolist()):
        if gpu + cost[Path.GPU_STRIPED] < cpu + cost[Path.CPU_STRIPED]:
            path[expert], gpu = Path.GPU_STRIPED, gpu + cost[Path.GPU_STRIPED]
        else:
            path[expert], cpu = Path.CPU_STRIPED, cpu + cost[Path.CPU_STRIPED]
    return Assignment(path, np.full(scenario.experts, -1))
