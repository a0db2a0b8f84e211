"""Small random bitwidth instances of every kind that the tests tell apart."""

import random
from typing import Any

from tests.rooms.bitwidth import Instance

KINDS = (
    "convex losses",
    "any losses",
    "losses that may rise",
    "few different losses",
    "other widths",
    "a model budget",
    "minimum counts",
    "minimum counts in a model budget",
    "one width per layer",
    "one width per model",
)

COARSE = {"one width per layer": "layer", "one width per model": "model"}


def random_instance(seed: int, kind: str = "any losses", largest: int = 5) -> Instance:
    """Return a random instance of 1 to 3 layers and up to `largest` experts, feasible or not."""
    rng = random.Random(f"{kind}{seed}")
    bits = [1, 2, 3, 4] if rng.random() < 0.5 else [2, 3, 4]
    if kind == "other widths":
        bits = sorted(rng.sample([1, 2, 3, 4, 6, 8, 16], rng.choice([1, 2, 3, 4])))
    layers: list[dict[str, Any]] = []
    left = rng.randint(2, largest)
    while left > 0 and len(layers) < 3:
        size = rng.randint(1, left)
        left -= size
        experts = [_expert(rng, kind, number, len(bits)) for number in range(size)]
        rng.shuffle(experts)
        budget = rng.randint(size * bits[0] - rng.choice([0, 0, 1]), size * bits[-1])
        layers.append({"budget_bits": max(0, budget), "experts": experts})
    data: dict[str, Any] = {"bits": bits, "layers": layers}
    if "model budget" in kind or (kind in COARSE and rng.random() < 0.5):
        data["model_budget_bits"] = sum(layer["budget_bits"] for layer in layers)
        if rng.random() < 0.5:
            for layer in layers:
                layer["budget_bits"] = None
    if "minimum counts" in kind or (kind in COARSE and rng.random() < 0.3):
        chosen = rng.sample(bits, rng.choice([1, 1, 2]))
        data["min_count"] = {str(width): rng.choice([0, 1, 1, 2]) for width in chosen}
    data["granularity"] = COARSE.get(kind, "expert")
    return Instance(name=f"{kind}-{seed}", loss_scale=1e-6, **data)


def _expert(rng: random.Random, kind: str, number: int, widths: int) -> dict[str, Any]:
    if kind == "convex losses":
        steps = sorted(rng.randint(0, 30) for _ in range(widths - 1))
        losses = [rng.randint(0, 10)]
        for step in steps:
            losses.append(losses[-1] + step)
        losses = losses[::-1]
    elif kind == "losses that may rise":
        losses = [rng.randint(0, 60) for _ in range(widths)]
    elif kind == "few different losses":
        losses = sorted((rng.choice([0, 6, 12]) for _ in range(widths)), reverse=True)
    else:
        losses = sorted((rng.randint(0, 99) for _ in range(widths)), reverse=True)
    return {"expert": number, "importance": rng.randint(0, 4), "loss": losses}
