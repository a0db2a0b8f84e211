"""Small random placement instances of every kind that the tests tell apart."""

import random
from typing import Any

from tests.rooms.placement import Instance

KINDS = (
    "mixed",
    "batch 1",
    "batched",
    "gpu-bound",
    "slow offload",
    "costly charge",
    "no charge",
    "fill",
    "whole layers",
    "equal counts",
    "sizes",
    "sizes, filled",
    "host without copy",
    "equal counts, sizes",
    "short tables",
    "no slots",
    "plenty of slots",
    "huge numbers",
)

FREE_KINDS = (
    "free dispatch",
    "free, gpu-bound",
    "free, widths",
    "free, fill",
    "free, sizes",
    "free, equal counts",
    "free, whole layers",
    "free, huge numbers",
    "widths",
    "widths, sizes",
)
"""Kinds with fields of schema 2."""

SHAPES = [(1, 8), (2, 4), (3, 3), (4, 2), (8, 1)]
"""Layers and experts: at most 512 candidates for brute force."""


def random_instance(seed: int, kind: str = "mixed") -> Instance:
    """Return a random instance with a few steps."""
    rng = random.Random(f"placement {kind} {seed}")
    layers, experts = rng.choice(SHAPES)
    total = layers * experts
    scale = 10**7 if "huge numbers" in kind else rng.choice([1, 1, 1000, 997])
    most = 1 if kind == "batch 1" else rng.randint(2, 6)
    gpu, offload = rng.randint(0, 6), rng.randint(5, 20)
    fixed = rng.randint(0, 12)
    if kind == "gpu-bound":
        gpu = rng.randint(offload // 2, offload)
    elif kind.startswith("free"):
        gpu = rng.randint(offload // 2, 2 * offload)
        fixed = rng.randint(0, 4)
    elif kind == "slow offload":
        offload = 40 * (gpu + 1)
    elif kind == "costly charge":
        fixed = rng.randint(20, 80)
    elif kind == "no charge":
        fixed = 0
    length = 2 if kind == "short tables" else most + rng.randint(0, 2)
    sizes = None
    if "sizes" in kind:
        sizes = [[rng.randint(1, 4) for _ in range(experts)] for _ in range(layers)]
    room = total if sizes is None else sum(map(sum, sizes))
    slots = {"no slots": 0, "plenty of slots": room + 3}.get(kind, rng.randint(1, room))
    host = None
    if kind == "host without copy":
        host = rng.randint(max(0, room - slots - 1), room)
    elif rng.random() < 0.1:
        host = room + rng.choice([0, 0, 0, -1])
    if kind == "free, gpu-bound":
        slots = room
    schema_2: dict[str, Any] = {}
    if kind.startswith("free"):
        schema_2 |= {"schema_version": 2, "dispatch": "free"}
    if "widths" in kind:
        count = rng.randint(1, 2)
        schema_2 |= {
            "schema_version": 2,
            "expert_width": [
                [rng.randint(0, count) for _ in range(experts)] for _ in range(layers)
            ],
            "width_gpu_ns": [_table(rng, 2 * gpu // 3, length, scale) for _ in range(count)],
            "width_offload_ns": [_table(rng, offload // 2, length, scale) for _ in range(count)],
        }
    return Instance(
        name=f"{kind}-{seed}",
        **schema_2,
        layers=layers,
        experts=experts,
        gpu_slots=slots,
        gpu_expert_ns=_table(rng, gpu, length, scale),
        offload_expert_ns=_table(rng, offload, length, scale),
        layer_offload_fixed_ns=fixed * scale,
        steps=random_steps(rng, layers, experts, most, rng.randint(1, 3 if schema_2 else 7)),
        restriction=_restriction(kind),
        fill="fill" in kind,
        expert_slots=sizes,
        host_slots=host,
        host_copy=kind != "host without copy",
    )


def _restriction(kind: str) -> str | None:
    if "whole layers" in kind:
        return "whole-layers"
    return "equal-counts" if "equal counts" in kind else None


def random_steps(
    rng: random.Random, layers: int, experts: int, most: int, length: int
) -> list[list[list[list[int]]]]:
    """Return steps in which some experts are likelier than others, a few of them repeated."""
    steps: list[list[list[list[int]]]] = []
    likely = [[rng.random() for _ in range(experts)] for _ in range(layers)]
    for _ in range(length):
        if steps and rng.random() < 0.2:
            steps.append(rng.choice(steps))
            continue
        step = []
        for row in likely:
            active = [e for e, chance in enumerate(row) if rng.random() < chance]
            rng.shuffle(active)
            step.append([[e, rng.randint(1, most)] for e in active])
        steps.append(step)
    return steps


def _table(rng: random.Random, first: int, length: int, scale: int) -> list[int]:
    """Return times that never fall, so that the last slope does not either."""
    table, now = [0], first
    for _ in range(length):
        table.append(now * scale)
        now += rng.randint(0, 4)
    return table
