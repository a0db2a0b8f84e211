"""One scenario as arrays: its experts with tokens, largest NDP cost first, in coarse time units."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from moeopt.problems.layout.bounds import makespan_grid
from moeopt.problems.layout.instance import Instance
from moeopt.problems.layout.paths import Path

Times = NDArray[np.int64]

HIT, GPU_STRIPED, CPU_STRIPED, GPU_LOCAL, CPU_LOCAL, NDP = range(6)
"""The ways of running an expert; `Scenario.cost` has one row each, in this order."""

HOST_WAYS = (HIT, GPU_STRIPED, CPU_STRIPED, GPU_LOCAL, CPU_LOCAL)


@dataclass(frozen=True)
class Scenario:
    """What bound-and-pack sees of one scenario; all times in units of `unit_ns`.

    Attributes
    ----------
    unit_ns
        Common divisor of all costs and reads.
    rows
        The experts with tokens, as rows of the instance, by falling NDP cost (ties: lower row).
    cost
        Shape (6, experts): the cost of each way, in the order of the constants above.
    striped_read, local_read
        How long a host's read keeps every DIMM, or its own, busy.
    dimms
        Number of DIMMs.
    hits
        How many experts can be hits: HBM slots, at most the number of experts.
    slots
        How many localized experts one DIMM holds, at most the number of experts.
    """

    unit_ns: int
    rows: NDArray[np.int64]
    cost: Times
    striped_read: int
    local_read: int
    dimms: int
    hits: int
    slots: int

    @classmethod
    def of(cls, instance: Instance, number: int) -> "Scenario":
        """Return scenario `number`; it needs at least one expert with tokens."""
        times = instance.path_times
        rows = np.flatnonzero(times.tokens[number])
        rows = rows[np.argsort(-times.cost[Path.NDP, number, rows], kind="stable")]
        unit = makespan_grid(instance, number)
        order = [Path.HIT, Path.GPU_STRIPED, Path.CPU_STRIPED, Path.GPU_LOCAL, Path.CPU_LOCAL]
        cost = times.cost[:, number, rows][[*order, Path.NDP]] // unit
        slots = len(rows) if instance.dimm_slots is None else instance.dimm_slots
        return cls(
            unit,
            rows,
            cost,
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
        return np.asarray(self.cost[NDP])

    @property
    def classes(self) -> tuple[Times, NDArray[np.int64]]:
        """The different columns of `cost`, and how many experts have each."""
        cost, _, size = self._classes
        return cost, size

    @cached_property
    def _classes(self) -> tuple[Times, NDArray[np.int64], NDArray[np.int64]]:
        cost, of, size = np.unique(self.cost, axis=1, return_inverse=True, return_counts=True)
        return cost, of.astype(np.int64), size.astype(np.int64)

    def ways(self, count: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a way for each expert, given how many of each class go each way."""
        of = self._classes[1]
        way = np.empty(self.experts, dtype=np.int64)
        for number, ways in enumerate(count.T):
            way[of == number] = np.repeat(np.arange(6), ways)
        return way

    @cached_property
    def ndp_before(self) -> Times:
        """Sum of the first k NDP costs, for k = 0, ..., experts."""
        return np.concatenate([[0], self.ndp.cumsum()])

    @cached_property
    def lattices(self) -> tuple[Times, Times]:
        """Return what every load of a DIMM is a multiple of, striped reads apart.

        If the first k experts leave NDP, k = 0, ..., experts: without, and with localized reads.
        """
        of_ndp = np.append(np.gcd.accumulate(self.ndp[::-1])[::-1], 0)
        with_reads = np.gcd(of_ndp, self.local_read)
        return np.maximum(of_ndp, 1), np.maximum(with_reads, 1)

    def leavers(self, striped_reads: int, local_reads: int) -> int:
        """Return how many experts can leave NDP in a state."""
        return min(self.hits + striped_reads + local_reads, self.experts)

    def packed(self, striped_reads: int, local_reads: int) -> tuple[Times, NDArray[np.int64]]:
        """Return what the DIMMs hold in a state (see `states`): sizes, falling, and experts.

        The items of localized reads are expert -1.
        """
        first = self.leavers(striped_reads, local_reads)
        stay, experts = self.ndp[first:], np.arange(first, self.experts)
        if not local_reads:
            return stay, experts
        at = [int(np.searchsorted(-stay, -self.local_read))] * local_reads
        return np.insert(stay, at, self.local_read), np.insert(experts, at, -1)


@dataclass(frozen=True)
class Plan:
    """Who runs how, for the experts of a `Scenario`, in its order.

    `dimm` is -1 where an expert is striped.
    """

    way: NDArray[np.int64]
    dimm: NDArray[np.int64]

    def hosts(self, scenario: Scenario) -> int:
        """Return when the later host is done, in the scenario's units."""
        cost = scenario.cost[self.way, np.arange(scenario.experts)]
        gpu = cost[np.isin(self.way, (HIT, GPU_STRIPED, GPU_LOCAL))].sum()
        cpu = cost[np.isin(self.way, (CPU_STRIPED, CPU_LOCAL))].sum()
        return int(max(gpu, cpu))

    def makespan(self, scenario: Scenario) -> int:
        """Return the makespan in the scenario's units, from the plan alone."""
        cost = scenario.cost[self.way, np.arange(scenario.experts)]
        striped = np.isin(self.way, (GPU_STRIPED, CPU_STRIPED)).sum() * scenario.striped_read
        own = np.zeros(scenario.dimms, dtype=np.int64)
        local = self.dimm >= 0
        np.add.at(
            own, self.dimm[local], np.where(self.way == NDP, cost, scenario.local_read)[local]
        )
        return max(self.hosts(scenario), int(striped + own.max()))
