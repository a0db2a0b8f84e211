"""Tiny random instances for every test of the problem."""

import random
from typing import Any

from moeopt.problems.replication.instance import Instance


def random_instance(seed: int, **fixed: Any) -> Instance:
    """Return 1 to 4 experts on 2 to 4 devices: every third with nodes, every fourth with moves.

    Both splits take turns; one to three windows. Some have too few slots.
    """
    rng = random.Random(seed)
    nodes = 2 if seed % 3 == 0 else 1
    devices = rng.choice([2, 4]) if nodes == 2 else rng.randint(2, 3)
    experts = rng.randint(1, 3 if devices == 4 else 4)
    slots = rng.randint(1, 3)
    groups = None
    if nodes == 2 and experts % 2 == 0 and rng.random() < 0.5:
        groups = experts // 2
    current, move_cost = None, 0
    if seed % 4 == 0:
        whole = range(devices)
        current = [rng.sample(whole, rng.randint(1, min(2, devices))) for _ in range(experts)]
        move_cost = rng.choice([1, 5, 12])
    most = rng.choice([3, 12, 60])
    windows = [
        {"weight": rng.randint(1, 3), "loads": [rng.randint(0, most) for _ in range(experts)]}
        for _ in range(rng.randint(1, 3))
    ]
    data = {
        "name": f"{seed}",
        "devices": devices,
        "slots": slots,
        "nodes": nodes,
        "groups": groups,
        "split": "free" if seed % 2 else "even",
        "max_copies": rng.randint(1, 4),
        "windows": windows,
        "current": current,
        "move_cost": move_cost,
    }
    return Instance.model_validate(data | fixed)
