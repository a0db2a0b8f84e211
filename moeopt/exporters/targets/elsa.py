"""The cache flags of the code of CPU-GPU collaborative inference (elsa-lab).

``--cache-nblocks N --cache-nways M`` gives each of the first N layers M ways and the others none.
"""

import re
from typing import Any

import numpy as np

from moeopt.core.errors import InputError
from moeopt.exporters.exported import Exported, Job
from moeopt.exporters.restricted import compared
from moeopt.exporters.target import Target
from moeopt.problems.cache.curves import Ints
from moeopt.problems.cache.instance import Instance, Solution
from moeopt.problems.cache.sides import sides_of

LEADING = "the same ways on leading layers, none on the others"


def export(job: Job) -> Exported:
    """Return the flags of a cache plan, or of the best plan of their form and what that costs."""
    instance: Any = job.instance
    plan: Any = job.solution
    form, loss = leading_ways(plan.ways), None
    if form is None:
        form = best_leading(instance)
        changed = Solution(instance=instance.name, ways=ways_of(*form, instance.layers))
        loss = compared(job, instance, changed, LEADING, proven=True)
    layers, ways = form
    line = f"--cache-nblocks {layers} --cache-nways {ways} --cache-replace-policy LRU"
    return Exported(f"{line}\n".encode(), lambda _: line, {"ways": ways, "layers": layers}, loss)


def leading_ways(ways: tuple[int, ...]) -> tuple[int, int] | None:
    """Return (layers, ways) if a plan has the same ways on its first layers and no others."""
    layers = next((row for row, own in enumerate(ways) if own != ways[0]), len(ways))
    if ways[0] == 0:
        layers = 0
    return None if any(ways[layers:]) else (layers, ways[0])


def best_leading(instance: Instance) -> tuple[int, int]:
    """Return the (layers, ways) of least time: every pair that fits is tried.

    Fewer layers than fit can be better, where fetching takes longer than computing. Ties: the
    fewest ways, then the fewest layers.
    """
    sides = sides_of(instance)
    compute, copy = (_leading(cost) for cost in (sides.compute_ns, sides.copy_ns))
    trace = np.maximum(compute, copy)
    best = (sides.trace_ns(np.zeros(instance.layers, dtype=np.int64)), 0, 0)
    for ways in range(1, instance.experts + 1):
        if fits := min(instance.layers, sides.slots // ways):
            layers = int(trace[:fits, ways].argmin())
            best = min(best, (int(trace[layers, ways]), ways, layers + 1))
    return best[2], best[1]


def _leading(cost: Ints) -> Ints:
    """Return the total if the layers up to each one have so many ways, and the others none."""
    none = cost[:, :1]
    total: Ints = cost.cumsum(axis=0) + (none.sum() - none.cumsum(axis=0))
    return total


def ways_of(layers: int, ways: int, all_layers: int) -> tuple[int, ...]:
    """Return the ways of every layer."""
    return (ways,) * layers + (0,) * (all_layers - layers)


def read_elsa(flags: str, all_layers: int) -> tuple[int, ...]:
    """Return the ways of every layer that flags ask for."""
    numbers = [re.search(rf"--cache-{name} (\d+)(?!\S)", flags) for name in ("nblocks", "nways")]
    found = [int(match[1]) for match in numbers if match]
    if len(found) < 2:
        raise InputError("--cache-nblocks, --cache-nways: must both have a count")
    if found[0] > all_layers:
        raise InputError(f"--cache-nblocks: is {found[0]}, there are {all_layers} layers")
    return ways_of(found[0], found[1], all_layers)


TARGETS = (
    Target(
        "elsa",
        "CPU-GPU collaborative inference (elsa-lab): cache flags",
        ("cache",),
        ".txt",
        export,
        holds="one number of ways for the first layers, none for the others",
        loses="ways that differ between layers; its LRU counts hits",
        names_experts=False,
    ),
)
