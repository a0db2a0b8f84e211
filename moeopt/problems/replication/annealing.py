"""Placements as arrays for the compiled annealing, and back."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .instance import Instance, Ints
from .kernels import EMPTY, anneal
from .solution import Solution

HEAT, COLD = 3e-3, 1e-5
"""First and last temperature, as shares of the peaks."""

SMOOTH = 0.5
"""What the sum of squared loads, over the mean load of all, counts beside the peaks."""


CHUNK = 1e8
"""Steps between two looks at the clock, times devices times windows and a constant: some 50 ms."""


@dataclass(frozen=True)
class Arrays:
    """What does not change: see `kernels.anneal`."""

    instance: Instance
    share: Ints
    moved: Ints

    @classmethod
    def of(cls, instance: Instance) -> "Arrays":
        """Return the arrays of an instance."""
        most = instance.most_copies
        share = np.zeros((len(instance.windows), instance.experts, most + 1), dtype=np.int64)
        for copies in range(1, most + 1):
            share[:, :, copies] = instance.loads_units // copies
        moved = np.zeros((1, 1), dtype=np.int64)
        if instance.current is not None and instance.move_cost:
            shape = (instance.experts, instance.devices)
            moved = np.full(shape, instance.move_cost, dtype=np.int64)
            for expert, devices in enumerate(instance.current):
                moved[expert, list(devices)] = 0
        return cls(instance, share, moved)

    def annealed(
        self,
        start: Solution,
        steps: int,
        seed: int,
        stopped: Callable[[], bool],
        cold: float = COLD,
    ) -> Solution:
        """Return the best placement that some steps of annealing find, `start` at worst.

        Parameters
        ----------
        start
            A valid placement.
        steps, seed
            How many steps, and what the random numbers come from.
        stopped
            Asked every 50 ms or so whether to end.
        cold
            The last temperature, as a share of the peaks.
        """
        i = self.instance
        slot = slots_of(i, start)
        count = np.array([len(row) for row in start.copies], dtype=np.int64)
        where = np.zeros((i.experts, i.most_copies), dtype=np.int64)
        load = np.zeros((len(i.windows), i.devices), dtype=np.int64)
        for expert, row in enumerate(start.copies):
            where[expert, : len(row)] = row
            for device in row:
                load[:, device] += self.share[:, expert, len(row)]
        state = (slot, count, where, load)
        at_once = int(CHUNK / (load.size + 240))
        heat = HEAT * float(i.weights @ load.max(axis=1))
        cooling = (cold / HEAT) ** (1 / steps)
        found, here = slot.copy(), slot.copy()
        least = None
        numbers = np.array([i.devices_per_node, 0, 2 * seed + 1], dtype=np.int64)
        for done in range(0, steps, at_once):
            if stopped():
                break
            part = min(at_once, steps - done)
            numbers[1] = part
            factors = np.array([heat, cooling, SMOOTH])
            fixed = (self.moved, here, numbers, factors)
            cost = anneal(self.share, i.weights, *state, *fixed)
            heat *= cooling**part
            if least is None or cost < least:
                least, found[:] = cost, here
        return solution_of(i, found)


def slots_of(instance: Instance, solution: Solution) -> Ints:
    """Return the expert in each slot, shape (devices, slots); `EMPTY` where there is none."""
    slot = np.full((instance.devices, instance.slots), EMPTY, dtype=np.int64)
    filled = [0] * instance.devices
    for expert, row in enumerate(solution.copies):
        for device in row:
            slot[device, filled[device]] = expert
            filled[device] += 1
    return slot


def solution_of(instance: Instance, slot: Ints) -> Solution:
    """Return the solution with these experts in the slots."""
    rows: list[list[int]] = [[] for _ in range(instance.experts)]
    for device, held in enumerate(slot.tolist()):
        for expert in held:
            if expert != EMPTY:
                rows[expert].append(device)
    return Solution(instance=instance.name, copies=tuple(map(tuple, rows)))
