"""The paper's algorithm and the named baselines; each says what its source leaves unsaid."""

from .instance import Instance, Solution


def densest_first(instance: Instance) -> Solution | None:
    """Keep experts by falling miss cost per byte while they fit (ties: the first).

    Returns None where this keeps too few: the method then has no solution.
    """
    free, kept = instance.capacity_bytes, [False] * len(instance.experts)
    order = sorted(
        range(len(kept)),
        key=lambda row: (
            -instance.experts[row].miss_ns / max(instance.experts[row].size_bytes, 1e-9)
        ),
    )
    for row in order:
        if instance.experts[row].size_bytes <= free:
            kept[row] = True
            free -= instance.experts[row].size_bytes
    if sum(kept) < instance.min_kept:
        return None
    return Solution(instance=instance.name, kept=tuple(kept))


WARM_START = densest_first
"""The heuristic whose solution the exact methods start from."""
