"""The MILP model in PuLP: one method per constraint ID (`formulations/deferral/spec.md`)."""

from collections.abc import Callable, Iterable
from itertools import combinations

import pulp
from pulp import LpAffineExpression, LpVariable

from moeopt.core.formulation import Formulation, float_unit

from .bounds import second_key_radix
from .instance import Instance, Solution, StartTimes

Node = tuple[str, int]
"""A task: its kind and its layer."""

SMALL = 10**6
"""Times up to this many ns are left as they are: a unit of ns keeps the second key in reach."""


class Model(Formulation):
    """Binaries ``defers[l][d]`` and, for each pair of CPU tasks, which one comes first.

    Starts are continuous. They serve the solver alone: `decode` takes counts and orders, and
    computes the earliest starts in integers, from the waits that were posted.

    Attributes
    ----------
    model
        The PuLP problem; its objective is makespan + total penalty / radix, in units.
    objective_unit
        Packed steps (makespan in ns x radix + total penalty) per unit of the model's objective.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        horizon, radix = instance.horizon_ns, second_key_radix(instance)
        self.unit = 1 if horizon <= SMALL else float_unit(horizon)
        self.objective_unit = self.unit * radix
        self.horizon = horizon / self.unit
        self.model = pulp.LpProblem("deferral", pulp.LpMinimize)
        layers, counts = range(instance.layers), range(instance.max_deferred + 1)
        self.defers = [
            [self.model.add_variable(f"defers_{row}_{d}", cat="Binary") for d in counts]
            for row in layers
        ]
        self.start = {
            (kind, row): self.model.add_variable(f"{kind}_{row}", 0, self.horizon)
            for kind in StartTimes.model_fields
            for row in layers
        }
        self.makespan = self.model.add_variable("makespan", 0, self.horizon)
        self.penalty = pulp.lpSum(self._sum(row, instance.penalty) for row in layers)
        self.objective = self.makespan + self.penalty * (1 / self.objective_unit)
        self.model.setObjective(self.objective)
        self.waits: list[tuple[Node, Node, int]] = []
        self.orders: list[tuple[Node, Node, LpVariable]] = []

    def de_c1_one_count(self) -> None:
        """Post DE-C1: each layer defers one count, the last 0."""
        for layer, defers in enumerate(self.defers):
            allowed = pulp.lpSum(defers[count] for count in self.instance.deferrable(layer))
            self.model += allowed == 1, f"DE_C1_one_{layer}"
            self.model += pulp.lpSum(defers) == 1, f"DE_C1_no_other_{layer}"

    def de_c2_attention_after_immediate(self) -> None:
        """Post DE-C2: attention waits for the immediate experts of the layer before."""
        for layer in range(1, self.instance.layers):
            before = layer - 1
            sync_ns = self.instance.sync_ns[before]
            self._wait("DE_C2", ("attention", layer), ("immediate", before), sync_ns)

    def de_c3_attention_after_deferred(self) -> None:
        """Post DE-C3: attention waits for the deferred experts of two layers before."""
        for layer in range(2, self.instance.layers):
            before = layer - 2
            sync_ns = self.instance.sync_ns[before]
            self._wait("DE_C3", ("attention", layer), ("deferred", before), sync_ns)

    def de_c4_gpu_in_order(self) -> None:
        """Post DE-C4: the GPU does attention and shared experts of one layer after the other."""
        for layer in range(self.instance.layers):
            self._wait("DE_C4", ("shared", layer), ("attention", layer))
            if layer:
                self._wait("DE_C4", ("attention", layer), ("shared", layer - 1))

    def de_c5_experts_after_attention(self) -> None:
        """Post DE-C5: immediate and deferred experts wait for their layer's attention."""
        for layer in range(self.instance.layers):
            sync_ns = self.instance.sync_ns[layer]
            self._wait("DE_C5", ("immediate", layer), ("attention", layer), sync_ns)
            self._wait("DE_C5", ("deferred", layer), ("attention", layer), sync_ns)

    def de_c6_cpu_is_serial(self) -> None:
        """Post DE-C6: of two tasks on the CPU one ends before the other; no time, no place."""
        on_cpu = [
            (kind, layer)
            for layer, expert_ns in enumerate(self.instance.expert_cpu_ns)
            for kind in ("immediate", "deferred")
            if expert_ns
        ]
        for first, second in combinations(on_cpu, 2):
            self.look()
            name = f"{first[0]}_{first[1]}_{second[0]}_{second[1]}"
            order = self.model.add_variable(f"order_{name}", cat="Binary")
            slack = 2 - self._runs(first) - self._runs(second)
            for before, after, off in ((first, second, 1 - order), (second, first, order)):
                ended = self.start[before] + self._length(before)
                row = ended - self.horizon * (off + slack) <= self.start[after]
                self.model += row, f"DE_C6_{before[0]}_{before[1]}_{after[0]}_{after[1]}"
            self.orders.append((first, second, order))

    def de_c7_penalty_limit(self) -> None:
        """Post DE-C7: the penalties sum to at most max_total_penalty."""
        if self.instance.max_total_penalty is not None:
            self.model += self.penalty <= self.instance.max_total_penalty, "DE_C7"

    def de_c8_makespan(self) -> None:
        """Post DE-C8: everything has ended by the makespan."""
        for task, start in self.start.items():
            ended = start + self._length(task)
            self.model += ended <= self.makespan, f"DE_C8_{task[0]}_{task[1]}"

    def start_from(self, solution: Solution, objective: int) -> None:
        """Look for no longer makespan than that of a known solution; the caller keeps that one.

        A millionth is added: a bound that just fits makes solvers in floats call it infeasible.
        """
        known_ns = objective // second_key_radix(self.instance)
        self.makespan.upBound = known_ns * (1 + 1e-6) / self.unit

    def decode(self, value: Callable[[LpVariable], int]) -> Solution:
        """Read counts and orders off the solver's values; a layer without a count gets None."""
        counts = [
            next((d for d, variable in enumerate(defers) if value(variable)), None)
            for defers in self.defers
        ]
        length = {task: self._length_ns(task, counts[task[1]]) for task in self.start}
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
        return Solution(
            instance=self.instance.name, deferred=tuple(counts), start_ns=StartTimes(**starts)
        )

    def _sum(self, layer: int, values: Iterable[float]) -> LpAffineExpression:
        return pulp.LpAffineExpression(zip(self.defers[layer], values, strict=True))

    def _runs(self, task: Node) -> LpAffineExpression:
        """Return an expression that is 1 if the task of the CPU takes time, else 0."""
        idle = 0 if task[0] == "deferred" else self.instance.top_k
        return pulp.lpSum(x for d, x in enumerate(self.defers[task[1]]) if d != idle)

    def _length(self, task: Node) -> LpAffineExpression:
        """Return a task's length in units."""
        counts = range(len(self.defers[task[1]]))
        if task[0] in ("attention", "shared"):
            return self._length_ns(task, None) / self.unit
        return self._sum(task[1], (self._length_ns(task, d) / self.unit for d in counts))

    def _length_ns(self, task: Node, count: int | None) -> int:
        kind, layer = task
        if kind == "attention":
            return self.instance.attention_ns[layer]
        if kind == "shared":
            return self.instance.shared_ns[layer]
        if count is None:
            return 0
        experts = count if kind == "deferred" else self.instance.top_k - count
        return experts * self.instance.expert_cpu_ns[layer]

    def _wait(self, rule: str, later: Node, earlier: Node, sync_ns: int = 0) -> None:
        """Post that a task starts after another one has ended and has been handed over."""
        ended = self.start[earlier] + self._length(earlier) + sync_ns / self.unit
        name = f"{rule}_{later[0]}_{later[1]}_{earlier[0]}_{earlier[1]}"
        self.model += ended <= self.start[later], name
        self.waits.append((earlier, later, sync_ns))


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
