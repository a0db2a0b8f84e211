"""Tiny random instances for every test of the problem."""

import random

from formulations.TEMPLATE.room import Instance


def random_instance(seed: int) -> Instance:
    """Return 1 to 7 experts; every third instance or so keeps too few."""
    rng = random.Random(seed)
    rows = [
        {"size_bytes": rng.randint(0, 9), "miss_ns": rng.randint(0, 3000)}
        for _ in range(rng.randint(1, 7))
    ]
    least, room = rng.randint(0, len(rows)), rng.randint(0, 30)
    return Instance(name=f"{seed}", capacity_bytes=room, min_kept=least, experts=rows)
