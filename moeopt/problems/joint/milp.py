"""The MILP model in PuLP: one method per constraint ID (`formulations/joint/spec.md`)."""

from collections.abc import Callable, Iterator
from typing import Any

import pulp

from moeopt.core.formulation import Formulation, float_unit

from .instance import Instance, Solution
from .model_parts import Access, accesses, decoded, dispatched

SIDES = ("gpu", "now", "late")


class Model(Formulation):
    """The variables of the CP-SAT model; clocks are continuous, and conditions have a big number.

    The clocks serve the solver alone: `decode` reads decisions and dispatch.

    Attributes
    ----------
    model
        The PuLP problem; its objective is in units of `objective_unit` ns.
    objective_unit
        ns per unit of the model's objective, as `float_unit` chooses it.
    denominators
        Of rows that are in another unit: bytes.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.denominators = (_bytes_unit(instance),)
        self.model = pulp.LpProblem("joint", pulp.LpMinimize)
        self._made = 0
        horizon_ns = instance.horizon_ns + max(instance.copy_ns) * instance.rows.entries
        self.objective_unit = float_unit(horizon_ns)
        self.horizon = instance.horizon_ns / self.objective_unit
        layers, experts = range(instance.layers), range(instance.experts)
        self.widths = range(len(instance.bits))
        self.kap = [self._flag() for _ in instance.contexts]
        self.resident = [[self._flag() for _ in experts] for _ in layers]
        self.width = [[[self._flag() for _ in self.widths] for _ in experts] for _ in layers]
        self.ways = [[self._flag() for _ in range(instance.max_ways + 1)] for _ in layers]
        self.defers = [[self._flag() for _ in range(instance.max_deferred + 1)] for _ in layers]
        self.held = [[[self._flag() for _ in self.widths] for _ in experts] for _ in layers]
        for layer in layers:
            for e in experts:
                resident = self.resident[layer][e]
                for held, width in zip(self.held[layer][e], self.width[layer][e], strict=True):
                    self._add(held <= resident)
                    self._add(held <= width)
                    self._add(held >= resident + width - 1)
        self.rows = {
            (row[0].step, row[0].layer): row for row in accesses(instance.steps) if row
        }  # fmt: skip
        self.runs = {key: [self._sides(access) for access in row] for key, row in self.rows.items()}
        self.hit = {key: [self._flag() for _ in row] for key, row in self.rows.items()}
        self.miss = {key: self._flag() for key in self.rows}
        for key, sides in self.runs.items():
            for side in sides:
                for off in (*side["now"], *side["late"]):
                    self._add(off <= self.miss[key])
        steps, clocks = range(len(instance.steps)), range(instance.layers + 1)
        self.attention = [[self._instant() for _ in clocks] for _ in steps]
        self.cpu_free = [[self._instant() for _ in clocks] for _ in steps]
        self.cpu_start = [[self._instant() for _ in layers] for _ in steps]
        self.total = self.model.add_variable("total", lowBound=0)
        self._add(self.total >= pulp.lpSum(clock[-1] for clock in self.attention))
        for clock in self.attention:
            begin = [context.step_ns / self.objective_unit for context in instance.contexts]
            self._add(clock[0] >= _dot(self.kap, begin))
        self._say_which_are_deferred()
        self._mention_all()
        self.model.setObjective(self.total)

    def jt_c1_decisions(self) -> None:
        """Post JT-C1: one context, width, number of ways and count of deferred experts each."""
        self._add(pulp.lpSum(self.kap) == 1)
        for layer in range(self.instance.layers):
            for width in self.width[layer]:
                self._add(pulp.lpSum(width) == 1)
            self._add(pulp.lpSum(self.ways[layer]) == 1)
            allowed = len(self.instance.deferrable(layer))
            self._add(pulp.lpSum(self.defers[layer][:allowed]) == 1)
            for defers in self.defers[layer][allowed:]:
                self._add(defers == 0)

    def jt_c2_gpu_memory(self) -> None:
        """Post JT-C2: residents, caches and the KV cache fit, in parts of the GPU's memory."""
        i = self.instance
        unit = _bytes_unit(i)
        used = [_dot(self.kap, [context.kv_bytes / unit for context in i.contexts])]
        for layer in range(i.layers):
            sizes = [size / unit for size in i.expert_bytes]
            used += [_dot(held, sizes) for held in self.held[layer]]
            room = self.model.add_variable(self._name(), lowBound=0)
            for ways, flag in enumerate(self.ways[layer]):
                for e, widths in enumerate(self.width[layer]):
                    for width, size in zip(widths, sizes, strict=True):
                        if ways * size:
                            case = flag + width - self.resident[layer][e] - 1
                            self._add(room >= ways * size * case)
            used.append(room)
        self._add(pulp.lpSum(used) <= i.gpu_bytes / unit)

    def jt_c3_host_memory(self) -> None:
        """Post JT-C3: the host's experts fit."""
        i = self.instance
        if i.host_bytes is None:
            return
        unit = _bytes_unit(i)
        sizes = [size / unit for size in i.expert_bytes]
        used = []
        for layer in range(i.layers):
            for width, held in zip(self.width[layer], self.held[layer], strict=True):
                used.append(_dot(width, sizes))
                if not i.host_copy:
                    used.append(-_dot(held, sizes))
        self._add(pulp.lpSum(used) <= i.host_bytes / unit)

    def jt_c4_quality(self) -> None:
        """Post JT-C4: widths, KV cache and deferred experts lose at most max_loss."""
        i = self.instance
        if i.max_loss is None:
            return
        unit = max(1, i.max_loss / 10**6)
        lost = [_dot(self.kap, [context.kv_loss / unit for context in i.contexts])]
        for layer in range(i.layers):
            for e, width in enumerate(self.width[layer]):
                lost.append(_dot(width, [i.lost(layer, e, j) / unit for j in self.widths]))
        for access, _, sides, _ in self._accesses():
            lost.append(access.loss / unit * pulp.lpSum(sides["late"]))
        self._add(pulp.lpSum(lost) <= i.max_loss / unit)

    def jt_c5_where_it_is(self) -> None:
        """Post JT-C5: the GPU runs what is resident or found in the cache."""
        for access, _, sides, hit in self._accesses():
            resident = self.resident[access.layer]
            self._add(pulp.lpSum(sides["gpu"]) <= resident[access.expert] + hit)
            if access.since is None:
                self._add(hit == 0)
            else:
                others = pulp.lpSum(1 - resident[e] for e in access.since)
                ways = _dot(self.ways[access.layer], range(self.instance.max_ways + 1))
                self._add(others <= ways - 1 + (len(access.since) + 1) * (1 - hit))
            if not self.instance.host_copy:
                off = pulp.lpSum([*sides["now"], *sides["late"]])
                self._add(off <= 1 - resident[access.expert])

    def jt_c6_gpu_in_order(self) -> None:
        """Post JT-C6: the next attention waits for all of the layer's work on the GPU."""
        for t, layer in self._layers():
            work = self._attention(layer) + self.instance.shared_ns[layer] / self.objective_unit
            work += self._work(t, layer, "gpu", self.instance.gpu_ns)
            self._add(self.attention[t][layer + 1] >= self.attention[t][layer] + work)

    def jt_c7_cpu_in_order(self) -> None:
        """Post JT-C7: CPU after attention, in order; next attention after immediate experts."""
        hand_over = self.instance.hand_over_ns / self.objective_unit
        for t, layer in self.rows:
            far = 2 * self.horizon * (1 - self.miss[t, layer])
            start = self.cpu_start[t][layer]
            there = self.attention[t][layer] + self._attention(layer) + hand_over
            self._add(start >= there - far)
            back = start + self._work(t, layer, "now", self.instance.cpu_ns) + hand_over
            self._add(self.attention[t][layer + 1] >= back - far)
        for t, layer in self._layers():
            start, free = self.cpu_start[t][layer], self.cpu_free[t]
            self._add(start >= free[layer])
            work = [self._work(t, layer, side, self.instance.cpu_ns) for side in SIDES[1:]]
            self._add(free[layer + 1] >= start + work[0] + work[1])

    def jt_c8_deferred(self) -> None:
        """Post JT-C8: the attention after the next waits for deferred experts."""
        last = self.instance.layers
        for t, layer in self.rows:
            joined = self.attention[t][min(layer + 2, last)]
            back = self.cpu_free[t][layer + 1]
            back += self.instance.hand_over_ns / self.objective_unit
            for sides in self.runs[t, layer]:
                late = pulp.lpSum(sides["late"])
                self._add(joined >= back - 2 * self.horizon * (1 - late))

    def jt_c9_copies(self) -> None:
        """Post JT-C9: all copies take at most the total."""
        copied = []
        for access, _, _, hit in self._accesses():
            cached = self.ways[access.layer][1:]
            resident = self.resident[access.layer][access.expert]
            for width, ns in zip(
                self.width[access.layer][access.expert], self.instance.copy_ns, strict=True
            ):
                if cached and ns:
                    copy = self._flag()
                    self._add(copy >= width + pulp.lpSum(cached) - 1 - resident - hit)
                    copied.append(ns / self.objective_unit * copy)
        self._add(pulp.lpSum(copied) <= self.total)

    def start_from(self, solution: Solution, objective: int) -> None:
        """Look for nothing worse than a known solution; the caller keeps that one.

        A millionth is added: a bound that just fits makes solvers in floats call it infeasible.
        """
        self._add(self.total <= objective * (1 + 1e-6) / self.objective_unit)

    def decode(self, value: Callable[[Any], int]) -> Solution:
        """Read the decision off the solver's values; what has none gets None."""
        plan = decoded(self, value)
        on_gpu = {
            (access.step, access.layer, access.expert)
            for access, _, sides, _ in self._accesses()
            if any(value(flag) for flag in sides["gpu"])
        }
        return dispatched(self.instance, plan, on_gpu)

    def _add(self, row: Any) -> None:
        """Post a row under a name of its own, but one that says nothing, as 0 <= 0."""
        if not isinstance(row, bool):
            self.model += row, self._name()

    def _mention_all(self) -> None:
        """Name all decisions in some row: PuLP forgets variables that are in none."""
        flags = [*self.kap, *(hit for hits in self.hit.values() for hit in hits)]
        for layers in (self.ways, self.defers, self.resident):
            flags += [flag for row in layers for flag in row]
        self._add(pulp.lpSum(flags) <= len(flags))

    def _name(self) -> str:
        self._made += 1
        return f"n{self._made}"

    def _say_which_are_deferred(self) -> None:
        """Defer those on the CPU that are listed last, as many as the layer defers."""
        most = self.instance.max_deferred
        for key, row in self.rows.items():
            deferred = _dot(self.defers[key[1]], range(most + 1))
            after: Any = 0
            for access in reversed(row):
                sides = self.runs[key][access.place]
                now, late = pulp.lpSum(sides["now"]), pulp.lpSum(sides["late"])
                self._add(after <= deferred - 1 + (len(row) + 1) * (1 - late))
                self._add(after >= deferred - most * (1 - now))
                after += now + late

    def _flag(self) -> Any:
        return self.model.add_variable(self._name(), cat="Binary")

    def _instant(self) -> Any:
        return self.model.add_variable(self._name(), lowBound=0, upBound=self.horizon)

    def _sides(self, access: Access) -> dict[str, list[Any]]:
        """Return one flag per side and width; the expert runs on one side at its width."""
        sides = {side: [self._flag() for _ in self.widths] for side in SIDES}
        for j, width in enumerate(self.width[access.layer][access.expert]):
            self._add(pulp.lpSum(flags[j] for flags in sides.values()) == width)
        return sides

    def _accesses(self) -> Iterator[tuple[Access, tuple[int, int], dict[str, list[Any]], Any]]:
        for key, row in self.rows.items():
            for access in row:
                yield access, key, self.runs[key][access.place], self.hit[key][access.place]

    def _layers(self) -> Iterator[tuple[int, int]]:
        for t in range(len(self.instance.steps)):
            for layer in range(self.instance.layers):
                yield t, layer

    def _attention(self, layer: int) -> Any:
        """Return what a layer's attention takes, in units."""
        times = [c.attention_ns[layer] / self.objective_unit for c in self.instance.contexts]
        return _dot(self.kap, times)

    def _work(self, t: int, layer: int, side: str, tables: Any) -> Any:
        """Return what a layer's experts take on one side, in units."""
        return pulp.lpSum(
            tables[j][access.tokens] / self.objective_unit * flag
            for access in self.rows.get((t, layer), ())
            for j, flag in enumerate(self.runs[t, layer][access.place][side])
        )


def _dot(flags: Any, values: Any) -> Any:
    return pulp.lpSum(value * flag for value, flag in zip(values, flags, strict=True))


def _bytes_unit(instance: Instance) -> int:
    """Return the unit in which all memory together is at most some million.

    It is whole so that certificates of bounds can have the rows in integers again.
    """
    cells = instance.layers * instance.experts * (1 + instance.max_ways)
    return max(1, -(-cells * max(instance.expert_bytes) // 10**6))
