"""A second checker of replication, written from its specification alone, in arrays.

It shares nothing with the first one: not a helper of the instance, not the split of tokens. The
best free split of tokens goes over all sets of experts here, where the other one augments flows.
"""

import random
from itertools import pairwise, product
from math import lcm
from typing import Any

import numpy as np

from tests.rooms.replication import Solution


def replication_answer(instance: Any, solution: Any) -> tuple[Any, set[str]]:
    """Return the objective and the broken rules; D as an array of copies (experts, devices)."""
    experts, g = len(instance.windows[0].loads), instance.devices
    held = np.zeros((experts, g), dtype=np.int64)
    for e, row in enumerate(solution.copies):
        np.add.at(held[e], list(row), 1)
    count = held.sum(axis=1)
    of_node = held.reshape(experts, instance.nodes, -1).sum(axis=2)
    groups = instance.groups or experts
    nodes_of_group = (of_node.reshape(groups, -1, instance.nodes).sum(axis=1) > 0).sum(axis=1)
    kernel, even = instance.work == "kernel", instance.split == "even"
    loads = np.array([w.loads for w in instance.windows], dtype=object)
    weight = np.array([w.weight for w in instance.windows], dtype=object)
    broken = {
        "RP-C1": ((count < 1) | (count > instance.max_copies)).any(),
        "RP-C2": (held.sum(axis=0) > instance.slots).any(),
        "RP-C3": (held > 1).any(),
        "RP-C4": instance.nodes > 1 and (nodes_of_group > 1).any(),
        "RP-C7": (solution.shares is not None) != (kernel and not even),
    }
    if solution.shares is not None and kernel and not even:
        sums = [[sum(row) for row in of_window] for of_window in solution.shares]
        broken["RP-C7"] = broken["RP-C7"] or (np.array(sums, dtype=object) != loads).any()
    peaks = _kernel_peaks if kernel else _token_peaks
    total = (weight * peaks(instance, solution, loads, held, count)).sum()
    if instance.current is not None:
        now = np.zeros((experts, g), dtype=bool)
        for e, row in enumerate(instance.current):
            now[e, list(row)] = True
        total += instance.move_cost * int(held[~now].sum())
    total += instance.slot_cost * int((count - 1).sum())
    return int(total), {rule for rule, wrong in broken.items() if wrong}


def _token_peaks(instance: Any, solution: Any, loads: Any, held: Any, count: Any) -> Any:
    unit = lcm(*range(1, instance.max_copies + 1))
    if instance.split == "even":
        share = -(-loads * unit // count)  # rounded up where there are more than max_copies
        return (share @ held.astype(object)).max(axis=1)
    return np.array([_least_peak(row * unit, held > 0) for row in loads], dtype=object)


def _least_peak(units: Any, may: Any) -> int:
    """Return the least T: no set of experts has more than all its devices hold (Hall)."""
    least = 0
    for flags in product((False, True), repeat=len(units)):
        among = np.array(flags)
        devices = int(may[among].any(axis=0).sum())
        if devices:
            least = max(least, -(-int(units[among].sum()) // devices))
    return least


def _kernel_peaks(instance: Any, solution: Any, loads: Any, held: Any, count: Any) -> Any:
    tokens = np.zeros((len(loads), *held.shape), dtype=object)
    reads = np.zeros((len(loads), held.shape[1]), dtype=object)
    for w, of_window in enumerate(loads):
        for e, load in enumerate(of_window):
            row = solution.copies[e]
            if instance.split == "even":
                of_copy = np.full(len(row), load // len(row))
                of_copy[np.argsort(row, kind="stable")[: load % len(row)]] += 1
            else:
                of_copy = np.array(solution.shares[w][e])
            np.add.at(tokens[w, e], list(row), of_copy)
            np.add.at(reads[w], list(row), of_copy > 0)
    here = tokens.sum(axis=1)
    time = np.maximum(instance.read_ns * reads, instance.token_ns * here) + instance.pass_ns * here
    if instance.links is not None:
        way = np.array(instance.links, dtype=object).sum(axis=0)
        time = time - (-(here * way) // instance.devices)
    return time.max(axis=1)


def replication_decision(rng: random.Random, instance: Any) -> Any:
    """Return random copies, more often than not different devices, with shares where they go."""
    most, devices = instance.max_copies + (rng.random() < 0.1), range(instance.devices)
    copies = []
    for _ in range(len(instance.windows[0].loads)):
        size = rng.randint(1, min(most, len(devices) + 1))
        again = rng.random() < 0.05 or size > len(devices)
        copies.append(tuple(rng.choices(devices, k=size) if again else rng.sample(devices, size)))
    shares = None
    if (instance.work == "kernel" and instance.split == "free") or rng.random() < 0.02:
        shares = tuple(
            tuple(_parts(rng, load, len(row)) for load, row in zip(w.loads, copies, strict=True))
            for w in instance.windows
        )
    return Solution(instance=instance.name, copies=tuple(copies), shares=shares)


def _parts(rng: random.Random, load: int, copies: int) -> tuple[int, ...]:
    load += rng.random() < 0.02
    cuts = [0, *sorted(rng.randint(0, load) for _ in range(copies - 1)), load]
    return tuple(b - a for a, b in pairwise(cuts))
