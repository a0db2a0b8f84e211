"""Small random threads instances of every kind that the tests tell apart."""

import random

from tests.rooms.threads import Instance

KINDS = (
    "mixed",
    "no loads",
    "nothing to pull",
    "equal experts",
    "zero times",
    "null grains",
    "one thread",
    "more threads than parts",
    "no common divisor",
    "huge numbers",
    "load outweighs work",
    "parts in proportion",
)

SHAPES = [(2, (1, 2), 3), (2, (1, 2, 3), 2), (3, (1, 2), 3), (2, (1,), 6), (3, (1,), 5)]
SHAPES += [(2, (2, 4), 2), (3, (1, 3), 2), (2, (4, 1), 2), (2, (2, 2), 3), (4, (1, 2), 2)]
"""Threads, grains, experts: few enough for brute force."""


def random_instance(seed: int, kind: str = "mixed") -> Instance:
    """Return a random instance with a few thousand candidates at most."""
    rng = random.Random(f"threads {kind} {seed}")
    threads, grains, count = rng.choice(SHAPES)
    threads = {"one thread": 1, "more threads than parts": 4}.get(kind, threads)
    count = min(count, 2) if kind == "more threads than parts" else count
    scale = {"huge numbers": 2**36}.get(kind, rng.choice([1, 1, 1000, 997]))
    zero = 0.4 if kind == "zero times" else 0.05

    def ns(most: int) -> int:
        if kind == "no common divisor":
            return int(10 ** rng.uniform(0, 9)) | 1
        return 0 if rng.random() < zero else rng.randint(1, most) * scale

    pull = 0 if kind == "nothing to pull" or rng.random() < 0.2 else ns(4)
    rows = []
    for number in rng.sample(range(64), count):
        load = 0 if kind == "no loads" else ns(40 if kind == "load outweighs work" else 9)
        if kind == "parts in proportion":
            work = ns(60)
            parts: list[int | None] = [-(-work // grain) for grain in grains]
        else:
            parts = [ns(30) for _ in grains]
        missing = 0.4 if kind == "null grains" else 0.1
        parts = [None if rng.random() < missing else part for part in parts]
        if all(part is None for part in parts):
            parts[rng.randrange(len(parts))] = ns(30)
        rows.append({"expert": number, "load_ns": load, "part_ns": parts})
    if kind == "equal experts":
        rows = [{**rows[0], "expert": row["expert"]} for row in rows]
    return Instance(
        name=f"{kind}-{seed}", threads=threads, pull_ns=pull, grains=grains, experts=rows
    )
