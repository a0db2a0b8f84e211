"""The runtimes' rules and the baselines; each says what its source leaves unsaid.

They see the sum of all windows' loads with their weights; `flashlb` sees the windows one by one.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from .bounds import has_room
from .eplb import pack, placed, rebalance
from .flashlb import flashlb_counts_and_places
from .instance import Instance
from .solution import Solution

SameDevice = Literal["exchange", "drop"]


def eplb(instance: Instance, same_device: SameDevice = "exchange") -> Solution | None:
    """DeepSeek's global policy: copies to whoever has most per copy, then the lightest device.

    Source: github.com/deepseek-ai/EPLB, the policy for decoding. It may put two copies on one
    device: settlement `same_device`. Knows no nodes: no solution where there are more than one.
    """
    if instance.nodes > 1 or not has_room(instance):
        return None
    return _balanced(instance, 1, same_device)


def eplb_hierarchical(instance: Instance, same_device: SameDevice = "exchange") -> Solution | None:
    """DeepSeek's hierarchical policy: groups to nodes first, then as `eplb` within each node.

    Source: github.com/deepseek-ai/EPLB, the policy for prefilling. Without equally many groups for
    every node it takes the global one, which does not keep groups together: no solution then.
    """
    groups = 1 if instance.nodes == 1 else instance.experts // instance.group_size
    if groups % instance.nodes or not has_room(instance):
        return None
    if groups // instance.nodes * instance.group_size > instance.devices_per_node * instance.slots:
        return None
    return _balanced(instance, groups, same_device)


def lplb(instance: Instance, same_device: SameDevice = "exchange") -> Solution | None:
    """LPLB: tokens are shared out over EPLB's copies by a linear program per batch.

    Source: github.com/deepseek-ai/LPLB. The copies are those of `eplb`; the free split of the
    instance is the program's optimum, without the links' topology. No solution for an even split.
    """
    return eplb(instance, same_device) if instance.split == "free" else None


def flashlb(instance: Instance) -> Solution | None:
    """FlashLB: copies and places at once, for each device's mean load + 0.674 standard deviations.

    Source: vllm-ascend, pull request 6477 (`flashlb.py` has the steps). Knows no nodes: no solution
    where there are more than one.
    """
    if instance.nodes > 1 or not has_room(instance):
        return None
    windows = np.repeat(instance.loads_units, np.minimum(instance.weights, 16), axis=0)
    on_device = flashlb_counts_and_places(
        windows.astype(np.float64), instance.devices, instance.slots, instance.most_copies
    )
    return _solution(instance, placed(on_device, _summed(instance), instance.devices, True))


def longest_first(instance: Instance) -> Solution | None:
    """One copy each, by falling load on the device with the least and a free slot (Graham 1969).

    With nodes, first the groups on the node with the least and room for one more.
    """
    if not has_room(instance):
        return None
    loads, size = np.array(_summed(instance), dtype=np.float32), instance.group_size
    if instance.nodes == 1:
        size = instance.experts
    per_node = instance.devices_per_node * instance.slots // size
    of_group = loads.reshape(-1, size).sum(axis=1)
    rows: list[list[int]] = [[] for _ in loads]
    fair = -(-len(of_group) // instance.nodes)
    for node, members in enumerate(pack(of_group, instance.nodes, max(2, min(per_node, fair)))):
        experts = [group * size + number for group in members for number in range(size)]
        on_device = pack(loads[experts], instance.devices_per_node, instance.slots)
        for device, held in enumerate(on_device):
            for item in held:
                rows[experts[item]].append(node * instance.devices_per_node + device)
    return _solution(instance, rows)


def round_robin(instance: Instance) -> Solution | None:
    """Slot after slot the next expert, and again from the first one: no loads are known.

    What runtimes start with: SGLang's trivial map, vLLM's linear one. With nodes, in each node its
    part of the groups in turn.
    """
    if not has_room(instance):
        return None
    size = instance.group_size
    groups = instance.experts // size
    rows: list[list[int]] = [[] for _ in range(instance.experts)]
    for node in range(instance.nodes):
        first, last = (groups * (node + more) // instance.nodes * size for more in (0, 1))
        slots = instance.devices_per_node * instance.slots if last > first else 0
        for slot in range(slots):
            row = rows[first + slot % (last - first)]
            device = node * instance.devices_per_node + slot // instance.slots
            if device not in row and len(row) < instance.max_copies:
                row.append(device)
    return _solution(instance, rows)


def start(instance: Instance) -> Solution | None:
    """EPLB where it keeps to the nodes, else one copy each."""
    return eplb_hierarchical(instance) or longest_first(instance)


def _balanced(instance: Instance, groups: int, same_device: SameDevice) -> Solution:
    loads = _summed(instance)
    slots = instance.devices * instance.slots
    on_device = rebalance(
        loads, slots, groups, instance.nodes, instance.devices, instance.most_copies
    )
    exchange = same_device == "exchange"
    return _solution(instance, placed(on_device, loads, instance.devices_per_node, exchange))


def _summed(instance: Instance) -> list[int]:
    """Return the weighted sum of all windows' loads in tokens."""
    tokens = instance.weights @ (instance.loads_units // instance.units_per_token)
    found: list[int] = tokens.tolist()
    return found


def _solution(instance: Instance, rows: Sequence[Sequence[int]]) -> Solution:
    return Solution(instance=instance.name, copies=tuple(tuple(sorted(row)) for row in rows))


HEURISTICS: dict[str, Callable[..., Solution | None]] = {
    "eplb": eplb,
    "eplb-hierarchical": eplb_hierarchical,
    "flashlb": flashlb,
    "lplb": lplb,
    "longest-first": longest_first,
    "round-robin": round_robin,
}

WARM_START = start
"""The heuristic whose solution the exact methods start from."""
