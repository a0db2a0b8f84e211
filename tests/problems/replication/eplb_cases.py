"""Loads and sizes on which our EPLB is compared with DeepSeek's published code.

`eplb_published.json` holds what that code decided. To make it again: fetch ``eplb.py`` of
github.com/deepseek-ai/EPLB at commit d52c72d (MIT, (c) 2025 DeepSeek), install torch, and run

    python tests/problems/replication/eplb_cases.py PATH/TO/eplb.py

Nothing of it is part of this repository but the hashes of its answers. Its sort is not stable:
experts of equal load per copy may come in any order. The first 1,000 cases have none that are
equal, and are what the code says as it stands; the others have many, and its sort was told to be
stable.
"""

import hashlib
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

CASES, TIED = 1000, 200

# Experts, devices, slots per device, groups, nodes.
SHAPES = [
    *[(8, 2, 8, 1, 1), (16, 4, 8, 1, 1), (32, 4, 8, 8, 2), (64, 8, 9, 8, 4), (64, 16, 5, 8, 4)],
    *[(16, 16, 2, 1, 1), (24, 6, 8, 4, 2), (40, 8, 6, 5, 1), (60, 4, 17, 4, 2), (12, 12, 1, 1, 1)],
]


def case(number: int) -> tuple[list[int], tuple[int, int, int, int, int]]:
    """Return the loads of a case and its shape."""
    shape = SHAPES[number % len(SHAPES)]
    rng, experts = np.random.default_rng(number), shape[0]
    if number >= CASES:
        return rng.integers(0, 5, experts).tolist(), shape
    law = number // len(SHAPES) % 4
    if law == 0:
        loads = rng.random(experts)
    elif law == 1:
        loads = np.exp(-5 * rng.permutation(experts) / experts) * (0.9 + 0.2 * rng.random(experts))
    elif law == 2:
        loads = rng.lognormal(0, 1.5, experts)
    else:
        loads = rng.pareto(1.1, experts) + 0.01
    return (1 + loads / loads.max() * 2**23).astype(np.int64).tolist(), shape


def digest(experts_in_slots: list[int]) -> str:
    """Return a short hash of the experts in all slots, in order."""
    return hashlib.sha256(json.dumps(experts_in_slots).encode()).hexdigest()[:8]


def published(file: str) -> list[str]:
    """Return the hashes of what the published code decides."""
    import torch

    spec: Any = importlib.util.spec_from_file_location("eplb", file)
    code = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(code)
    found, sort = [], torch.Tensor.sort
    for number in range(CASES + TIED):
        if number == CASES:
            torch.Tensor.sort = lambda of, dim, descending: sort(
                of, dim=dim, descending=descending, stable=True
            )
        loads, (_, devices, slots, groups, nodes) = case(number)
        weights = torch.tensor([loads], dtype=torch.int64)
        slots_map, _, _ = code.rebalance_experts(weights, devices * slots, groups, nodes, devices)
        found.append(digest(slots_map[0].tolist()))
    return found


if __name__ == "__main__":
    answers = {
        "source": "github.com/deepseek-ai/EPLB at d52c72d, eplb.py, MIT, (c) 2025 DeepSeek",
        "hashes": published(sys.argv[1]),
    }
    Path(__file__).with_name("eplb_published.json").write_text(json.dumps(answers) + "\n")
