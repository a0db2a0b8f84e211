"""The MILP model in PuLP: the same IDs; loads in tokens, kernel times in ns or powers of ten."""

from collections.abc import Callable

import numpy as np
import pulp
from numpy.typing import NDArray
from pulp import LpVariable

from moeopt.core.formulation import FLOAT_RANGE, Formulation

from .bounds import objective_limit
from .cpsat import TWICE, decoded, kernel_loads
from .dispatch import is_dispatched
from .instance import Instance, Solution


class Model(Formulation):
    """Integers as in CP-SAT's model; with a free split a window's peak is one in units."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.model = pulp.LpProblem("replication", pulp.LpMinimize)
        self.objective_unit = instance.units_per_token
        largest = int(instance.weights @ instance.loads_units.max(axis=1))
        if instance.work == "kernel":
            largest = objective_limit(instance)
        while largest > FLOAT_RANGE * self.objective_unit:
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
        kernel = instance.work == "kernel"
        self.at = self._ordered() if kernel and instance.split == "even" else []
        self.tokens = self._dispatched() if is_dispatched(instance) else []
        # Peaks are integers in units where a free split, or a token's way, is rounded up.
        free = (instance.split == "free" and not kernel) or instance.links is not None
        kind = "Integer" if free else "Continuous"
        step = 1 if free else self.objective_unit
        self.peaks = [
            self.model.add_variable(
                f"peak_{w}", 0, None if not free else self._most(loads), cat=kind
            )
            for w, loads in enumerate(instance.loads_units)
        ]
        self.per_step = step / self.objective_unit
        self.moves = self.model.add_variable("moves", 0)
        self.slots = self.model.add_variable("slots", 0)
        weighted = zip(instance.weights.tolist(), self.peaks, strict=True)
        self.total = pulp.lpSum(w * self.per_step * peak for w, peak in weighted)
        self.total += self.moves + self.slots
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
            if i.work == "kernel":
                continue
            if i.split == "free":
                self._free(w, [load / unit for load in loads], peak)
                continue
            for g in range(i.devices):
                self.look()
                held = pulp.LpAffineExpression(
                    (lies[g][k - 1], load / k / unit)
                    for load, lies in zip(loads, self.lies, strict=True)
                    for k in self.numbers
                    if load
                )
                self.model += held <= peak, f"RP_C5_{w}_{g}"
        if i.work == "kernel":
            self._kernel_times()

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

    def rp_c7_shares(self) -> None:
        """Post RP-C7: the shares of an expert's tokens are all of them."""
        for w, (window, of_window) in enumerate(
            zip(self.instance.windows, self.tokens, strict=False)
        ):
            for e, (load, of_expert) in enumerate(zip(window.loads, of_window, strict=True)):
                held = pulp.lpSum(tokens for tokens, _ in of_expert)
                self.model += held == load, f"RP_C7_{w}_{e}"

    def rp_c8_slots(self) -> None:
        """Post RP-C8: copies beyond one per expert cost."""
        i = self.instance
        if i.slot_cost:
            beyond = pulp.lpSum(k * count for row in self.counts for k, count in enumerate(row))
            self.model += i.slot_cost / self.objective_unit * beyond <= self.slots, "RP_C8"

    def start_from(self, solution: Solution, objective: int) -> None:
        """Look for nothing worse than a known solution; the caller keeps that one."""
        self.model += self.total <= objective / self.objective_unit

    def decode(self, value: Callable[[LpVariable], int]) -> Solution:
        """Read the decision off the solver's values."""
        return decoded(self.instance, self.lies, value, self.tokens)

    def _most(self, loads: NDArray[np.int64]) -> int:
        """Return what a window's peak is not above, in units."""
        i = self.instance
        if i.work == "tokens":
            return int(loads.sum())
        slowest = i.scaled_read_ns * TWICE * i.experts + max(i.scaled_token_ns) * int(loads.sum())
        return slowest // i.scale + 1

    def _ordered(self) -> list[list[list[list[LpVariable]]]]:
        """Return which of an expert's k copies each device has, see `cpsat.Model`."""
        devices, found = range(self.instance.devices), []
        for e, of_expert in enumerate(self.lies):
            at = [
                [
                    [self.model.add_variable(f"at_{e}_{g}_{k}_{r}", cat="Binary") for r in range(k)]
                    for k in self.numbers
                ]
                for g in devices
            ]
            for k, count in zip(self.numbers, self.counts[e], strict=True):
                for g in devices:
                    here = pulp.lpSum(at[g][k - 1]) == of_expert[g][k - 1]
                    self.model += here, f"there_{e}_{g}_{k}"
                places = [[at[g][k - 1][r] for g in devices] for r in range(k)]
                for r, place in enumerate(places):
                    self.model += pulp.lpSum(place) == count, f"each_{e}_{k}_{r}"
                    if r:
                        before = pulp.lpSum(g * here for g, here in enumerate(places[r - 1]))
                        after = pulp.lpSum(g * here for g, here in enumerate(place))
                        self.model += before <= after, f"ordered_{e}_{k}_{r}"
            found.append(at)
        return found

    def _dispatched(self) -> list[list[list[tuple[LpVariable, LpVariable]]]]:
        """Return the tokens of each window's experts on each device, and whether there are any."""
        found = []
        for w, window in enumerate(self.instance.windows):
            of_window = []
            for e, load in enumerate(window.loads):
                of_expert = []
                for g, lies in enumerate(self.lies[e]):
                    tokens = self.model.add_variable(f"tokens_{w}_{e}_{g}", 0, load, cat="Integer")
                    reads = self.model.add_variable(f"reads_{w}_{e}_{g}", cat="Binary")
                    self.model += tokens <= load * reads, f"read_{w}_{e}_{g}"
                    self.model += reads <= pulp.lpSum(lies), f"held_{w}_{e}_{g}"
                    of_expert.append((tokens, reads))
                of_window.append(of_expert)
            found.append(of_window)
        return found

    def _kernel_times(self) -> None:
        """Let each device's time be within the window's peak."""
        i, unit = self.instance, self.objective_unit * self.instance.scale
        for w, (peak, of_window) in enumerate(zip(self.peaks, kernel_loads(self), strict=True)):
            for g, (reads, tokens) in enumerate(of_window):
                within = self.per_step * peak
                time = i.scaled_read_ns / unit * reads + i.scaled_link_ns[g] / unit * tokens
                self.model += time <= within, f"RP_C5_{w}_{g}_read"
                computed = i.scaled_token_ns[g] / unit * tokens
                self.model += computed <= within, f"RP_C5_{w}_{g}_compute"

    def _free(self, w: int, loads: list[float], peak: LpVariable) -> None:
        """Let each device take what it likes of the experts that it holds."""
        i = self.instance
        taken: list[list[LpVariable]] = [[] for _ in range(i.devices)]
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
