"""One scenario by itself: experts with tokens, largest NDP cost first, in coarse time units."""

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moeopt.problems.layout.bounds import makespan_grid
from moeopt.problems.layout.instance import Instance
from moeopt.problems.layout.paths import Path

Times = NDArray[np.int64]
Ints = NDArray[np.int64]

GPU_PATHS = [Path.HIT, Path.GPU_STRIPED, Path.GPU_LOCAL]
CPU_PATHS = [Path.CPU_STRIPED, Path.CPU_LOCAL]
STRIPED_READS = [Path.GPU_STRIPED, Path.CPU_STRIPED]
LOCAL_READS = [Path.GPU_LOCAL, Path.CPU_LOCAL]


class Branch(NamedTuple):
    """A branch of the search: how many experts hosts read striped, and how many localized."""

    striped: int
    local: int


class Row(IntEnum):
    """What a branch's schedules use: the first index of `SingleScenario.usage`."""

    GPU = 0  # LA-C5
    CPU = 1  # LA-C6
    DIMMS = 2  # the sum of LA-C7 over the DIMMs, striped reads apart
    HITS = 3  # LA-C3
    STRIPED = 4  # the branch's striped reads
    LOCAL = 5  # the branch's localized reads
    SLOTS = 6  # the sum of LA-C4 over the DIMMs


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
    cost
        Shape (6, experts), by `Path`.
    striped_read, local_read
        How long a host's read keeps every DIMM, or its own, busy.
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
    striped_read: int
    local_read: int
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
            instance.dram_striped_ns // unit,
            instance.dram_localized_ns // unit,
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
    def classes(self) -> tuple[Times, Ints]:
        """The different columns of `cost`, shape (6, classes), and how many experts have each.

        Experts of one class are interchangeable.
        """
        cost, _, size = self._classes
        return cost, size

    @cached_property
    def _classes(self) -> tuple[Times, Ints, Ints]:
        cost, of, size = np.unique(self.cost, axis=1, return_inverse=True, return_counts=True)
        return cost, of.astype(np.int64), size.astype(np.int64)

    @cached_property
    def usage(self) -> Times:
        """What an expert of each class uses of each `Row` on each path, shape (7, 6, classes)."""
        cost, size = self.classes
        use = np.zeros((len(Row), len(Path), len(size)), dtype=np.int64)
        use[Row.GPU, GPU_PATHS], use[Row.CPU, CPU_PATHS] = cost[GPU_PATHS], cost[CPU_PATHS]
        use[Row.DIMMS, Path.NDP], use[Row.DIMMS, LOCAL_READS] = cost[Path.NDP], self.local_read
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


@dataclass(frozen=True)
class Assignment:
    """A path and a DIMM for each expert of a `SingleScenario`, in its order.

    `dimm` is -1 where an expert is striped.
    """

    path: Ints
    dimm: Ints

    def host_makespan(self, scenario: SingleScenario) -> int:
        """Return when the later host is done (LA-C5, LA-C6), in the scenario's units."""
        cost = scenario.cost[self.path, np.arange(scenario.experts)]
        gpu, cpu = (cost[np.isin(self.path, host)].sum() for host in (GPU_PATHS, CPU_PATHS))
        return int(max(gpu, cpu))

    def makespan(self, scenario: SingleScenario) -> int:
        """Return the makespan in the scenario's units (LA-C5 to LA-C7)."""
        cost = scenario.cost[self.path, np.arange(scenario.experts)]
        striped = np.isin(self.path, STRIPED_READS).sum() * scenario.striped_read
        own = np.zeros(scenario.dimms, dtype=np.int64)
        local = self.dimm >= 0
        work = np.where(self.path == Path.NDP, cost, scenario.local_read)
        np.add.at(own, self.dimm[local], work[local])
        return max(self.host_makespan(scenario), int(striped + own.max()))


def all_striped(scenario: SingleScenario) -> Assignment:
    """Return an assignment without localized experts, each on the host that then ends first."""
    path = np.empty(scenario.experts, dtype=np.int64)
    gpu, cpu = 0, 0
    for expert, cost in enumerate(scenario.cost.T.tolist()):
        if gpu + cost[Path.GPU_STRIPED] < cpu + cost[Path.CPU_STRIPED]:
            path[expert], gpu = Path.GPU_STRIPED, gpu + cost[Path.GPU_STRIPED]
        else:
            path[expert], cpu = Path.CPU_STRIPED, cpu + cost[Path.CPU_STRIPED]
    return Assignment(path, np.full(scenario.experts, -1))
