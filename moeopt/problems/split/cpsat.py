"""The CP-SAT model: one method per constraint ID (`formulations/split/spec.md`)."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import ClassVar

from moeopt.core.formulation import Formulation, IntVar, cp_model
from moeopt.core.rows import take_out_divisor

from .bounds import objective_grid
from .instance import Instance, Solution


class Model(Formulation):
    """Flags of where each part lies, and of each hop between one stop and the next.

    Attributes
    ----------
    stops
        Where the activations stop, in order: (layer, "attention" or "experts").
    lies
        ``lies[s][d]``: whether the part of stop s lies on device d.
    hops
        ``hops[s][i][j]``: whether the activations go from device i, at stop s, to j.
    """

    parameters: ClassVar[dict[str, object]] = {}

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.objective_unit = objective_grid(instance)
        self.model = cp_model.CpModel()
        self.stops = [
            (number, part)
            for number, layer in enumerate(instance.layers)
            for part in ("attention", "experts")
            if getattr(layer, f"{part}_ns") is not None
        ]
        flag, every = self.model.new_bool_var, range(len(instance.devices))
        self.lies = [[flag(f"lies[{s},{d}]") for d in every] for s in range(len(self.stops))]
        self.taken = [flag(f"taken[{d}]") for d in every]
        self.hops = []
        for s in range(len(self.stops) - 1):
            between = [[flag(f"hops[{s},{i},{j}]") for j in every] for i in every]
            for d in every:
                self.model.add(sum(between[d]) == self.lies[s][d])
                self.model.add(sum(row[d] for row in between) == self.lies[s + 1][d])
            self.hops.append(between)
        steps = instance.largest // self.objective_unit
        self.token = self.model.new_int_var(0, steps, "token")
        self.prompt = self.model.new_int_var(0, steps, "prompt")
        self.total = self.token + self.prompt
        self.model.minimize(self.total)

    def sp_c1_homes(self) -> None:
        """Post SP-C1: each part lies on one device, which can run it."""
        for (layer, part), flags in zip(self.stops, self.lies, strict=True):
            self.model.add_exactly_one(flags)
            times = getattr(self.instance.layers[layer], f"{part}_ns")
            for flag, time in zip(flags, times, strict=True):
                if time is None:
                    self.model.add(flag == 0)

    def sp_c2_memory(self) -> None:
        """Post SP-C2: parts fit, beside the buffer if it is needed."""
        for number, device in enumerate(self.instance.devices):
            sizes = [
                getattr(self.instance.layers[layer], f"{part}_bytes") for layer, part in self.stops
            ]
            parts = [flags[number] for flags in self.lies]
            used = cp_model.LinearExpr.weighted_sum(parts, sizes)
            held = used + device.buffer * self.taken[number]
            take_out_divisor(self.model.add(held <= device.capacity))

    def sp_c3_buffers(self) -> None:
        """Post SP-C3: a device needs its buffer as soon as any part lies there."""
        for flags in self.lies:
            for flag, taken in zip(flags, self.taken, strict=True):
                self.model.add_implication(flag, taken)

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
        for flags in rows:
            for device in set(range(len(flags))) - set(order):
                self.model.add(flags[device] == 0)
        for before, after in pairwise(rows):
            for place in range(1, len(order)):
                first = order[:place]
                self.model.add(sum(after[d] for d in first) <= sum(before[d] for d in first))

    def sp_c5_token(self) -> None:
        """Post SP-C5: what decoding a token takes."""
        self._walk(self.token, "", self.instance.decode_weight, self.instance.hop_ns)

    def sp_c6_prompt(self) -> None:
        """Post SP-C6: what an ubatch of the prompt takes."""
        self._walk(self.prompt, "prompt_", self.instance.prompt_weight, self.instance.prompt_hop_ns)

    def start_from(self, solution: Solution, objective: int) -> None:
        """Look for nothing worse than a known solution, starting from it."""
        self.model.add(self.total <= objective // self.objective_unit)
        for (layer, part), flags in zip(self.stops, self.lies, strict=True):
            home = getattr(solution, part)[layer]
            for device, flag in enumerate(flags):
                self.model.add_hint(flag, device == home)

    def decode(self, value: Callable[[IntVar], int]) -> Solution:
        """Read the decision off the solver's values."""
        layers = len(self.instance.layers)
        homes = {"attention": [-1] * layers, "experts": [-1] * layers}
        for (layer, part), flags in zip(self.stops, self.lies, strict=True):
            chosen = (device for device, flag in enumerate(flags) if value(flag))
            homes[part][layer] = next(chosen, -1)
        attention, experts = tuple(homes["attention"]), tuple(homes["experts"])
        return Solution(instance=self.instance.name, attention=attention, experts=experts)

    def _walk(
        self,
        total: IntVar,
        prefix: str,
        weight: int,
        hop_ns: Sequence[Sequence[int]] | None,
    ) -> None:
        """Hold a time to the sum of its parts and hops."""
        found: list[IntVar] = []
        steps: list[int] = []

        def take(flag: IntVar, time_ns: int) -> None:
            if step := weight * time_ns // self.objective_unit:
                found.append(flag)
                steps.append(step)

        for (layer, part), flags in zip(self.stops, self.lies, strict=True):
            times = getattr(self.instance.layers[layer], f"{prefix}{part}_ns")
            for flag, time in zip(flags, times or (), strict=times is not None):
                take(flag, time or 0)
        if hop_ns is not None:
            source = self.instance.source
            for device, (first, last) in enumerate(zip(self.lies[0], self.lies[-1], strict=True)):
                take(first, hop_ns[source][device])
                take(last, hop_ns[device][source])
            for between in self.hops:
                for i, row in enumerate(between):
                    for j, flag in enumerate(row):
                        take(flag, hop_ns[i][j])
        self.model.add(total >= cp_model.LinearExpr.weighted_sum(found, steps))
