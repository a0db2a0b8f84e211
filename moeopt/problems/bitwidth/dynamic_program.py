"""Exact dynamic program: each layer by itself, or all layers under one budget.

Proof. With layers' budgets nothing ties the layers but a granularity of "model": each is a
multiple-choice knapsack over its experts (`Knapsack`), in which a width of `min_count` is taken so
often at least, and the sum of optima is the optimum. With a model's budget the layers share it:
their curves of least loss over bits are merged in pairs, which leaves out no way to share
(`MergedCurves`). Where layers have one width each, all widths are compared; where the model has
one, all of them as well.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd, prod

import numpy as np

from moeopt.algorithms.knapsack import FAR, Curve, Knapsack, MergedCurves, Stopped, TooLarge
from moeopt.core.errors import InputError
from moeopt.core.search import Search

from .bounds import lower_bound
from .check import objective
from .heuristics import best_uniform, greedy_marginal, summed_losses, widths_for_all
from .instance import Instance, Solution


@dataclass(frozen=True)
class Frontier:
    """The least loss by how many bits the whole model may use; layers' budgets are left out.

    Attributes
    ----------
    parts
        What shares the budget: layers, or the whole model where it has one width.
    curves
        Of the parts, in bits, and merged.
    """

    instance: Instance
    parts: tuple["LayerKnapsack | OneWidth", ...]
    curves: MergedCurves

    @property
    def curve(self) -> Curve:
        """The frontier."""
        return self.curves.curve

    def solution(self, budget: int) -> Solution | None:
        """Return a best solution within a budget, None if there is none."""
        r = self.curve.entry(budget)
        if r is None:
            return None
        flat: list[int] = []
        for part, bits in zip(self.parts, self.curves.weights(r), strict=True):
            flat += part.columns(bits) or []
        return from_columns(self.instance, flat)


class LayerKnapsack:
    """One layer by itself, each of whose experts takes a width."""

    def __init__(self, instance: Instance, layer: int, stopped: Callable[[], bool]) -> None:
        self.losses, self.stopped = instance.layer_losses[layer], stopped
        steps = np.array(instance.bits, dtype=np.int64) - instance.bits[0]
        self.unit = gcd(*steps.tolist()) or 1
        self.steps = steps // self.unit
        self.base_bits = len(self.losses) * instance.bits[0]
        self.least = [instance.min_count.get(width, 0) for width in instance.bits]

    def curve(self) -> Curve | None:
        """Return the least losses; None if no choice keeps BW-C5."""
        table = self._table(len(self.losses) * int(self.steps[-1]))
        return None if table is None else Curve.of(self.base_bits, self.unit, table.costs_at)

    def columns(self, budget: int) -> list[int] | None:
        """Return the width of every expert, by position, in a best choice within a budget."""
        most = len(self.losses) * int(self.steps[-1])
        table = self._table(min(most, (budget - self.base_bits) // self.unit))
        if table is None or table.costs_at.min() >= FAR:
            return None
        chosen: list[int] = table.choice(int(table.costs_at.argmin())).tolist()
        return chosen

    def _table(self, increments: int) -> Knapsack | None:
        if increments < 0 or sum(self.least) > len(self.losses):
            return None
        return Knapsack(self.steps, self.losses, increments, self.least, self.stopped)


class OneWidth:
    """Some layers whose experts all have the same width."""

    def __init__(self, instance: Instance, layers: list[int], unit: int) -> None:
        members = [instance.layers[number] for number in layers]
        self.bits, self.unit = instance.bits, unit
        self.experts = sum(len(layer.experts) for layer in members)
        self.losses = [sum(column) for column in zip(*map(summed_losses, members), strict=True)]
        allowed = [set(widths_for_all(instance, layer)) for layer in members]
        self.allowed = sorted(set.intersection(*allowed))

    def curve(self) -> Curve | None:
        """Return the least losses; None if no width keeps BW-C5."""
        base = self.experts * self.bits[0]
        length = self.experts * (self.bits[-1] - self.bits[0]) // self.unit + 1
        losses = np.full(length, FAR, dtype=np.int64)
        for column in self.allowed:
            losses[(self.experts * self.bits[column] - base) // self.unit] = self.losses[column]
        return Curve.of(base, self.unit, losses)

    def columns(self, budget: int) -> list[int] | None:
        """Return the width of every expert, by position, in a best choice within a budget."""
        fitting = [c for c in self.allowed if self.experts * self.bits[c] <= budget]
        if not fitting:
            return None
        return [min(fitting, key=lambda column: self.losses[column])] * self.experts


def parts_of(
    instance: Instance, stopped: Callable[[], bool]
) -> tuple["LayerKnapsack | OneWidth", ...]:
    """Return the layers, or the whole model where it has one width."""
    layers = range(len(instance.layers))
    if instance.granularity == "expert":
        return tuple(LayerKnapsack(instance, number, stopped) for number in layers)
    groups = [list(layers)] if instance.granularity == "model" else [[row] for row in layers]
    sizes = [sum(len(instance.layers[row].experts) for row in group) for group in groups]
    steps = [width - instance.bits[0] for width in instance.bits]
    unit = gcd(*sizes) * gcd(*steps) or 1
    return tuple(OneWidth(instance, group, unit) for group in groups)


def frontier(instance: Instance, stopped: Callable[[], bool] = lambda: False) -> Frontier | None:
    """Return the frontier, or None if nothing is feasible at any budget.

    Raises
    ------
    InputError
        If layers have units of loss of their own: such losses do not add up.
    Stopped
        As soon as `stopped`, asked every 20 ms or so, says so.
    TooLarge
        If tables would not fit into memory.
    """
    if instance.layers[0].loss_scale is not None:
        raise InputError(
            f"{instance.name}: layers[0].loss_scale: losses in units of each layer do not add up; "
            "an instance with a model's budget has one unit"
        )
    parts = parts_of(instance, stopped)
    curves: list[Curve] = []
    for part in parts:
        curve = part.curve()
        if curve is None:
            return None
        curves.append(curve)
    return Frontier(instance, parts, MergedCurves.of(curves, stopped))


def from_columns(instance: Instance, flat: list[int]) -> Solution:
    """Return the solution with the width of every expert of every layer, by position in `bits`."""
    ends = np.cumsum([len(layer.experts) for layer in instance.layers]).tolist()
    widths = [instance.bits[column] for column in flat]
    starts = [0, *ends[:-1]]
    bits = tuple(tuple(widths[a:b]) for a, b in zip(starts, ends, strict=True))
    return Solution(instance=instance.name, bits=bits)


FEW_SUMS = 2**22
"""Sums for one more expert: so many take less than 5 ms."""


def brief(instance: Instance) -> bool:
    """Tell whether the algorithm comes back to Python every 50 ms, and looks at the clock."""
    states = prod(count + 1 for count in instance.min_count.values())
    experts = max(len(layer.experts) for layer in instance.layers)
    increments = experts * (instance.bits[-1] - instance.bits[0]) + 1
    return states * increments * len(instance.bits) <= FEW_SUMS


def solve(instance: Instance, search: Search) -> None:
    """Report the optimum; with a heuristic's solution and a bound if told to stop before it.

    Tables that would not fit into memory are left to the method that goes on.
    """
    try:
        best = _optimum(instance, search)
    except (Stopped, TooLarge) as reason:
        search.note = "STOPPED" if isinstance(reason, Stopped) else "TABLES TOO LARGE"
        start = greedy_marginal(instance)
        if start is None:
            search.infeasible = True
            return
        search.offer(start, objective(instance, start))
        search.prove(lower_bound(instance))
        return
    if best is None:
        search.infeasible = True
        return
    search.offer(best, objective(instance, best))
    search.prove_incumbent()


def _optimum(instance: Instance, search: Search) -> Solution | None:
    if instance.model_budget_bits is not None:
        found = frontier(instance, lambda: search.stopped)
        return None if found is None else found.solution(instance.model_budget_bits)
    if instance.granularity == "model":
        return best_uniform(instance)
    flat: list[int] = []
    parts = parts_of(instance, lambda: search.stopped)
    for part, budget in zip(parts, instance.layer_budgets, strict=True):
        columns = part.columns(budget or 0)
        if columns is None:
            return None
        flat += columns
    return from_columns(instance, flat)
