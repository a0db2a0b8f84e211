"""Small random cache instances of every kind that the tests tell apart."""

import random

from tests.rooms.cache import Instance

KINDS = (
    "mixed",
    "reuse",
    "ragged",
    "fetch-bound",
    "compute-bound",
    "costly hand-over",
    "slow GPU",
    "no slots",
    "plenty of slots",
    "one layer",
    "zero costs",
    "huge numbers",
)

SHAPES = [(1, 9), (2, 6), (3, 4), (3, 5), (4, 3), (5, 2), (6, 1)]
"""Layers and experts: at most some 250 candidates for brute force."""


def random_instance(seed: int, kind: str = "mixed") -> Instance:
    """Return a random instance with a short trace."""
    rng = random.Random(f"cache {kind} {seed}")
    layers, experts = rng.choice([(1, 5), (1, 9)] if kind == "one layer" else SHAPES)
    scale = 10**8 if kind == "huge numbers" else rng.choice([1, 1, 1000, 997])
    total = layers * experts
    slots = {"no slots": 0, "plenty of slots": total + 3}.get(kind, rng.randint(1, total))
    gpu, cpu, hand_over = rng.randint(0, 5), rng.randint(5, 30), rng.randint(0, 4)
    fetch = rng.randint(cpu, 4 * cpu)
    if kind == "fetch-bound":
        fetch = 9 * cpu
    elif kind == "compute-bound":
        fetch = rng.randint(0, 3)
    elif kind == "costly hand-over":
        hand_over = rng.randint(20, 60)
    elif kind == "slow GPU":
        gpu = rng.randint(cpu, 3 * cpu)
    elif kind == "zero costs":
        gpu, cpu, fetch, hand_over = (rng.choice([0, 0, value]) for value in (gpu, cpu, fetch, 3))
    return Instance(
        name=f"{kind}-{seed}",
        layers=layers,
        experts=experts,
        slots=slots,
        gpu_ns=gpu * scale,
        cpu_ns=cpu * scale,
        activation_ns=hand_over * scale,
        fetch_ns=fetch * scale,
        other_ns=rng.choice([0, 1, 7]) * scale,
        accesses=random_accesses(rng, kind, layers, experts, rng.randint(1, 20)),
    )


def random_accesses(
    rng: random.Random, kind: str, layers: int, experts: int, tokens: int
) -> list[list[list[int]]]:
    """Return a trace whose layers differ in how far a token repeats the one before."""
    top_k = rng.randint(1, min(3, experts))
    again = [0.9 * rng.random() if kind != "mixed" else 0.0 for _ in range(layers)]
    trace: list[list[list[int]]] = []
    for _ in range(tokens):
        token = []
        for layer in range(layers):
            used = rng.sample(range(experts), top_k)
            if trace and rng.random() < again[layer] and trace[-1][layer]:
                used = trace[-1][layer][::-1]
            if kind == "ragged":
                used = used[: rng.randint(0, top_k)]
            token.append(used)
        trace.append(token)
    return trace
