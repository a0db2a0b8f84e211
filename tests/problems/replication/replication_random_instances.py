"""Tiny random instances for every test of the problem."""

import random
from typing import Any

from tests.rooms.replication import Instance


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


def exchanged(seed: int) -> Instance:
    """Return 64 experts that exchanges place evenly: smaller instances come to none."""
    rng = random.Random(seed)
    loads = [rng.randint(1, 9) for _ in range(64)]
    for expert in range(-sum(loads) % 16):
        loads[expert] += 1
    whole = {"windows": [{"loads": loads}], "name": f"exchanged-{seed}", "max_copies": 4}
    return random_instance(1, devices=16, slots=4, split="even", **whole)


def walked(seed: int, **fixed: Any) -> Instance:
    """Return an instance of any kind that is just too large to be left to CP-SAT at once."""
    rng = random.Random(seed)
    loads = [[rng.randint(0, 60) for _ in range(9)] for _ in range(1 + seed % 3)]
    whole = {"windows": [{"loads": of} for of in loads], "name": f"walked-{seed}"}
    shape = {"devices": 8, "slots": 3, "nodes": 1 + seed % 2, "max_copies": 4, "groups": None}
    paid = {"current": None, "move_cost": 0}
    if seed % 4 == 0:
        paid = {"current": [[rng.randrange(8)] for _ in range(9)], "move_cost": 5}
    kernel = {"work": "kernel", "read_ns": 12, "token_ns": 3, "slot_cost": 4, "pass_ns": 2}
    return random_instance(seed, **whole, **shape, **paid, **(kernel if seed % 3 else {}), **fixed)


ALSO_COMPILED = (exchanged, walked)
"""What makes instances that other kernels are compiled for."""


def hard_instance(seed: int, **fixed: Any) -> Instance:
    """Return an instance of any kind: idle groups, no load at all, huge and tiny loads, one expert.

    Two of three have kernel times; nodes, groups, links, moves and slots that cost come and go.
    """
    rng = random.Random(seed)
    kernel, free = rng.random() < 2 / 3, rng.random() < 0.5
    nodes = rng.choice([1, 1, 2, 3])
    devices = (
        rng.randint(1, 3) if nodes == 1 else min(4, nodes * rng.randint(1, 2)) // nodes * nodes
    )
    shares = kernel and free
    experts = rng.randint(1, 3 if shares or devices == 4 else 4)
    most = rng.choice([1, 2, 3, 4] if shares else [2, 6, 20, 900])
    idle = rng.random() < 0.1

    def load() -> int:
        return 0 if idle or rng.random() < 0.2 else rng.randint(0, most)

    data: dict[str, Any] = {
        "name": f"hard{seed}",
        "devices": devices,
        "slots": rng.randint(1, 3),
        "nodes": nodes,
        "split": "free" if free else "even",
        "max_copies": rng.randint(1, 4),
        "windows": [
            {"weight": rng.randint(1, 4), "loads": [load() for _ in range(experts)]}
            for _ in range(rng.randint(1, 3))
        ],
    }
    if nodes > 1:
        data["groups"] = rng.choice([None, *(n for n in range(1, experts + 1) if experts % n == 0)])
    if rng.random() < 0.3:
        now = [rng.sample(range(devices), rng.randint(0, min(2, devices))) for _ in range(experts)]
        data |= {"current": now, "move_cost": rng.choice([0, 1, 7, 100])}
    if kernel:
        data |= {"work": "kernel"}
        data |= {"read_ns": rng.choice([1, 5, 12, 100]), "token_ns": rng.choice([1, 3, 10])}
        data["slot_cost"] = rng.choice([0, 0, 1, 4, 50])
        if rng.random() < 0.35:
            data["links"] = [
                [0 if a == b else rng.choice([0, 1, 5, 9]) for b in range(devices)]
                for a in range(devices)
            ]
        data["pass_ns"] = rng.choice([0, 0, 2, 7])
    return Instance.model_validate(data | fixed)
