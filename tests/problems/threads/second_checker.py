"""A second checker and an oracle, written from the specification alone: sums over arrays."""

import random
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from tests.rooms.threads import Solution


def threads_answer(instance: Any, solution: Any) -> tuple[int, set[str]]:
    """Return the makespan by n[e, t] and y[e, t], and the rules that are broken."""
    experts, threads = len(instance.experts), instance.threads
    n = np.zeros((experts, threads), dtype=object)
    broken: dict[str, bool] = {"TH-C1": False, "TH-C2": False}
    p = []
    for e, (k, row) in enumerate(zip(solution.grain, solution.thread, strict=True)):
        table = instance.experts[e].part_ns
        exists = k < len(table) and table[k] is not None
        broken["TH-C1"] |= not exists
        p.append(table[k] + instance.pull_ns if exists else 0)
        broken["TH-C2"] |= exists and len(row) != instance.grains[k]
        for t in row:
            if t < threads:
                n[e, t] += exists
            else:
                broken["TH-C2"] = True
    load = np.array([expert.load_ns for expert in instance.experts], dtype=object)
    ends = np.array(p, dtype=object) @ n + load @ (n > 0).astype(object)
    return int(max(ends)), {rule for rule, true in broken.items() if true}


def threads_decision(rng: random.Random, instance: Any) -> Any:
    """Return grains that exist, with a thread for each part; one in five is spoilt."""
    grains, rows = [], []
    for expert in instance.experts:
        grain = rng.choice([k for k, part in enumerate(expert.part_ns) if part is not None])
        few = rng.sample(range(instance.threads), rng.randint(1, instance.threads))
        grains.append(grain)
        rows.append([rng.choice(few) for _ in range(instance.grains[grain])])
    if rng.random() < 0.2:
        row, wrong = rng.randrange(len(rows)), rng.randrange(3)
        if wrong == 0:
            grains[row] = rng.randint(0, len(instance.grains))
        elif wrong == 1:
            rows[row].pop()
        else:
            rows[row][0] += rng.randint(1, instance.threads)
    return Solution(instance=instance.name, grain=grains, thread=rows)


def oracle(instance: Any) -> int:
    """Return the least makespan: every grain of every expert, every count of parts by thread."""
    best = None
    for loads in product(*(list(_loads(instance, expert)) for expert in instance.experts)):
        makespan = max(map(sum, zip(*loads, strict=True)))
        best = makespan if best is None else min(best, makespan)
    assert best is not None
    return best


def _loads(instance: Any, expert: Any) -> Iterator[tuple[int, ...]]:
    """Yield what an expert can add to each thread."""
    for parts, part in zip(instance.grains, expert.part_ns, strict=True):
        if part is None:
            continue
        for counts in product(range(parts + 1), repeat=instance.threads):
            if sum(counts) == parts:
                each = part + instance.pull_ns
                yield tuple(each * count + expert.load_ns * (count > 0) for count in counts)
