"""cache: each layer's ways as one choice, and how many layers have any.

What fewer ways serve as well, on both sides, is left out: the exchange that `dp` makes.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moeopt.library.lemmas.rows import LemmaModel, Term
from moeopt.problems.cache.bounds import objective_grid, sides_of

if TYPE_CHECKING:
    from moeopt.problems.cache import Instance

NUMBER = "ways that fewer serve as well are left out, and layers with any are counted"


def number_of_layers(instance: "Instance", below: int, form: Mapping[str, Any]) -> LemmaModel:
    """Return the model: a flag for each layer's ways, and the number of layers with none."""
    sides = sides_of(instance)
    grid = objective_grid(instance)
    made = LemmaModel(NUMBER, tighten=False)
    trace = made.whole(0, (below - 1) // grid)
    computing: list[Term] = [(trace, -1)]
    copying: list[Term] = [(trace, -1)]
    used: list[Term] = []
    none: list[int] = []
    for compute, copy in zip(sides.compute_ns.tolist(), sides.copy_ns.tolist(), strict=True):
        kept: list[tuple[int, int, int]] = []
        for ways, (one, other) in enumerate(zip(compute, copy, strict=True)):
            if all(one < a or other < b for _, a, b in kept):
                kept.append((ways, one, other))
        flags = made.flags(len(kept))
        made.one(flags, "CA-C1")
        none.append(flags[0])
        for flag, (ways, one, other) in zip(flags, kept, strict=True):
            used.append((flag, ways))
            computing.append((flag, one // grid))
            copying.append((flag, other // grid))
    made.row(used, "<=", sides.slots, "CA-C2")
    made.row(computing, "<=", 0, "CA-C3")
    made.row(copying, "<=", 0, "CA-C4")
    idle = made.whole(0, len(none))
    made.row([*((flag, 1) for flag in none), (idle, -1)], "=", 0, "sum")
    made.first = [idle]
    made.objective = [[trace, grid]]
    return made
