"""The MILP model in PuLP: the same IDs; bytes in their common divisor."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import gcd

import pulp
from pulp import LpAffineExpression, LpVariable

from moeopt.core.formulation import Formulation, float_unit

from .cpsat import decoded, stops_of
from .instance import Instance, Solution


class Model(Formulation):
    """Flags of where each part lies; hops as flows between one stop and the next."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.objective_unit = float_unit(instance.largest)
        self.model = pulp.LpProblem("split", pulp.LpMinimize)
        self.stops = stops_of(instance.layers)
        every = range(len(instance.devices))
        new = self.model.add_variable
        self.lies = [
            [new(f"lies_{s}_{d}", cat="Binary") for d in every] for s in range(len(self.stops))
        ]
        self.taken = [new(f"taken_{d}", cat="Binary") for d in every]
        self.hops = []
        for s in range(len(self.stops) - 1):
            between = [[new(f"hops_{s}_{i}_{j}", 0, 1) for j in every] for i in every]
            for d in every:
                self.model += pulp.lpSum(between[d]) == self.lies[s][d], f"leaves_{s}_{d}"
                into = pulp.lpSum(row[d] for row in between)
                self.model += into == self.lies[s + 1][d], f"enters_{s}_{d}"
            self.hops.append(between)
        self.token, self.prompt = new("token", 0), new("prompt", 0)
        self.total = self.token + self.prompt
        self.model.setObjective(self.total)

    def sp_c1_homes(self) -> None:
        """Post SP-C1: each part lies on one device, which can run it."""
        for s, ((layer, part), flags) in enumerate(zip(self.stops, self.lies, strict=True)):
            times = getattr(self.instance.layers[layer], f"{part}_ns")
            can = [flag for flag, time in zip(flags, times, strict=True) if time is not None]
            self.model += pulp.lpSum(can) == 1, f"SP_C1_{s}"
            self.model += pulp.lpSum(flags) == 1, f"SP_C1_{s}_no_other"

    def sp_c2_memory(self) -> None:
        """Post SP-C2: parts fit, beside the buffer if it is needed."""
        sizes = [
            getattr(self.instance.layers[layer], f"{part}_bytes") for layer, part in self.stops
        ]
        unit = gcd(*sizes, *(device.buffer for device in self.instance.devices)) or 1
        for number, device in enumerate(self.instance.devices):
            terms = [
                (flags[number], size // unit) for flags, size in zip(self.lies, sizes, strict=True)
            ]
            terms.append((self.taken[number], device.buffer // unit))
            used = pulp.LpAffineExpression(terms)
            self.model += used <= device.capacity // unit, f"SP_C2_{number}"

    def sp_c3_buffers(self) -> None:
        """Post SP-C3: a device needs its buffer as soon as any part lies there."""
        for s, flags in enumerate(self.lies):
            for d, (flag, taken) in enumerate(zip(flags, self.taken, strict=True)):
                self.model += flag <= taken, f"SP_C3_{s}_{d}"

    def sp_c4_order(self) -> None:
        """Post SP-C4: attention is in the order, and never goes back."""
        order = self.instance.order
        if order is None:
            return
        rows = [
            flags
            for (_, part), flags in zip(self.stops, self.lies, strict=True)
            if part == "attention"
        ]
        for row, flags in enumerate(rows):
            self.model += pulp.lpSum(flags[d] for d in order) == 1, f"SP_C4_{row}_in"
        for row, (before, after) in enumerate(pairwise(rows)):
            for place in range(1, len(order)):
                first = order[:place]
                gone = pulp.lpSum(after[d] for d in first) - pulp.lpSum(before[d] for d in first)
                self.model += gone <= 0, f"SP_C4_{row}_{place}"

    def sp_c5_token(self) -> None:
        """Post SP-C5: what decoding a token takes."""
        weight = self.instance.decode_weight
        self.model += self._walk("", weight, self.instance.hop_ns) <= self.token, "SP_C5"

    def sp_c6_prompt(self) -> None:
        """Post SP-C6: what an ubatch of the prompt takes."""
        weight = self.instance.prompt_weight
        walk = self._walk("prompt_", weight, self.instance.prompt_hop_ns)
        self.model += walk <= self.prompt, "SP_C6"

    def start_from(self, solution: Solution, objective: int) -> None:
        """Look for nothing worse than a known solution; the caller keeps that one."""
        self.model += self.total <= objective / self.objective_unit

    def decode(self, value: Callable[[LpVariable], int]) -> Solution:
        """Read the decision off the solver's values."""
        return decoded(self.instance, self.lies, value)

    def _walk(
        self, prefix: str, weight: int, hop_ns: Sequence[Sequence[int]] | None
    ) -> LpAffineExpression:
        """Return the sum of a walk's parts and hops, in the objective's unit."""
        terms: list[tuple[LpVariable, float]] = []
        for (layer, part), flags in zip(self.stops, self.lies, strict=True):
            times = getattr(self.instance.layers[layer], f"{prefix}{part}_ns")
            terms += [
                (flag, weight * (time or 0) / self.objective_unit)
                for flag, time in zip(flags, times or (), strict=times is not None)
            ]
        if hop_ns is not None:
            source = self.instance.source
            ends = zip(self.lies[0], self.lies[-1], strict=True)
            for d, (first, last) in enumerate(ends):
                terms.append((first, weight * hop_ns[source][d] / self.objective_unit))
                terms.append((last, weight * hop_ns[d][source] / self.objective_unit))
            terms += [
                (flag, weight * hop_ns[i][j] / self.objective_unit)
                for between in self.hops
                for i, row in enumerate(between)
                for j, flag in enumerate(row)
            ]
        return pulp.lpSum(factor * flag for flag, factor in terms if factor)
