"""Exact dynamic program: each layer by itself, or all layers under one budget.

Proof. With layers' budgets nothing ties the layers but a granularity of "model": each is solved by
itself (`multiple_choice_knapsack`), and the sum of optima is the optimum. With a model's budget the
layers share it: their curves of least loss over bits are merged in pairs (`min_plus`), which leaves
out no way to share (`pareto`). Where layers have one width each, all widths are compared; where the
model has one, all of them as well.
"""

from math import prod

from moeopt.core.search import Search

from .bounds import lower_bound
from .check import objective
from .heuristics import best_uniform, greedy_marginal
from .instance import Instance, Solution
from .min_plus import Stopped
from .multiple_choice_knapsack import TooLarge
from .pareto import from_columns, frontier, parts_of

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
