"""The CP-SAT model: one method per constraint ID (`formulations/joint/spec.md`)."""

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from typing import ClassVar

from moeopt.algorithms.lru import LruCache
from moeopt.core.formulation import Formulation, IntVar, LinearExpr, cp_model, first_of
from moeopt.core.rows import take_out_divisor

from .check import layer_runs
from .instance import Instance, Solution


@dataclass(frozen=True)
class Access:
    """An expert with tokens in a layer of a step.

    Attributes
    ----------
    place
        Where the step lists it, from 0.
    since
        Other experts of the layer whose last use is more recent than its own last use, both before
        this step; None if it was not used before.
    """

    step: int
    layer: int
    place: int
    expert: int
    tokens: int
    loss: int
    since: frozenset[int] | None


def accesses(steps: Sequence[Sequence[Sequence[tuple[int, int, int]]]]) -> Iterator[list[Access]]:
    """Yield the accesses of every layer of every step, in the order of execution."""
    caches = [LruCache(sys.maxsize) for _ in steps[0]]
    for number, step in enumerate(steps):
        for layer, active in enumerate(step):
            order = caches[layer].content()
            yield [
                Access(
                    number,
                    layer,
                    place,
                    expert,
                    tokens,
                    loss,
                    frozenset(order[order.index(expert) + 1 :]) if expert in order else None,
                )
                for place, (expert, tokens, loss) in enumerate(active)
            ]
            caches[layer].access([expert for expert, _, _ in active])


def decoded(model: "Model", value: Callable[[IntVar], int]) -> Solution:
    """Return the decisions of a model's flags, without dispatch; None where no flag is set."""
    instance: Instance = model.instance

    places = [[first_of(flags, value) for flags in layer] for layer in model.width]
    return Solution(
        instance=instance.name,
        context=first_of(model.kap, value),
        resident=tuple(
            tuple(e for e, flag in enumerate(layer) if value(flag)) for layer in model.resident
        ),
        bits=tuple(
            tuple(None if place is None else instance.bits[place] for place in layer)
            for layer in places
        ),
        ways=tuple(first_of(flags, value) for flags in model.ways),
        deferred=tuple(first_of(flags, value) for flags in model.defers),
    )


def dispatched(
    instance: Instance, plan: Solution, on_gpu: Collection[tuple[int, int, int]]
) -> Solution:
    """Return a plan in which exactly some (step, layer, expert) run on the GPU."""
    swapped = tuple(
        (run.step, run.layer, expert)
        for run in layer_runs(instance, plan)
        for expert in (*run.gpu, *run.now, *run.late)
        if (expert in run.gpu) != ((run.step, run.layer, expert) in on_gpu)
    )
    return plan.model_copy(update={"swapped": swapped})


SIDES = ("gpu", "now", "late")


class Model(Formulation):
    """Booleans for every decision and for where every expert runs; clocks in ns.

    Attributes
    ----------
    kap, resident, width, ways, defers
        By context; by layer and expert; and width; by layer and count.
    runs
        By (step, layer), place, side and width: whether the expert runs there at that width.
    attention, cpu_free
        By step and layer: when attention starts and when the CPU is done with the layers before,
        one entry more for the end.
    """

    parameters: ClassVar[dict[str, object]] = {}
    objective_unit = 1

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.model = cp_model.CpModel()
        self.horizon = instance.horizon_ns
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
                for held, width in zip(self.held[layer][e], self.width[layer][e], strict=True):
                    resident = self.resident[layer][e]
                    self.model.add_implication(held, resident)
                    self.model.add_implication(held, width)
                    self.model.add_bool_or(held, ~resident, ~width)
        self.rows = {
            (row[0].step, row[0].layer): row for row in accesses(instance.steps) if row
        }  # fmt: skip
        self.runs = {key: [self._sides(access) for access in row] for key, row in self.rows.items()}
        self.hit = {key: [self._flag() for _ in row] for key, row in self.rows.items()}
        self.miss = {key: self._flag() for key in self.rows}
        for key, sides in self.runs.items():
            for side in sides:
                for off in (*side["now"], *side["late"]):
                    self.model.add_implication(off, self.miss[key])
        steps, clocks = range(len(instance.steps)), range(instance.layers + 1)
        self.attention = [[self._instant() for _ in clocks] for _ in steps]
        self.cpu_free = [[self._instant() for _ in clocks] for _ in steps]
        self.cpu_start = [[self._instant() for _ in layers] for _ in steps]
        most = self.horizon + max(instance.copy_ns) * instance.rows.entries
        self.total = self.model.new_int_var(0, most, "total")
        self.model.add(self.total >= sum(clock[-1] for clock in self.attention))
        for clock in self.attention:
            begin = [context.step_ns for context in instance.contexts]
            self.model.add(clock[0] >= _dot(self.kap, begin))
        self._say_which_are_deferred()
        self.model.minimize(self.total)

    def jt_c1_decisions(self) -> None:
        """Post JT-C1: one context, width, number of ways and count of deferred experts each."""
        self.model.add_exactly_one(self.kap)
        for layer in range(self.instance.layers):
            for width in self.width[layer]:
                self.model.add_exactly_one(width)
            self.model.add_exactly_one(self.ways[layer])
            self.model.add_exactly_one(
                self.defers[layer][d] for d in self.instance.deferrable(layer)
            )
            for defers in self.defers[layer][len(self.instance.deferrable(layer)) :]:
                self.model.add(defers == 0)

    def jt_c2_gpu_memory(self) -> None:
        """Post JT-C2: residents, caches and the KV cache fit."""
        i = self.instance
        unit = gcd(*i.expert_bytes, *(context.kv_bytes for context in i.contexts)) or 1
        sizes = [size // unit for size in i.expert_bytes]
        used: LinearExpr = _dot(self.kap, [context.kv_bytes // unit for context in i.contexts])
        for layer in range(i.layers):
            for held in self.held[layer]:
                used += _dot(held, sizes)
            room = self.model.new_int_var(0, i.max_ways * max(sizes), "")
            for ways, flag in enumerate(self.ways[layer]):
                for e, widths in enumerate(self.width[layer]):
                    for width, size in zip(widths, sizes, strict=True):
                        if ways * size:
                            case = [flag, width, ~self.resident[layer][e]]
                            self.model.add(room >= ways * size).only_enforce_if(case)
            used += room
        self.model.add(used <= i.gpu_bytes // unit)

    def jt_c3_host_memory(self) -> None:
        """Post JT-C3: the host's experts fit."""
        i = self.instance
        if i.host_bytes is None:
            return
        used: LinearExpr = 0
        for layer in range(i.layers):
            for width, held in zip(self.width[layer], self.held[layer], strict=True):
                used += _dot(width, i.expert_bytes)
                if not i.host_copy:
                    used -= _dot(held, i.expert_bytes)
        take_out_divisor(self.model.add(used <= i.host_bytes))

    def jt_c4_quality(self) -> None:
        """Post JT-C4: widths, KV cache and deferred experts lose at most max_loss."""
        i = self.instance
        if i.max_loss is None:
            return
        lost: LinearExpr = _dot(self.kap, [context.kv_loss for context in i.contexts])
        for layer in range(i.layers):
            for e, width in enumerate(self.width[layer]):
                lost += _dot(width, [i.lost(layer, e, j) for j in self.widths])
        for access, _, sides, _ in self._accesses():
            lost += access.loss * sum(sides["late"])
        take_out_divisor(self.model.add(lost <= i.max_loss))

    def jt_c5_where_it_is(self) -> None:
        """Post JT-C5: the GPU runs what is resident or found in the cache."""
        for access, _, sides, hit in self._accesses():
            resident = self.resident[access.layer]
            self.model.add(sum(sides["gpu"]) <= resident[access.expert] + hit)
            if access.since is None:
                self.model.add(hit == 0)
            else:
                others = sum(1 - resident[e] for e in access.since)
                ways = _dot(self.ways[access.layer], range(self.instance.max_ways + 1))
                self.model.add(others <= ways - 1).only_enforce_if(hit)
            if not self.instance.host_copy:
                for off in (*sides["now"], *sides["late"]):
                    self.model.add_implication(off, ~resident[access.expert])

    def jt_c6_gpu_in_order(self) -> None:
        """Post JT-C6: the next attention waits for all of the layer's work on the GPU."""
        for t, layer in self._layers():
            work = self._attention_ns(layer) + self.instance.shared_ns[layer]
            work += self._work(t, layer, "gpu", self.instance.gpu_ns)
            self.model.add(self.attention[t][layer + 1] >= self.attention[t][layer] + work)

    def jt_c7_cpu_in_order(self) -> None:
        """Post JT-C7: CPU after attention, in order; next attention after immediate experts."""
        for t, layer in self.rows:
            miss, hand_over = self.miss[t, layer], self.instance.hand_over_ns
            start = self.cpu_start[t][layer]
            there = self.attention[t][layer] + self._attention_ns(layer) + hand_over
            self.model.add(start >= there).only_enforce_if(miss)
            back = start + self._work(t, layer, "now", self.instance.cpu_ns) + hand_over
            self.model.add(self.attention[t][layer + 1] >= back).only_enforce_if(miss)
        for t, layer in self._layers():
            start, free = self.cpu_start[t][layer], self.cpu_free[t]
            self.model.add(start >= free[layer])
            work = sum(self._work(t, layer, side, self.instance.cpu_ns) for side in SIDES[1:])
            self.model.add(free[layer + 1] >= start + work)

    def jt_c8_deferred(self) -> None:
        """Post JT-C8: the attention after the next waits for deferred experts."""
        last = self.instance.layers
        for t, layer in self.rows:
            joined = self.attention[t][min(layer + 2, last)]
            back = self.cpu_free[t][layer + 1] + self.instance.hand_over_ns
            for sides in self.runs[t, layer]:
                for late in sides["late"]:
                    self.model.add(joined >= back).only_enforce_if(late)

    def jt_c9_copies(self) -> None:
        """Post JT-C9: all copies take at most the total."""
        copied: LinearExpr = 0
        for access, _, _, hit in self._accesses():
            cached = self.ways[access.layer][1:]
            resident = self.resident[access.layer][access.expert]
            for width, ns in zip(
                self.width[access.layer][access.expert], self.instance.copy_ns, strict=True
            ):
                if cached and ns:
                    copy = self._flag()
                    self.model.add(copy >= width + sum(cached) - 1 - resident - hit)
                    copied += ns * copy
        self.model.add(copied <= self.total)

    def start_from(self, solution: Solution, objective: int) -> None:
        """Look for nothing worse than a known solution, starting from it."""
        self.model.add(self.total <= objective)
        for row, flag in enumerate(self.kap):
            self.model.add_hint(flag, row == solution.context)
        for layer in range(self.instance.layers):
            for e, flag in enumerate(self.resident[layer]):
                self.model.add_hint(flag, e in solution.resident[layer])
                for bits, width in zip(self.instance.bits, self.width[layer][e], strict=True):
                    self.model.add_hint(width, bits == solution.bits[layer][e])
            for name in ("ways", "deferred"):
                flags = self.ways[layer] if name == "ways" else self.defers[layer]
                for number, flag in enumerate(flags):
                    self.model.add_hint(flag, number == getattr(solution, name)[layer])

    def decode(self, value: Callable[[IntVar], int]) -> Solution:
        """Read the decision off the solver's values; what has none gets None."""
        plan = decoded(self, value)
        on_gpu = {
            (access.step, access.layer, access.expert)
            for access, _, sides, _ in self._accesses()
            if any(value(flag) for flag in sides["gpu"])
        }
        return dispatched(self.instance, plan, on_gpu)

    def _say_which_are_deferred(self) -> None:
        """Defer those on the CPU that are listed last, as many as the layer defers."""
        for key, row in self.rows.items():
            deferred = _dot(self.defers[key[1]], range(self.instance.max_deferred + 1))
            after: LinearExpr = 0
            for access in reversed(row):
                sides = self.runs[key][access.place]
                for now, late in zip(sides["now"], sides["late"], strict=True):
                    self.model.add(after <= deferred - 1).only_enforce_if(late)
                    self.model.add(after >= deferred).only_enforce_if(now)
                after += sum(sides["now"]) + sum(sides["late"])

    def _flag(self) -> IntVar:
        return self.model.new_bool_var("")

    def _instant(self) -> IntVar:
        return self.model.new_int_var(0, self.horizon, "")

    def _sides(self, access: Access) -> dict[str, list[IntVar]]:
        """Return one flag per side and width; the expert runs on one side at its width."""
        sides = {side: [self._flag() for _ in self.widths] for side in SIDES}
        for j, width in enumerate(self.width[access.layer][access.expert]):
            self.model.add(sum(flags[j] for flags in sides.values()) == width)
        return sides

    def _accesses(
        self,
    ) -> Iterator[tuple[Access, tuple[int, int], dict[str, list[IntVar]], IntVar]]:
        for key, row in self.rows.items():
            for access in row:
                yield access, key, self.runs[key][access.place], self.hit[key][access.place]

    def _layers(self) -> Iterator[tuple[int, int]]:
        for t in range(len(self.instance.steps)):
            for layer in range(self.instance.layers):
                yield t, layer

    def _attention_ns(self, layer: int) -> LinearExpr:
        return _dot(self.kap, [c.attention_ns[layer] for c in self.instance.contexts])

    def _work(self, t: int, layer: int, side: str, tables: Sequence[Sequence[int]]) -> LinearExpr:
        """Return what a layer's experts take on one side."""
        return sum(
            tables[j][access.tokens] * flag
            for access in self.rows.get((t, layer), ())
            for j, flag in enumerate(self.runs[t, layer][access.place][side])
        )


def _dot(flags: Iterable[IntVar], values: Iterable[int]) -> LinearExpr:
    return sum(value * flag for value, flag in zip(values, flags, strict=True))
