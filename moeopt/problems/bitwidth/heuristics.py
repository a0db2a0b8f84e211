"""The paper's prefix split and the named baselines; each says what its source leaves unsaid."""

from collections.abc import Callable

from .check import objective, violations
from .greedy import greedy_columns, solution_of
from .instance import Instance, Solution
from .prefix_split import prefix_split


def uniform(instance: Instance) -> Solution | None:
    """Give every expert the same width: the widest that keeps all rules. None if none does."""
    for width in reversed(instance.bits):
        solution = one_width(instance, width)
        if not violations(instance, solution):
            return solution
    return None


def greedy_marginal(instance: Instance) -> Solution | None:
    """Start narrow, then take the upgrade of most gain per bit that fits, until none gains.

    An upgrade goes to any wider width, which a table that is not convex needs. Ties go to the least
    bits, then to the first layer and expert. `min_count` is kept from the start, see
    `greedy.least_columns`. Where the whole model has one width, that of least loss is taken.
    Returns None exactly if nothing is feasible.
    """
    if instance.granularity == "model":
        return best_uniform(instance)
    found = greedy_columns(instance)
    return None if found is None else solution_of(instance, *found)


def best_uniform(instance: Instance) -> Solution | None:
    """Return the solution with one width for all that loses least, or None if none is feasible."""
    made = (one_width(instance, width) for width in instance.bits)
    feasible = [solution for solution in made if not violations(instance, solution)]
    return min(feasible, key=lambda solution: objective(instance, solution), default=None)


def one_width(instance: Instance, width: int) -> Solution:
    """Return the solution in which every expert has the same width."""
    bits = tuple((width,) * len(layer.experts) for layer in instance.layers)
    return Solution(instance=instance.name, bits=bits)


HEURISTICS: dict[str, Callable[[Instance], Solution | None]] = {
    "uniform": uniform,
    "prefix-split": prefix_split,
    "greedy-marginal": greedy_marginal,
}

WARM_START = greedy_marginal
"""The heuristic whose solution the exact methods start from."""
