"""Futures as arrays for the compiled loops, a layout among them, and its improvement."""

from collections.abc import Callable, Sequence
from functools import reduce
from math import gcd

import numpy as np
from numpy.typing import NDArray

from moeopt.core.futures import Futures
from moeopt.problems.layout.bounds import makespan_grid
from moeopt.problems.layout.instance import Instance
from moeopt.problems.layout.paths import GPU_MISSES, STRIPED, Path
from moeopt.problems.layout.second_stage import Layout

from .annealing import anneal, load_all
from .recourse import (
    BASE,
    ON_GPU,
    RESIDENT,
    SLOTS,
    TOLERANCE,
    Ints,
    Loads,
    Sampled,
    schedule_all,
)

LARGEST = 2**30
"""No single time is longer, in the unit of `Sampled`."""

FINENESS = 600
"""Makespans are found to within such a part of their mean."""

SLICES = 40
"""Temperatures; between two of them the clock is looked at."""

HOT, COLD = 3e-4, 1e-5
"""The first and the last temperature, relative to the mean makespan."""


class Sample:
    """Futures of one layer, as `recourse.Sampled` has them.

    They are shuffled, as a race looks at them in portions.

    Parameters
    ----------
    instances
        Windows of the same layer on the same machine; how often each counts plays no part.

    Attributes
    ----------
    work_ns
        The NDP work of each expert, summed over the futures, shape (experts,).
    tokens
        The same of its tokens.
    """

    def __init__(self, instances: Sequence[Instance]) -> None:
        first = instances[0]
        times = [instance.path_times for instance in instances]
        cost = np.concatenate([of.cost for of in times], axis=1)
        # PCIe beside the computation: the longer of the two stands for both.
        copies = np.concatenate([of.pcie for of in times], axis=1)
        cost[GPU_MISSES] = np.maximum(cost[GPU_MISSES], copies[GPU_MISSES])
        active = np.concatenate([of.active for of in times])
        shuffled = np.random.default_rng(0).permutation(len(active))
        cost, active = cost[:, shuffled], active[shuffled]
        grids = (makespan_grid(one, s) for one in instances for s in range(len(one.scenarios)))
        unit = max(reduce(gcd, grids), 1)
        unit *= -(-int(cost.max()) // (unit * LARGEST)) or 1
        self.unit_ns, self.experts, self.dimms = unit, first.experts, first.dimms
        self.residents = min(first.hbm_slots, first.experts)
        self.tokens = np.concatenate([of.tokens for of in times]).sum(axis=0)
        self.work_ns = cost[Path.NDP].sum(axis=0)
        ratio = cost[Path.GPU_STRIPED] / (cost[Path.CPU_STRIPED] + 1.0)
        slots = first.experts if first.dimm_slots is None else first.dimm_slots
        read, full = times[0].read, times[0].full_read
        reads = [read[Path.CPU_STRIPED], full[Path.CPU_STRIPED], read[Path.CPU_LOCAL]]
        machine = [-(-int(ns) // unit) for ns in (*reads, times[0].base)]
        self.arrays = Sampled(
            np.ascontiguousarray(-(-cost.transpose(1, 2, 0) // unit)).astype(np.int32),
            active,
            np.argsort(np.where(active, ratio, np.inf), axis=1, kind="stable").astype(np.int16),
            np.array([*machine, slots, 1], dtype=np.int64),
        )

    def loads(self, place: Ints) -> Loads:
        """Return what a layout gives every future to do, scheduled."""
        futures = len(self.arrays.cost)
        at = Loads(
            place.copy(),
            np.zeros((self.dimms, 1 + self.experts), dtype=np.int64),
            np.zeros((futures, 3), dtype=np.int64),
            np.zeros((futures, self.dimms), dtype=np.int64),
            np.full(futures, LARGEST, dtype=np.int64),
        )
        at.hosts[:, ON_GPU] = self.arrays.machine[BASE]
        load_all(self.arrays, at)
        schedule_all(self.arrays, at, np.empty(self.experts, dtype=np.int64))
        self.arrays.machine[TOLERANCE] = max(1, int(at.makespan.mean()) // FINENESS)
        return at

    def value(self, place: Ints, futures: Futures) -> int:
        """Return the sum or the quantile of a layout's makespans, in `unit_ns`."""
        return futures.value(self.loads(place).makespan)

    def longest_first(self) -> list[Ints]:
        """Return a layout for each number of localized experts, the coldest ones of the sample.

        Longest first: by falling NDP work, each to the DIMM with least so far that has a slot. The
        hottest are resident.
        """
        order = np.lexsort((np.arange(self.experts), -self.tokens))
        room = self.dimms * int(self.arrays.machine[SLOTS])
        found = []
        for count in range(min(self.experts - self.residents, room) + 1):
            place = np.full(self.experts, STRIPED, dtype=np.int64)
            place[order[: self.residents]] = RESIDENT
            busy, held = np.zeros(self.dimms), np.zeros(self.dimms)
            cold = order[self.experts - count :]
            for i in cold[np.argsort(-self.work_ns[cold], kind="stable")].tolist():
                busy[held >= self.arrays.machine[SLOTS]] = np.inf
                place[i] = int(busy.argmin())
                busy[place[i]] += self.work_ns[i]
                held[place[i]] += 1
            found.append(place)
        return found

    def improved(
        self,
        place: Ints,
        futures: Futures,
        seed: int,
        evaluations: int,
        stopped: Callable[[], bool],
    ) -> Ints:
        """Return the best layout that annealing from `place` comes past, itself at the worst.

        Parameters
        ----------
        evaluations
            Schedules to be made, in `SLICES` portions of falling temperature.
        stopped
            Asked between portions.
        """
        at = self.loads(place)
        best, least = place, futures.value(at.makespan)
        random = np.array([(seed + 1) * 0x9E3779B97F4A7C15 % 2**64 or 1], dtype=np.uint64)
        mean = max(float(at.makespan.mean()), 1.0)
        for turn in range(SLICES):
            if stopped():
                break
            floor = 0 if futures.quantile is None else futures.value(at.makespan)
            heat = HOT * (COLD / HOT) ** (turn / (SLICES - 1)) * mean
            anneal(self.arrays, at, random, heat, floor, evaluations // SLICES)
            value = futures.value(at.makespan)
            if value < least:
                best, least = at.place.copy(), value
        return best


def place_of(layout: Layout) -> Ints:
    """Return a layout as `Loads.place` has it; resident experts are striped there."""
    return np.where(layout.resident, RESIDENT, layout.dimm).astype(np.int64)


def layout_at(place: NDArray[np.int64]) -> Layout:
    """Return the layout of a `Loads.place`."""
    return Layout(place == RESIDENT, np.where(place >= 0, place, STRIPED))
