"""Small random deferral instances of every kind that the tests tell apart."""

import random

from tests.rooms.deferral import Instance

KINDS = (
    "equal layers",
    "mixed layers",
    "with a penalty limit",
    "nothing must be immediate",
    "zero times",
    "hand-overs differ",
    "one or two layers",
)


def random_instance(seed: int, kind: str = "mixed layers", layers: int | None = None) -> Instance:
    """Return a random instance of 1 to 4 layers and up to 3 counts."""
    rng = random.Random(f"{kind}{seed}")
    if layers is None:
        layers = rng.randint(1, 2) if kind == "one or two layers" else rng.randint(2, 4)
    top_k = rng.randint(1, 4)
    least = 0 if kind == "nothing must be immediate" else rng.randint(0, top_k)
    least = max(least, top_k - 2)

    def times(low: int, high: int) -> int | list[int]:
        low = 0 if kind == "zero times" else low
        if kind == "equal layers":
            return rng.randint(low, high)
        values = [rng.randint(low, high) for _ in range(layers)]
        return [v * rng.randint(0, 1) for v in values] if kind == "zero times" else values

    penalty = [rng.choice([0, 0, 1])]
    for _ in range(top_k - least):
        penalty.append(penalty[-1] + rng.choice([0, 1, 1, 2, 3]))
    limit = None
    if kind == "with a penalty limit":
        limit = rng.randint(max(0, layers * penalty[0] - 1), layers * penalty[-1])
    sync = times(0, 12) if kind in ("hand-overs differ", "zero times") else rng.randint(0, 4)
    return Instance(
        name=f"{kind}-{seed}",
        layers=layers,
        top_k=top_k,
        min_immediate=least,
        attention_ns=times(1, 20),
        shared_ns=times(0, 12),
        sync_ns=sync,
        expert_cpu_ns=times(1, 9),
        penalty=penalty,
        max_total_penalty=limit,
    )
