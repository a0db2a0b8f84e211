"""The CP-SAT model: one method per constraint ID (`formulations/replication/spec.md`)."""

from collections.abc import Callable
from typing import Any, ClassVar

from ortools.sat.python import cp_model

from moeopt.core.formulation import Formulation

from .bounds import objective_grid
from .instance import Instance
from .solution import Solution

TWICE = 2
"""Copies of one expert that a device could hold if RP-C3 did not forbid it."""


class Model(Formulation):
    """How many copies each expert has, and on which devices.

    Attributes
    ----------
    counts
        ``counts[e][k]``: whether expert e has k + 1 copies.
    lies
        ``lies[e][g][k]``: how many of these k + 1 copies are on device g.
    """

    parameters: ClassVar[dict[str, Any]] = {}

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.objective_unit = objective_grid(instance)
        self.model = cp_model.CpModel()
        self.numbers = range(1, min(instance.max_copies, instance.devices) + 1)
        experts, devices = range(instance.experts), range(instance.devices)
        flag, number = self.model.new_bool_var, self.model.new_int_var
        self.counts = [[flag(f"counts[{e},{k}]") for k in self.numbers] for e in experts]
        self.lies = [
            [[number(0, TWICE, f"lies[{e},{g},{k}]") for k in self.numbers] for g in devices]
            for e in experts
        ]
        for e in experts:
            for k, count in zip(self.numbers, self.counts[e], strict=True):
                self.model.add(sum(self.lies[e][g][k - 1] for g in devices) == k * count)
        self.peaks = [
            number(0, self._steps(weight * int(loads.sum())), f"peak[{w}]")
            for w, (weight, loads) in enumerate(self._windows())
        ]
        most = instance.move_cost * TWICE * instance.devices * instance.experts
        self.moves = number(0, self._steps(most), "moves")
        self.total = sum(self.peaks) + self.moves
        self.model.minimize(self.total)

    def rp_c1_copies(self) -> None:
        """Post RP-C1: one number of copies, from 1 to max_copies."""
        for counts in self.counts:
            self.model.add_exactly_one(counts)

    def rp_c2_slots(self) -> None:
        """Post RP-C2: each device's copies fit into its slots."""
        for g in range(self.instance.devices):
            self.model.add(sum(sum(lies[g]) for lies in self.lies) <= self.instance.slots)

    def rp_c3_different_devices(self) -> None:
        """Post RP-C3: at most one copy of an expert on a device."""
        for lies in self.lies:
            for on_device in lies:
                self.model.add(sum(on_device) <= 1)

    def rp_c4_nodes(self) -> None:
        """Post RP-C4: the copies of a group are in the node that it is given."""
        i = self.instance
        if i.nodes == 1:
            return
        for first in range(0, i.experts, i.group_size):
            home = [self.model.new_bool_var(f"home[{first},{node}]") for node in range(i.nodes)]
            self.model.add_exactly_one(home)
            for lies in self.lies[first : first + i.group_size]:
                for g, on_device in enumerate(lies):
                    self.model.add(sum(on_device) <= TWICE * home[g // i.devices_per_node])

    def rp_c5_loads(self) -> None:
        """Post RP-C5: no device has more of a window's tokens than its peak."""
        i = self.instance
        for peak, (weight, loads) in zip(self.peaks, self._windows(), strict=True):
            # The peak counts with its weight, in steps; a free split's loads are in units.
            if i.split == "free":
                self._free(peak, weight, loads.tolist())
                continue
            for g in range(i.devices):
                held = [
                    (self._steps(weight * int(load) // k), lies[g][k - 1])
                    for load, lies in zip(loads, self.lies, strict=True)
                    for k in self.numbers
                ]
                self.model.add(sum(share * lies for share, lies in held if share) <= peak)

    def rp_c6_moves(self) -> None:
        """Post RP-C6: copies that are not there now cost."""
        i = self.instance
        if i.current is not None and i.move_cost:
            new = [
                sum(on_device)
                for lies, now in zip(self.lies, i.current, strict=True)
                for g, on_device in enumerate(lies)
                if g not in now
            ]
            self.model.add(self._steps(i.move_cost) * sum(new) <= self.moves)

    def start_from(self, solution: Solution, objective: int) -> None:
        """Look for nothing worse than a known solution, starting from it."""
        self.model.add(self.total <= self._steps(objective))
        for counts, lies, row in zip(self.counts, self.lies, solution.copies, strict=True):
            for k, count in zip(self.numbers, counts, strict=True):
                self.model.add_hint(count, k == len(row))
                for g, on_device in enumerate(lies):
                    self.model.add_hint(on_device[k - 1], int(k == len(row) and g in row))

    def decode(self, value: Callable[[Any], int]) -> Solution:
        """Read the decision off the solver's values."""
        return decoded(self.instance, self.lies, value)

    def _free(self, peak: Any, weight: int, loads: list[int]) -> None:
        """Let each device take what it likes of the experts that it holds."""
        i = self.instance
        taken: list[list[Any]] = [[] for _ in range(i.devices)]
        for load, counts, lies in zip(loads, self.counts, self.lies, strict=True):
            if not load:
                continue
            parts = [self.model.new_int_var(0, load, "") for _ in range(i.devices)]
            self.model.add(sum(parts) == load * sum(counts))
            for g, part in enumerate(parts):
                self.model.add(part <= load * sum(lies[g]))
                taken[g].append(part)
        for parts in taken:
            self.model.add(weight * sum(parts) <= self.objective_unit * peak)

    def _windows(self) -> Any:
        i = self.instance
        return zip(i.weights.tolist(), i.loads_units, strict=True)

    def _steps(self, units: int) -> int:
        return units // self.objective_unit


def decoded(instance: Instance, lies: Any, value: Callable[[Any], int]) -> Solution:
    """Return the solution in which each device has so many copies of each expert."""
    rows = tuple(
        tuple(
            device
            for device, on_device in enumerate(of_expert)
            for _ in range(sum(value(number) for number in on_device))
        )
        for of_expert in lies
    )
    return Solution(instance=instance.name, copies=rows)
