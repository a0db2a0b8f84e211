"""The CP-SAT model: one method per constraint ID (`formulations/deferral/spec.md`)."""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import ClassVar

from moeopt.core.errors import InputError
from moeopt.core.formulation import (
    Formulation,
    IntVar,
    LinearExpr,
    LinearExprT,
    cp_model,
    first_of,
)

from .bounds import second_key_radix
from .instance import Instance, Solution, StartTimes

Node = tuple[str, int]
"""A task: its kind and its layer."""

LARGEST = 2**60
"""CP-SAT rejects numbers near 2**62."""


class Model(Formulation):
    """Booleans ``defers[l][d]``, starts in ns, and which of two tasks on the CPU comes first.

    The objective is makespan x radix + total penalty. Orders are rows with a large number in place
    of intervals, so that a MILP has the same. Starts serve the solver alone: `decode` takes counts
    and orders, and computes the earliest starts in integers, from the waits that were posted.

    Attributes
    ----------
    model
        The CP-SAT model.
    objective_unit
        1: the objective is the packed number itself.

    Raises
    ------
    InputError
        If the packed number does not fit into CP-SAT's integers.
    """

    parameters: ClassVar[dict[str, object]] = {}
    objective_unit = 1

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.waits: list[tuple[Node, Node, int]] = []
        self.orders: list[tuple[Node, Node, IntVar]] = []
        self.horizon = instance.horizon_ns
        radix = second_key_radix(instance)
        if (self.horizon + 1) * radix > LARGEST:
            raise InputError(
                "cp-sat, milp: makespan x penalty is above 2**60; method dp has no such limit"
            )
        self.model = cp_model.CpModel()
        layers, counts = range(instance.layers), range(instance.max_deferred + 1)
        self.defers = [
            [self.model.new_bool_var(f"defers[{row},{d}]") for d in counts] for row in layers
        ]
        self.start = {
            kind: [self._instant(f"{kind}[{row}]") for row in layers]
            for kind in StartTimes.model_fields
        }
        self.makespan = self._instant("makespan")
        self.penalty = sum(self._sum(row, instance.penalty) for row in layers)
        self.objective = self.makespan * radix + self.penalty
        self.length: dict[str, list[LinearExprT]] = {
            "attention": list(instance.attention_ns),
            "shared": list(instance.shared_ns),
            "immediate": [self._work(row, [instance.top_k - d for d in counts]) for row in layers],
            "deferred": [self._work(row, list(counts)) for row in layers],
        }
        self.model.minimize(self.objective)

    def de_c1_one_count(self) -> None:
        """Post DE-C1: each layer defers one count, the last 0."""
        for layer, defers in enumerate(self.defers):
            self.model.add_exactly_one(defers)
            for count in set(range(len(defers))) - set(self.instance.deferrable(layer)):
                self.model.add(defers[count] == 0)

    def de_c2_attention_after_immediate(self) -> None:
        """Post DE-C2: attention waits for the immediate experts of the layer before."""
        for layer in range(1, self.instance.layers):
            self._wait("attention", layer, "immediate", layer - 1)

    def de_c3_attention_after_deferred(self) -> None:
        """Post DE-C3: attention waits for the deferred experts of two layers before."""
        for layer in range(2, self.instance.layers):
            self._wait("attention", layer, "deferred", layer - 2)

    def de_c4_gpu_in_order(self) -> None:
        """Post DE-C4: the GPU does attention and shared experts of one layer after the other."""
        for layer in range(self.instance.layers):
            self._wait("shared", layer, "attention", layer, sync=False)
            if layer:
                self._wait("attention", layer, "shared", layer - 1, sync=False)

    def de_c5_experts_after_attention(self) -> None:
        """Post DE-C5: immediate and deferred experts wait for their layer's attention."""
        for layer in range(self.instance.layers):
            self._wait("immediate", layer, "attention", layer)
            self._wait("deferred", layer, "attention", layer)

    def de_c6_cpu_is_serial(self) -> None:
        """Post DE-C6: of two tasks on the CPU one ends before the other; no time, no place.

        Where one waits for the other by what is posted, directly or through others, it does so.
        """
        idle = {"immediate": self.instance.top_k, "deferred": 0}
        runs = {
            (kind, layer): sum(x for d, x in enumerate(self.defers[layer]) if d != none)
            for layer, expert_ns in enumerate(self.instance.expert_cpu_ns)
            for kind, none in idle.items()
            if expert_ns
        }
        waits = self._waiting()
        for first, second in combinations(runs, 2):
            self.look()
            if waits(second, first) or waits(first, second):
                continue
            order = self.model.new_bool_var("")
            slack = 2 - runs[first] - runs[second]
            for (kind, layer), (other, later), off in (
                (first, second, 1 - order),
                (second, first, order),
            ):
                ended = self.start[kind][layer] + self.length[kind][layer]
                start = self.start[other][later]
                self.model.add(ended - self.horizon * (off + slack) <= start)
            self.orders.append((first, second, order))

    def de_c7_penalty_limit(self) -> None:
        """Post DE-C7: the penalties sum to at most max_total_penalty."""
        if self.instance.max_total_penalty is not None:
            self.model.add(self.penalty <= self.instance.max_total_penalty)

    def de_c8_makespan(self) -> None:
        """Post DE-C8: everything has ended by the makespan."""
        for kind, starts in self.start.items():
            for start, length in zip(starts, self.length[kind], strict=True):
                self.model.add(start + length <= self.makespan)

    def start_from(self, solution: Solution, objective: int) -> None:
        """Look for nothing worse than a known solution, starting from it."""
        self.model.add(self.objective <= objective)
        for defers, count in zip(self.defers, solution.deferred, strict=True):
            for d, variable in enumerate(defers):
                self.model.add_hint(variable, d == count)
        for kind, starts in solution.start_ns:
            for variable, start in zip(self.start[kind], starts, strict=True):
                self.model.add_hint(variable, start)

    def decode(self, value: Callable[[IntVar], int]) -> Solution:
        """Read counts and orders off the solver's values; a layer without a count gets None."""
        counts = self._counts(value)
        length = {
            (kind, layer): self._length_ns(kind, layer, count)
            for layer, count in enumerate(counts)
            for kind in StartTimes.model_fields
        }
        arcs = [(before, after, length[before] + sync) for before, after, sync in self.waits]
        for first, second, order in self.orders:
            if length[first] and length[second]:
                before, after = (first, second) if value(order) else (second, first)
                arcs.append((before, after, length[before]))
        earliest = _earliest_starts(arcs)
        starts = {
            kind: tuple(earliest.get((kind, layer), 0) for layer in range(len(counts)))
            for kind in StartTimes.model_fields
        }
        return Solution(instance=self.instance.name, deferred=counts, start_ns=StartTimes(**starts))

    def _counts(self, value: Callable[[IntVar], int]) -> tuple[int | None, ...]:
        return tuple(first_of(defers, value) for defers in self.defers)

    def _instant(self, name: str) -> IntVar:
        return self.model.new_int_var(0, self.horizon, name)

    def _sum(self, layer: int, values: Sequence[int]) -> LinearExpr:
        return cp_model.LinearExpr.weighted_sum(self.defers[layer], list(values))

    def _work(self, layer: int, experts: list[int]) -> LinearExpr:
        """Return the time of as many experts as the layer's count says."""
        expert_ns = self.instance.expert_cpu_ns[layer]
        return self._sum(layer, [e * expert_ns for e in experts])

    def _wait(self, later: str, layer: int, earlier: str, other: int, sync: bool = True) -> None:
        """Post that a task starts after another one has ended and, maybe, has been handed over."""
        sync_ns = self.instance.sync_ns[other] if sync else 0
        self.waits.append(((earlier, other), (later, layer), sync_ns))
        ended = self.start[earlier][other] + self.length[earlier][other]
        self.model.add(self.start[later][layer] >= ended + sync_ns)

    def _waiting(self) -> Callable[[Node, Node], bool]:
        """Return whether a task starts after another one has ended, by the waits that were posted.

        Waits lead from a layer to itself and later ones, so that the last tasks are known first.
        """
        later: dict[Node, list[Node]] = {}
        for earlier, node, _ in self.waits:
            later.setdefault(earlier, []).append(node)
        nodes = [(kind, layer) for layer in range(self.instance.layers) for kind in self.start]
        place = {node: number for number, node in enumerate(nodes)}
        after: dict[Node, int] = {}
        for node in reversed(nodes):
            after[node] = 0
            for other in later.get(node, []):
                after[node] |= after[other] | 1 << place[other]
        return lambda node, earlier: bool(after[earlier] >> place[node] & 1)

    def _length_ns(self, kind: str, layer: int, count: int | None) -> int:
        fixed = {"attention": self.instance.attention_ns, "shared": self.instance.shared_ns}
        if kind in fixed:
            return fixed[kind][layer]
        if count is None:
            return 0
        experts = count if kind == "deferred" else self.instance.top_k - count
        return experts * self.instance.expert_cpu_ns[layer]


def _earliest_starts(arcs: list[tuple[Node, Node, int]]) -> dict[Node, int]:
    """Return the earliest start of every task, from 0 on, by (earlier, later, ns between)."""
    start = {node: 0 for arc in arcs for node in arc[:2]}
    for _ in range(len(start) + 1):
        moved = False
        for earlier, later, lag in arcs:
            if start[earlier] + lag > start[later]:
                start[later] = start[earlier] + lag
                moved = True
        if not moved:
            return start
    raise ValueError("some tasks wait for each other")
