"""A small model with layers of every kind, and placement plans for it."""

import random
from collections.abc import Sequence

from tests.rooms.placement import Instance, Solution
from tests.rooms.sim import ModelShape

LAYERS, EXPERTS = 4, 5


def shape(
    dense: Sequence[int] = (0,),
    experts: int = EXPERTS,
    moe_layers: int = LAYERS,
    model_class: str | None = "DeepseekV2ForCausalLM",
) -> ModelShape:
    """Return a model with `moe_layers` layers with experts, and these others among them."""
    leading = tuple(dense) == tuple(range(len(dense)))
    return ModelShape(
        name="tiny",
        layers=moe_layers + len(dense),
        dense_layers=len(dense),
        routed_experts=experts,
        shared_experts=0,
        top_k=2,
        hidden_size=8,
        expert_intermediate_size=8,
        bytes_per_weight=2,
        source="made up",
        dense_layer_ids=None if leading else tuple(dense),
        model_class=model_class,
    )


def instance(seed: int = 0, slots: int = 9, **changes: object) -> Instance:
    """Return an instance whose best plans put parts of layers on the GPU."""
    rng = random.Random(f"export {seed}")
    steps = tuple(
        tuple(
            tuple((e, rng.randint(1, 3)) for e in sorted(rng.sample(range(EXPERTS), 2)))
            for _ in range(LAYERS)
        )
        for _ in range(5)
    )
    fields = {
        "name": f"export-{seed}",
        "layers": LAYERS,
        "experts": EXPERTS,
        "gpu_slots": slots,
        "gpu_expert_ns": (0, 2000, 3000),
        "offload_expert_ns": (0, 9000, 15000),
        "layer_offload_fixed_ns": 4000,
        "steps": steps,
    }
    return Instance.model_validate(fields | changes)


def plan(of: Instance, gpu: Sequence[Sequence[int]]) -> Solution:
    """Return a solution of an instance."""
    return Solution(instance=of.name, gpu=tuple(tuple(row) for row in gpu))


def random_plan(of: Instance, seed: int) -> Solution:
    """Return a valid solution: some experts of each layer, in any order, as many as fit."""
    rng = random.Random(f"plan {seed}")
    pairs = [(layer, e) for layer in range(of.layers) for e in range(of.experts)]
    chosen = rng.sample(pairs, rng.randint(0, min(of.gpu_slots, len(pairs))))
    return plan(of, [[e for layer, e in chosen if layer == row] for row in range(of.layers)])


def sets(gpu: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Return the experts of each layer, rising."""
    return [tuple(sorted(row)) for row in gpu]
