"""What is counted: of replication copies, wherever they lie; of cache layers that have any ways.

Ways of a layer that fewer serve as well, on both sides, are left out: the exchange that `dp` makes.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moeopt.library.lemmas.rows import LemmaModel, Term
from moeopt.problems.cache.bounds import objective_grid, sides_of

if TYPE_CHECKING:
    from moeopt.problems.cache import Instance as Cache
    from moeopt.problems.replication import Instance

NUMBERS = "the fullest device has the mean at least, and of k copies one a k-th at least"
LAYERS = "ways that fewer serve as well are left out, and layers with any are counted"


def numbers_of_copies(instance: "Instance", below: int, form: Mapping[str, Any]) -> LemmaModel:
    """Return the model: numbers of copies, a peak per window. Nodes, links, moves cost nothing."""
    made = LemmaModel(NUMBERS, tighten=True)
    devices, kernel = instance.devices, instance.work == "kernel"
    weights = [int(weight) for weight in instance.weights]
    peaks = [made.whole(0, (below - 1) // weight if weight else None) for weight in weights]
    numbers = range(1, min(instance.max_copies, devices) + 1)
    read, token = (instance.read_ns or 0, instance.token_ns or 0) if kernel else (0, 1)
    loads = [[int(load) for load in row] for row in instance.loads_units]
    slots, copies = [], []
    for expert in range(len(loads[0])):
        flags = made.flags(len(numbers))
        made.one(flags, "RP-C1")
        copies.append(flags)
        slots += list(zip(flags, numbers, strict=True))
        for peak, row in zip(peaks, loads, strict=True):
            load = row[expert]
            if not load:
                continue
            shares = [max(read, token * -(-load // k)) for k in numbers]
            made.row([(peak, -1), *zip(flags, shares, strict=True)], "<=", 0, "RP-C5")
    made.row(slots, "<=", devices * instance.slots, "RP-C2")
    for peak, row, weight in zip(peaks, loads, weights, strict=True):
        made.row([(peak, devices)], ">=", token * sum(row), "RP-C5")
        if kernel and weight:
            most = (below - 1) // weight
            if token and devices * (most // token) < sum(row):
                made.row([(peak, 0)], ">=", 1, "RP-C5")  # no room for all tokens
            if read and len(peaks) == 1:
                used = [
                    (flag, min(k, load))
                    for flags, load in zip(copies, row, strict=True)
                    for flag, k in zip(flags, numbers, strict=True)
                ]
                made.row(used, "<=", devices * (most // read), "RP-C5")
    made.objective = [[peak, weight] for peak, weight in zip(peaks, weights, strict=True) if weight]
    return made


def number_of_layers(instance: "Cache", below: int, form: Mapping[str, Any]) -> LemmaModel:
    """Return the model: a flag for each layer's ways, and the number of layers with none."""
    sides, grid = sides_of(instance), objective_grid(instance)
    made = LemmaModel(LAYERS, tighten=False)
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
