"""replication: how many copies each expert has, whatever device they lie on."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moeopt.library.lemmas.rows import LemmaModel

if TYPE_CHECKING:
    from moeopt.problems.replication import Instance

NUMBERS = "the fullest device has the mean at least, and of k copies one a k-th at least"


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
