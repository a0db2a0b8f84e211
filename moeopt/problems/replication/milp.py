"""The MILP model in PuLP: the same IDs; loads in tokens."""

from collections.abc import Callable
from typing import Any

import pulp

from moeopt.core.formulation import FLOAT_RANGE, Formulation

from .cpsat import TWICE, decoded
from .instance import Instance
from .solution import Solution


class Model(Formulation):
    """Integers as in CP-SAT's model; with a free split a window's peak is one in units."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.model = pulp.LpProblem("replication", pulp.LpMinimize)
        self.objective_unit = instance.units_per_token
        while int(instance.weights @ instance.loads_units.max(axis=1)) > (
            FLOAT_RANGE * self.objective_unit
        ):
            self.objective_unit *= 10
        self.numbers = range(1, min(instance.max_copies, instance.devices) + 1)
        experts, devices = range(instance.experts), range(instance.devices)
        self.counts = [
            [self.model.add_variable(f"counts_{e}_{k}", cat="Binary") for k in self.numbers]
            for e in experts
        ]
        self.lies = [
            [
                [
                    self.model.add_variable(f"lies_{e}_{g}_{k}", 0, TWICE, cat="Integer")
                    for k in self.numbers
                ]
                for g in devices
            ]
            for e in experts
        ]
        free = instance.split == "free"
        kind = "Integer" if free else "Continuous"
        step = 1 if free else self.objective_unit
        self.peaks = [
            self.model.add_variable(
                f"peak_{w}", 0, None if not free else int(loads.sum()), cat=kind
            )
            for w, loads in enumerate(instance.loads_units)
        ]
        self.per_step = step / self.objective_unit
        self.moves = self.model.add_variable("moves", 0)
        weighted = zip(instance.weights.tolist(), self.peaks, strict=True)
        self.total = pulp.lpSum(w * self.per_step * peak for w, peak in weighted) + self.moves
        self.model.setObjective(self.total)
        for e in experts:
            for k, count in zip(self.numbers, self.counts[e], strict=True):
                of_device = pulp.lpSum(self.lies[e][g][k - 1] for g in devices)
                self.model += of_device == k * count, f"of_count_{e}_{k}"

    def rp_c1_copies(self) -> None:
        """Post RP-C1: one number of copies, from 1 to max_copies."""
        for e, counts in enumerate(self.counts):
            self.model += pulp.lpSum(counts) == 1, f"RP_C1_{e}"

    def rp_c2_slots(self) -> None:
        """Post RP-C2: each device's copies fit into its slots."""
        for g in range(self.instance.devices):
            held = pulp.lpSum(number for lies in self.lies for number in lies[g])
            self.model += held <= self.instance.slots, f"RP_C2_{g}"

    def rp_c3_different_devices(self) -> None:
        """Post RP-C3: at most one copy of an expert on a device."""
        for e, lies in enumerate(self.lies):
            for g, on_device in enumerate(lies):
                self.model += pulp.lpSum(on_device) <= 1, f"RP_C3_{e}_{g}"

    def rp_c4_nodes(self) -> None:
        """Post RP-C4: the copies of a group are in the node that it is given."""
        i = self.instance
        if i.nodes == 1:
            return
        for group, first in enumerate(range(0, i.experts, i.group_size)):
            home = [
                self.model.add_variable(f"home_{group}_{node}", cat="Binary")
                for node in range(i.nodes)
            ]
            self.model += pulp.lpSum(home) == 1, f"RP_C4_{group}"
            for e in range(first, first + i.group_size):
                for g, on_device in enumerate(self.lies[e]):
                    here = TWICE * home[g // i.devices_per_node]
                    self.model += pulp.lpSum(on_device) <= here, f"RP_C4_{e}_{g}"

    def rp_c5_loads(self) -> None:
        """Post RP-C5: no device has more of a window's tokens than its peak."""
        i, unit = self.instance, self.objective_unit
        for w, loads in enumerate(i.loads_units.tolist()):
            peak = self.per_step * self.peaks[w]
            if i.split == "free":
                self._free(w, [load / unit for load in loads], peak)
                continue
            for g in range(i.devices):
                held = pulp.LpAffineExpression(
                    (lies[g][k - 1], load / k / unit)
                    for load, lies in zip(loads, self.lies, strict=True)
                    for k in self.numbers
                    if load
                )
                self.model += held <= peak, f"RP_C5_{w}_{g}"

    def rp_c6_moves(self) -> None:
        """Post RP-C6: copies that are not there now cost."""
        i = self.instance
        if i.current is not None and i.move_cost:
            new = pulp.lpSum(
                number
                for lies, now in zip(self.lies, i.current, strict=True)
                for g, on_device in enumerate(lies)
                if g not in now
                for number in on_device
            )
            self.model += i.move_cost / self.objective_unit * new <= self.moves, "RP_C6"

    def start_from(self, solution: Solution, objective: int) -> None:
        """Look for nothing worse than a known solution; the caller keeps that one."""
        self.model += self.total <= objective / self.objective_unit

    def decode(self, value: Callable[[Any], int]) -> Solution:
        """Read the decision off the solver's values."""
        return decoded(self.instance, self.lies, value)

    def _free(self, w: int, loads: list[float], peak: Any) -> None:
        """Let each device take what it likes of the experts that it holds."""
        i = self.instance
        taken: list[list[Any]] = [[] for _ in range(i.devices)]
        for e, load in enumerate(loads):
            if not load:
                continue
            parts = [self.model.add_variable(f"part_{w}_{e}_{g}", 0) for g in range(i.devices)]
            there = load * pulp.lpSum(self.counts[e])
            self.model += pulp.lpSum(parts) == there, f"RP_C5_{w}_{e}_all"
            for g, part in enumerate(parts):
                held = load * pulp.lpSum(self.lies[e][g])
                self.model += part <= held, f"RP_C5_{w}_{e}_{g}"
                taken[g].append(part)
        for g, parts in enumerate(taken):
            self.model += pulp.lpSum(parts) <= peak, f"RP_C5_{w}_{g}"
