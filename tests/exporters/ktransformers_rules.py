"""What KTransformers does with counts and a ratio, from the description of its placement."""

import random
from pathlib import Path

import numpy as np

from tests.rooms.sim import read_torch


def gpu_masks(
    path: Path, ratio: float, all_layers: int, experts: int, dense: tuple[int, ...], seed: int
) -> list[list[bool]]:
    """Return which experts of each layer end on the GPU under the `frequency` strategy.

    The file must be called .pt, and hold a dict with `logical_count` of three axes, whose last two
    are the model's layers (dense ones included) and experts. It is summed over the first. The
    int(total * ratio) largest of all are chosen; which of equal ones is undefined, here drawn.
    Dense layers are then marked as a whole.
    """
    assert path.suffix == ".pt"
    data = read_torch(path)
    assert isinstance(data, dict)
    counts = data["logical_count"]
    assert counts.ndim == 3
    assert counts.shape[1:] == (all_layers, experts)
    assert 0.0 <= ratio <= 1.0
    frequency = counts.sum(axis=0).astype(np.float32)
    total = (all_layers - len(dense)) * experts
    rng = random.Random(seed)
    places = [(layer, expert) for layer in range(all_layers) for expert in range(experts)]
    places.sort(key=lambda place: (-frequency[place], rng.random()))
    masks = [[False] * experts for _ in range(all_layers)]
    for layer, expert in places[: int(total * ratio)]:
        masks[layer][expert] = True
    for layer in dense:
        masks[layer] = [True] * experts
    return masks
