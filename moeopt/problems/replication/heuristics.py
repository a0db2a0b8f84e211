"""The runtimes' rules and the baselines; each says what its source leaves unsaid.

They see the sum of all windows' loads with their weights; `flashlb` sees the windows one by one.
Where tokens' shares are decided too, copies have equal ones unless a rule says otherwise.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from .bounds import has_room
from .dispatch import linear_shares, shared_evenly, single_copies, static_shares
from .eplb import flashlb_counts_and_places, pack, placed, rebalance, rows_of
from .instance import Instance, Solution

SameDevice = Literal["exchange", "drop"]

MAX_EXCHANGES, WORTH_MOVING = 100, 0.99
"""SwiftBalancer's exchanges at most, and what the heaviest device's load has to fall to."""


def eplb(instance: Instance, same_device: SameDevice = "exchange") -> Solution | None:
    """DeepSeek's global policy: copies to whoever has most per copy, then the lightest device.

    Source: github.com/deepseek-ai/EPLB, the policy for decoding. It may put two copies on one
    device: assumption `same_device`. Knows no nodes: no solution where there are more than one.
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
    if instance.split == "even":
        return None
    plan = eplb(instance, same_device)
    return plan and linear_shares(instance, plan.copies)


def static_split(instance: Instance, same_device: SameDevice = "exchange") -> Solution | None:
    """Solve the program of `lplb` once, on all windows' sum: each copy has its part in each.

    Source: github.com/HYGON-AI/sglang-das, pull request 386 (static probabilities of copies). For
    instances whose solutions have shares.
    """
    if not instance.has_shares:
        return None
    plan = eplb(instance, same_device)
    return plan and static_shares(instance, plan.copies)


def metro(instance: Instance, same_device: SameDevice = "exchange") -> Solution | None:
    """METRO: copies of `eplb`, all of an expert's tokens to the copy whose device reads fewest.

    Source: Yu, Ma et al., arXiv:2512.09277: experts that are read are balanced, not tokens. The
    order of experts is not said: fewest copies first, then most tokens. For instances whose
    solutions have shares.
    """
    if not instance.has_shares:
        return None
    plan = eplb(instance, same_device)
    return plan and single_copies(instance, plan.copies)


def eplb_without_copies(instance: Instance) -> Solution | None:
    """EPLB with as many slots as experts: by falling load to the lightest device with room.

    Source: github.com/deepseek-ai/EPLB; each device has room for equally many experts, rounded up.
    Knows no nodes.
    """
    if instance.nodes > 1 or not has_room(instance):
        return None
    loads = np.array(_summed(instance), dtype=np.float32)
    held = pack(loads, instance.devices, -(-instance.experts // instance.devices))
    return _solution(instance, rows_of(held, instance.experts))


def biased(instance: Instance) -> Solution | None:
    """Put the experts with the most tokens on every device, the others once, longest first.

    Source: github.com/ROCm/ATOM, pull request 1210 (``biased``). With n slots beyond one per expert
    and at most m copies, n // (m - 1) experts have m; with m below the devices, on the lightest
    ones. Knows no nodes.
    """
    if instance.nodes > 1 or not has_room(instance):
        return None
    loads, most = _summed(instance), instance.most_copies
    spare = instance.devices * instance.slots - instance.experts
    hot = min(spare // max(1, most - 1), instance.experts) if most > 1 else 0
    order = sorted(range(instance.experts), key=lambda e: (-loads[e], e))
    held: list[list[int]] = [[] for _ in range(instance.devices)]
    total = [0.0] * instance.devices
    for number, expert in enumerate(order):
        copies = most if number < hot else 1
        room = [d for d in range(instance.devices) if len(held[d]) < instance.slots]
        for device in sorted(room, key=lambda d: (total[d], d))[:copies]:
            held[device].append(expert)
            total[device] += loads[expert] / copies
    return _solution(instance, rows_of(held, instance.experts))


def swift_balancer(instance: Instance) -> Solution | None:
    """SwiftBalancer: few moves from where copies lie, at most one between two devices.

    Source: vllm-ascend, ``policy_swift_balancer`` (pull requests 24069 and 37656 of vLLM). The
    first copy of each expert stays; the slots of the others are given out anew, each to the expert
    with the most tokens per copy, on the lightest device that has not received from the first
    copy's. Then the heaviest device exchanges experts with lighter ones as long as its load falls
    by a hundredth, one exchange a pair. Devices keep their numbers of copies. No solution without
    `current`, with nodes, or where experts lie nowhere.
    """
    if instance.current is None or instance.nodes > 1 or not all(instance.current):
        return None
    loads, devices = _summed(instance), range(instance.devices)
    now, first = instance.current, [row[0] for row in instance.current]
    slots = [sum(device in row for row in now) for device in devices]
    if max(slots) > instance.slots:
        return None
    left = [slots[device] - first.count(device) for device in devices]
    rows = [[device] for device in first]
    received: set[tuple[int, int]] = set()

    def share(expert: int) -> float:
        return loads[expert] / len(rows[expert])

    def total(device: int) -> float:
        return sum(share(e) for e, row in enumerate(rows) if device in row)

    for _ in range(sum(left)):
        for expert in sorted(range(len(rows)), key=lambda e: (-share(e), e)):
            source = first[expert]
            free = [
                device
                for device in devices
                if left[device]
                and device not in rows[expert]
                and (device in now[expert] or (source, device) not in received)
            ]
            if free and len(rows[expert]) < instance.max_copies:
                device = min(free, key=lambda d: (total(d), d))
                rows[expert].append(device)
                left[device] -= 1
                if device not in now[expert]:
                    received.add((source, device))
                break
    _exchanged(rows, loads, devices, received)
    return _solution(instance, rows)


def topology_swaps(instance: Instance) -> Solution | None:
    """Exchanges that make tokens' ways cheaper, from one copy each, within a small loss of balance.

    Source: sgl-project/sglang, pull request 37923: from the default placement, without copies,
    swaps that lower communication; the busiest rank's load may rise by a fiftieth. No solution
    without links or with nodes.
    """
    start = eplb_without_copies(instance)
    if start is None or instance.links is None:
        return None
    loads, way = _summed(instance), instance.scaled_link_ns
    where = [row[0] for row in start.copies]
    total = [0] * instance.devices
    for expert, device in enumerate(where):
        total[device] += loads[expert]
    most = max(total) * 51 // 50
    improved = True
    while improved:
        improved = False
        for a in range(instance.experts):
            for b in range(a):
                differ, gain = loads[a] - loads[b], way[where[a]] - way[where[b]]
                cheaper = differ * gain > 0
                if cheaper and max(total[where[a]] - differ, total[where[b]] + differ) <= most:
                    total[where[a]] -= differ
                    total[where[b]] += differ
                    where[a], where[b] = where[b], where[a]
                    improved = True
    return _solution(instance, [[device] for device in where])


def flashlb(instance: Instance) -> Solution | None:
    """FlashLB: copies and places at once, for each device's mean load + 0.674 standard deviations.

    Source: vllm-ascend, pull request 6477 (`eplb.py` has the steps). Knows no nodes: no solution
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
    of_group, held = loads.reshape(-1, size).sum(axis=1), []
    fair = -(-len(of_group) // instance.nodes)
    for members in pack(of_group, instance.nodes, min(per_node, max(2, fair))):
        experts = [group * size + number for group in members for number in range(size)]
        on_device = pack(loads[experts], instance.devices_per_node, instance.slots)
        held += [[experts[item] for item in items] for items in on_device]
    return _solution(instance, rows_of(held, instance.experts))


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


def _exchanged(
    rows: list[list[int]], loads: list[int], devices: range, received: set[tuple[int, int]]
) -> None:
    """Let the heaviest device exchange experts with lighter ones; `rows` is changed."""
    share = [load / len(row) for load, row in zip(loads, rows, strict=True)]
    held = [[e for e, row in enumerate(rows) if device in row] for device in devices]
    for _ in range(MAX_EXCHANGES):
        total = [sum(share[e] for e in experts) for experts in held]
        heavy = max(devices, key=lambda d: (total[d], -d))
        best: tuple[float, int, int, int] | None = None
        for light in devices:
            if light == heavy or {(heavy, light), (light, heavy)} & received:
                continue
            for a in held[heavy]:
                for b in held[light]:
                    if a in held[light] or b in held[heavy]:
                        continue
                    differ = share[a] - share[b]
                    after = max(total[heavy] - differ, total[light] + differ)
                    if best is None or after < best[0]:
                        best = after, light, a, b
        if best is None or best[0] > WORTH_MOVING * total[heavy]:
            return
        _, light, a, b = best
        received.add((heavy, light))
        for expert, source, target in ((a, heavy, light), (b, light, heavy)):
            held[source].remove(expert)
            held[target].append(expert)
            rows[expert][rows[expert].index(source)] = target


def _summed(instance: Instance) -> list[int]:
    """Return the weighted sum of all windows' loads in tokens."""
    tokens = instance.weights @ (instance.loads_units // instance.units_per_token)
    found: list[int] = tokens.tolist()
    return found


def _solution(instance: Instance, rows: Sequence[Sequence[int]]) -> Solution:
    return shared_evenly(instance, [sorted(row) for row in rows])


WARM_START = start
"""The heuristic whose solution the exact methods start from."""
