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
    sides, grid = sides_of(instance), objective_grid(instance)
    made = LemmaModel(NUMBER, tighten=False)
    trace = made.whole(0, (below - 1) // grid)
    used, none = list[Term](), list[Term]()
    loads: tuple[list[Term], list[Term]] = [(trace, -1)], [(trace, -1)]
    for compute, copy in zip(sides.compute_ns.tolist(), sides.copy_ns.tolist(), strict=True):
        kept: list[tuple[int, int, int]] = []
        for ways, (one, other) in enumerate(zip(compute, copy, strict=True)):
            if all(one < a or other < b for _, a, b in kept):
                kept.append((ways, one, other))
        flags = made.flags(len(kept))
        made.one(flags, "CA-C1")
        none.append((flags[0], 1))
        for flag, (ways, one, other) in zip(flags, kept, strict=True):
            used.append((flag, ways))
            loads[0].append((flag, one // grid))
            loads[1].append((flag, other // grid))
    made.row(used, "<=", sides.slots, "CA-C2")
    for load, rule in zip(loads, ("CA-C3", "CA-C4"), strict=True):
        made.row(load, "<=", 0, rule)
    made.first = [made.whole(0, len(none))]
    made.row([*none, (made.first[0], -1)], "=", 0, "sum")
    made.objective = [[trace, grid]]
    return made
