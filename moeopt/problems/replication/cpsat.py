"""The CP-SAT model: one method per constraint ID (`formulations/replication/spec.md`)."""

from collections.abc import Callable, Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from moeopt.core.envelope import LARGEST_SUM
from moeopt.core.formulation import Formulation, IntVar, LinearExpr, cp_model

from .bounds import objective_grid, objective_limit, peak_limits, time_grid
from .instance import Instance, Solution

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
    at
        ``at[e][g][k][r]``: which of them it is, by device number: what an even split of whole
        tokens hangs on. Empty where that does not matter.
    """

    parameters: ClassVar[dict[str, object]] = {}

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.objective_unit = objective_grid(instance)
        self.model = cp_model.CpModel()
        self.numbers = range(1, min(instance.max_copies, instance.devices) + 1)
        experts, devices = range(instance.experts), range(instance.devices)
        weights = instance.weights
        flag, number = self.model.new_bool_var, self.model.new_int_var
        self.counts = [[flag(f"counts[{e},{k}]") for k in self.numbers] for e in experts]
        self.lies = [
            [[number(0, TWICE, f"lies[{e},{g},{k}]") for k in self.numbers] for g in devices]
            for e in experts
        ]
        for e in experts:
            for k, count in zip(self.numbers, self.counts[e], strict=True):
                self.model.add(sum(self.lies[e][g][k - 1] for g in devices) == k * count)
        self.at = self._ordered() if instance.work == "kernel" and instance.split == "even" else []
        self.tokens = self._dispatched() if instance.has_shares else []
        # Peaks are whole where a free split, or a token's way, is rounded up.
        free = instance.split == "free" and instance.work == "tokens"
        rounded = free or instance.links is not None
        self.whole = ("lies", "tokens", "peak") if rounded else ("lies", "tokens")
        # A peak counts with its weight, in steps; one of kernels is a time by itself, in steps, and
        # one of a free split a number of units.
        self.step, factors = self.objective_unit, [1] * len(weights)
        weighted = weights.tolist()
        if instance.work == "kernel" or instance.split == "free":
            self.step = time_grid(instance) if instance.work == "kernel" else 1
            factors = [int(weight) * self.step // self.objective_unit for weight in weights]
            weighted = [1] * len(weights)
        limit = TWICE * objective_limit(instance) // self.step
        limits = [limit] * len(weights)
        if sum(factors) * limit > LARGEST_SUM:  # certificates hang on the limits of all others
            longest = zip(weighted, peak_limits(instance), strict=True)
            limits = [TWICE * times * most // self.step + 1 for times, most in longest]
        self.peaks = [number(0, most, f"peak[{w}]") for w, most in enumerate(limits)]
        copies = TWICE * instance.devices * instance.experts
        self.moves = number(0, self._steps(instance.move_cost * copies), "moves")
        self.slots = number(0, self._steps(instance.slot_cost * copies), "slots")
        self.total = sum(f * peak for f, peak in zip(factors, self.peaks, strict=True))
        self.total += self.moves + self.slots
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
        for group, first in enumerate(range(0, i.experts, i.group_size)):
            home = [self.model.new_bool_var(f"home[{group},{node}]") for node in range(i.nodes)]
            self.model.add_exactly_one(home)
            for lies in self.lies[first : first + i.group_size]:
                for g, on_device in enumerate(lies):
                    self.model.add(sum(on_device) <= TWICE * home[g // i.devices_per_node])

    def rp_c5_loads(self) -> None:
        """Post RP-C5: no device has more of a window's tokens than its peak."""
        i = self.instance
        for w, (peak, weight, loads) in enumerate(self._windows()):
            if i.work == "kernel":
                continue
            if i.split == "free":
                self._free(w, peak, loads.tolist())
                continue
            for g in range(i.devices):
                self.look()
                held = [
                    (self._steps(weight * int(load) // k), lies[g][k - 1])
                    for load, lies in zip(loads, self.lies, strict=True)
                    for k in self.numbers
                ]
                self.model.add(sum(share * lies for share, lies in held if share) <= peak)
        if i.work == "kernel":
            self._kernel_times()

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

    def rp_c7_shares(self) -> None:
        """Post RP-C7: the shares of an expert's tokens are all of them."""
        for window, of_window in zip(self.instance.windows, self.tokens, strict=False):
            for load, of_expert in zip(window.loads, of_window, strict=True):
                self.model.add(sum(tokens for tokens, _ in of_expert) == load)

    def rp_c8_slots(self) -> None:
        """Post RP-C8: copies beyond one per expert cost."""
        i = self.instance
        if i.slot_cost:
            beyond = [k * count for counts in self.counts for k, count in enumerate(counts) if k]
            self.model.add(self._steps(i.slot_cost) * sum(beyond) <= self.slots)

    def start_from(self, solution: Solution, objective: int) -> None:
        """Look for nothing worse than a known solution, starting from it."""
        self.model.add(self.total <= self._steps(objective))
        for counts, lies, row in zip(self.counts, self.lies, solution.copies, strict=True):
            for k, count in zip(self.numbers, counts, strict=True):
                self.model.add_hint(count, k == len(row))
                for g, on_device in enumerate(lies):
                    self.model.add_hint(on_device[k - 1], int(k == len(row) and g in row))

        for of_window, rows in zip(self.tokens, solution.shares or (), strict=False):
            for of_expert, row, copies in zip(of_window, rows, solution.copies, strict=True):
                for g, (tokens, _) in enumerate(of_expert):
                    self.model.add_hint(tokens, row[copies.index(g)] if g in copies else 0)

    def decode(self, value: Callable[[IntVar], int]) -> Solution:
        """Read the decision off the solver's values."""
        rows = tuple(
            tuple(
                device
                for device, on_device in enumerate(of_expert)
                for _ in range(sum(value(number) for number in on_device))
            )
            for of_expert in self.lies
        )
        shares = tuple(
            tuple(
                # Two copies on one device, if RP-C3 is left out: the first has all tokens.
                tuple(value(of_expert[g][0]) * (g not in row[:n]) for n, g in enumerate(row))
                for row, of_expert in zip(rows, of_window, strict=True)
            )
            for of_window in self.tokens
        )
        return Solution(instance=self.instance.name, copies=rows, shares=shares or None)

    def _ordered(self) -> list[list[list[list[IntVar]]]]:
        """Return which of an expert's k copies each device has, in order of the devices' numbers.

        On one device there may be two here, one after the other: RP-C3 forbids it.
        """
        devices, found = range(self.instance.devices), []
        for e, of_expert in enumerate(self.lies):
            at = [
                [[self.model.new_bool_var(f"at[{e},{g},{k},{r}]") for r in range(k)]
                 for k in self.numbers]
                for g in devices
            ]  # fmt: skip
            for k, count in zip(self.numbers, self.counts[e], strict=True):
                for g in devices:
                    self.model.add(sum(at[g][k - 1]) == of_expert[g][k - 1])
                places = [[at[g][k - 1][r] for g in devices] for r in range(k)]
                for r, place in enumerate(places):
                    self.model.add(sum(place) == count)
                    if r:
                        before = sum(g * here for g, here in enumerate(places[r - 1]))
                        self.model.add(before <= sum(g * here for g, here in enumerate(place)))
            found.append(at)
        return found

    def _dispatched(self) -> list[list[list[tuple[IntVar, IntVar]]]]:
        """Return the tokens of each window's experts on each device, and whether there are any."""
        found = []
        for w, window in enumerate(self.instance.windows):
            of_window = []
            for e, load in enumerate(window.loads):
                of_expert = []
                for g, lies in enumerate(self.lies[e]):
                    tokens = self.model.new_int_var(0, load, f"tokens[{w},{e},{g}]")
                    reads = self.model.new_bool_var(f"reads[{w},{e},{g}]")
                    self.model.add(tokens <= load * reads)
                    self.model.add(reads <= sum(lies))
                    of_expert.append((tokens, reads))
                of_window.append(of_expert)
            found.append(of_window)
        return found

    def _kernel_times(self) -> None:
        """Let each device's time, multiplied by the scale, be within the window's peak."""
        i = self.instance
        for w, peak in enumerate(self.peaks):
            for g in range(i.devices):
                reads, tokens = self._kernel_loads(w, g)
                within = i.scale * self.step * peak
                way = i.scaled_link_ns[g] * tokens
                self.model.add(i.scaled_read_ns * reads + way <= within)
                self.model.add(i.scaled_token_ns[g] * tokens <= within)

    def _kernel_loads(self, w: int, g: int) -> tuple[LinearExpr, LinearExpr]:
        """Return the experts that a device reads in a window, and its tokens; Python's sums."""
        if self.tokens:
            here = [of_expert[g] for of_expert in self.tokens[w]]
            return sum(reads for _, reads in here), sum(count for count, _ in here)
        shares = [
            (load // k + (r < load % k), at)
            for load, of_expert in zip(self.instance.windows[w].loads, self.at, strict=True)
            for k in self.numbers
            for r, at in enumerate(of_expert[g][k - 1])
        ]
        reads = sum(at for share, at in shares if share)
        return reads, sum(share * at for share, at in shares if share)

    def _free(self, w: int, peak: IntVar, loads: list[int]) -> None:
        """Let each device take what it likes of the experts that it holds."""
        i = self.instance
        taken: list[list[IntVar]] = [[] for _ in range(i.devices)]
        for e, (load, counts, lies) in enumerate(zip(loads, self.counts, self.lies, strict=True)):
            if not load:
                continue
            parts = [
                self.model.new_int_var(0, load, f"part[{w},{e},{g}]") for g in range(i.devices)
            ]
            self.model.add(sum(parts) == load * sum(counts))
            for g, part in enumerate(parts):
                self.model.add(part <= load * sum(lies[g]))
                taken[g].append(part)
        for parts in taken:
            self.model.add(sum(parts) <= peak)

    def _windows(self) -> Iterator[tuple[IntVar, int, NDArray[np.int64]]]:
        i = self.instance
        return zip(self.peaks, i.weights.tolist(), i.loads_units, strict=True)

    def _steps(self, units: int) -> int:
        return units // self.objective_unit
