"""Small random joint plans of every kind that the tests tell apart."""

import random
from typing import Any

from tests.rooms.joint import Instance, Solution

KINDS = (
    "residents",
    "widths",
    "deferral",
    "widths and deferral",
    "caches",
    "caches and deferral",
    "contexts",
    "no host copy",
    "slow GPU",
    "long hand-over",
)

SHAPES: dict[str, tuple[int, int, int, int]] = {
    "residents": (2, 3, 1, 1),
    "widths": (2, 2, 1, 2),
    "deferral": (3, 2, 1, 1),
    "widths and deferral": (2, 2, 1, 2),
    "caches": (1, 3, 6, 1),
    "caches and deferral": (2, 2, 3, 1),
    "contexts": (2, 2, 1, 2),
    "no host copy": (2, 3, 3, 1),
    "slow GPU": (3, 2, 1, 1),
    "long hand-over": (3, 2, 1, 1),
}
"""Layers, experts, steps and widths: at most some thousand candidates for brute force."""


def random_instance(seed: int, kind: str | None = None, *, scale: int = 1000) -> Instance:
    """Return a random instance; without a kind the seeds take turns through all."""
    kind = kind or KINDS[seed % len(KINDS)]
    rng = random.Random(f"joint {kind} {seed}")
    layers, experts, steps, widths = SHAPES[kind]
    defers = kind in ("deferral", "widths and deferral", "caches and deferral", "long hand-over")
    bits = [4, 8][-widths:]
    sizes = [rng.randint(1, 4)]
    sizes += [sizes[0] + rng.randint(1, 4)] * (widths - 1)
    most = rng.choice([1, 1, 2])
    cpu = [rng.randint(3, 9) * scale]
    cpu += [cpu[0] + rng.randint(0, 9) * scale] * (widths - 1)
    fast = [rng.randint(0, 3) * scale for _ in range(widths)]
    gpu = [ns * 3 for ns in cpu] if kind == "slow GPU" else sorted(fast)
    cells = layers * experts
    losses = None
    if widths > 1 and rng.random() < 0.8:
        losses = [
            [[rng.randint(0, 9), 0] for _ in range(experts)] for _ in range(layers)
        ]  # fmt: skip
    options: dict[str, Any] = {
        "max_ways": int(kind.startswith("caches")),
        "max_deferred": int(defers or rng.random() < 0.2),
    }
    hand_over = rng.randint(4, 9) if kind == "long hand-over" else rng.randint(0, 2)
    contexts = [_context(rng, layers, scale) for _ in range(2 if kind == "contexts" else 1)]
    total = cells * sizes[-1]
    room = sizes[0] if kind == "caches" else rng.randint(0, total)
    least = total // 2 if kind == "no host copy" else cells * sizes[0]
    return Instance(
        name=f"{kind}-{seed}",
        layers=layers,
        experts=experts,
        bits=bits,
        expert_bytes=sizes,
        gpu_ns=[[n * ns for n in range(most + 1)] for ns in gpu],
        cpu_ns=[[n * ns for n in range(most + 1)] for ns in cpu],
        copy_ns=[rng.choice([0, 2, 8, 40]) * scale] * widths,
        shared_ns=[rng.randint(0, 3) * scale for _ in range(layers)],
        hand_over_ns=hand_over * scale,
        contexts=contexts,
        gpu_bytes=room + contexts[0]["kv_bytes"],
        host_bytes=rng.randint(least, total) if rng.random() < 0.3 else None,
        max_loss=rng.randint(0, 6 * cells) if rng.random() < 0.6 else None,
        host_copy=kind != "no host copy",
        width_loss=losses,
        steps=_steps(rng, (steps, layers, experts), most, sticky=kind.startswith("caches")),
        **options,
    )


def random_solution(rng: random.Random, instance: Instance) -> Solution:
    """Return decisions that keep the rules of shape, and hardly ever the budgets."""
    layers, experts = range(instance.layers), range(instance.experts)
    return Solution(
        instance=instance.name,
        context=rng.randrange(len(instance.contexts)),
        resident=[[e for e in experts if rng.random() < 0.4] for _ in layers],
        bits=[[rng.choice(instance.bits) for _ in experts] for _ in layers],
        ways=[rng.randint(0, instance.max_ways) for _ in layers],
        deferred=[rng.choice(instance.deferrable(layer)) for layer in layers],
    )


def _context(rng: random.Random, layers: int, scale: int) -> dict[str, Any]:
    return {
        "name": "some",
        "kv_bytes": rng.randint(0, 3),
        "attention_ns": [rng.randint(0, 5) * scale for _ in range(layers)],
        "step_ns": rng.randint(0, 3) * scale,
        "kv_loss": rng.randint(0, 5),
    }


def _steps(
    rng: random.Random, shape: tuple[int, int, int], most: int, *, sticky: bool
) -> list[list[list[tuple[int, int, int]]]]:
    """Return steps; sticky ones have single experts, which tend to come again."""
    steps, layers, experts = shape
    found: list[list[list[tuple[int, int, int]]]] = []
    for number in range(steps):
        step = []
        for layer in range(layers):
            used = rng.sample(range(experts), rng.randint(1, min(2, experts)))
            if sticky:
                used = used[:1]
                if number and rng.random() < 0.7:
                    used = [found[-1][layer][0][0]]
            step.append([(e, rng.randint(1, most), rng.randint(0, 4)) for e in used])
        found.append(step)
    return found
