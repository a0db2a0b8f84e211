"""Tiny random instances for every test of the problem."""

import random

from tests.rooms.split import Instance


def random_instance(seed: int) -> Instance:
    """Return 1 to 3 layers on 2 or 3 devices, some by tensor; some do not fit."""
    rng = random.Random(seed)
    count, rows = rng.randint(2, 3), rng.randint(1, 3)
    devices = [
        {"name": f"d{n}", "capacity": rng.randint(4, 40), "buffer": rng.choice((0, 0, 1, 4))}
        for n in range(count)
    ]

    def times(share: float) -> list[int | None]:
        found: list[int | None] = [
            None if rng.random() < share else rng.randint(0, 90) for _ in range(count)
        ]
        return found if any(time is not None for time in found) else [rng.randint(1, 9)] * count

    def hops() -> list[list[int]]:
        return [[rng.randint(0, 20) * (i != j) for j in range(count)] for i in range(count)]

    layers = [
        {
            "attention_ns": times(0.1),
            "attention_bytes": rng.randint(0, 6),
            "experts_ns": times(0.1) if rng.random() < 0.8 else None,
            "experts_bytes": rng.randint(0, 12),
            "prompt_attention_ns": rng.choice((None, times(0.1))),
            "prompt_experts_ns": rng.choice((None, times(0.1))),
        }
        for _ in range(rows)
    ]
    if rng.random() < 0.3:  # all layers alike
        layers = [layers[0]] * rows
    if seed % 3 == 2:  # a layer's experts by tensor
        row = rng.randrange(rows)
        if layers[row]["experts_ns"] is not None:
            further = layers[row] | {
                "attention_ns": None,
                "attention_bytes": 0,
                "experts_ns": times(0.1),
                "experts_bytes": rng.randint(0, 12),
            }
            layers[row + 1 : row + 1] = [further] * rng.randint(1, 2)
    order = rng.sample(range(count), rng.randint(1, count)) if rng.random() < 0.4 else None
    return Instance(
        name=f"{seed}",
        source=rng.randrange(count),
        order=order,
        devices=devices,
        hop_ns=hops(),
        prompt_hop_ns=rng.choice((None, hops())),
        decode_weight=rng.choice((1, 1, 3, 0)),
        prompt_weight=rng.choice((0, 1, 2)),
        layers=layers,
    )
