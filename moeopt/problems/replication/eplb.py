"""DeepSeek's published load balancer (EPLB): groups to nodes, copies in nodes, copies to devices.

Re-implemented from the description and the published behaviour of github.com/deepseek-ai/EPLB; the
arithmetic is in single precision there, so it is here, and ties go to the lower number. `rebalance`
decides exactly as published, also where that puts two copies of one expert on a device or more than
`max_copies`; `placed` makes a placement of it that the problem allows.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Singles = NDArray[np.float32]


def pack(weights: Singles, packs: int, room: int) -> list[list[int]]:
    """Put items into packs: by falling weight, each into the lightest one with room.

    With room for one item each they stay in order.

    Parameters
    ----------
    weights
        Of the items, shape (items,).
    packs, room
        How many packs, and how many items each has room for.

    Returns
    -------
    list
        The items of each pack, as they were added.
    """
    found: list[list[int]] = [[] for _ in range(packs)]
    if room == 1:
        for item in range(len(weights)):
            found[item].append(item)
        return found
    total = np.zeros(packs, dtype=np.float32)
    open_packs = np.zeros(packs, dtype=np.float32)
    for item in np.argsort(-weights, kind="stable").tolist():
        lightest = int(np.argmin(total + open_packs))
        found[lightest].append(item)
        total[lightest] += weights[item]
        if len(found[lightest]) == room:
            open_packs[lightest] = np.inf
    return found


def replicate(weights: Singles, slots: int, most: int) -> list[int]:
    """Return the number of copies of each expert: each one more where a copy has the most.

    Parameters
    ----------
    weights
        Of the experts, shape (experts,).
    slots
        How many copies there are to be; fewer where every expert has `most`.
    most
        Most copies of one expert.
    """
    counts = np.ones(len(weights), dtype=np.float32)
    each = weights.copy()
    for _ in range(slots - len(weights)):
        each[counts >= most] = -1
        fullest = int(np.argmax(each))
        if each[fullest] < 0:
            break
        counts[fullest] += 1
        each[fullest] = weights[fullest] / counts[fullest]
    return counts.astype(np.int64).tolist()


def rebalance(
    loads: Sequence[int], slots: int, groups: int, nodes: int, devices: int, most: int | None = None
) -> list[list[int]]:
    """Return the experts on each device; one that stands twice has two copies there.

    Parameters
    ----------
    loads
        Of the experts.
    slots, devices, nodes, groups
        All slots, a multiple of the devices, which are a multiple of the nodes. With groups that
        are no multiple of the nodes, there is one group and one node.
    most
        Most copies of one expert; None: any number, as published.
    """
    if groups % nodes:
        groups = nodes = 1
    of_group = np.array(loads, dtype=np.float32).reshape(groups, -1).sum(axis=1, dtype=np.float32)
    return within_nodes(loads, pack(of_group, nodes, groups // nodes), groups, slots, devices, most)


def within_nodes(
    loads: Sequence[int],
    members: Sequence[Sequence[int]],
    groups: int,
    slots: int,
    devices: int,
    most: int | None = None,
) -> list[list[int]]:
    """Return the experts on each device, as `rebalance`, for given `members`: groups by node."""
    weights, nodes = np.array(loads, dtype=np.float32), len(members)
    size, per_node, room = len(loads) // groups, devices // nodes, slots // devices
    on_device: list[list[int]] = []
    for of_node in members:
        experts = [group * size + number for group in of_node for number in range(size)]
        if not experts:
            on_device += [[] for _ in range(per_node)]
            continue
        own = weights[experts]
        counts = replicate(own, slots // nodes, slots if most is None else most)
        copies = list(range(len(experts)))
        copies += _added(own, counts)
        shares = np.asarray(own / np.array(counts, dtype=np.float32), dtype=np.float32)[copies]
        for held in pack(shares, per_node, room):
            on_device.append([experts[copies[item]] for item in held])
    return on_device


def _added(weights: Singles, counts: Sequence[int]) -> list[int]:
    """Return the experts of all copies but the first ones in the order in which they were added."""
    order = [
        (-weights[expert] / np.float32(count), expert)
        for expert, most in enumerate(counts)
        for count in range(1, most)
    ]
    return [expert for _, expert in sorted(order)]


def placed(
    on_device: Sequence[Sequence[int]], loads: Sequence[int], per_node: int, exchange: bool
) -> list[list[int]]:
    """Return the devices of each expert's copies, no two of them the same.

    Parameters
    ----------
    on_device
        The experts on each device.
    loads
        Of the experts.
    per_node
        Consecutive devices that make up a node.
    exchange
        Whether a second copy on a device changes places with another expert's copy in the node, the
        one that leaves the fuller of the two devices with the least; else, and where that is not
        possible, there is one copy less.
    """
    held = [list(experts) for experts in on_device]
    counts = [0] * len(loads)
    for experts in held:
        for expert in experts:
            counts[expert] += 1
    for device, experts in enumerate(held):
        for place, expert in enumerate(experts):
            if expert not in experts[:place]:
                continue
            best = _exchange(held, device, place, loads, counts, per_node) if exchange else None
            if best is None:
                counts[expert] -= 1
                experts[place] = -1
            else:
                other, at = best
                experts[place], held[other][at] = held[other][at], expert
    rows: list[list[int]] = [[] for _ in loads]
    for device, experts in enumerate(held):
        for expert in experts:
            if expert >= 0:
                rows[expert].append(device)
    return rows


def _exchange(
    held: Sequence[Sequence[int]],
    device: int,
    place: int,
    loads: Sequence[int],
    counts: Sequence[int],
    per_node: int,
) -> tuple[int, int] | None:
    """Return the device and the place there that a copy had best change places with."""

    def load(experts: Sequence[int]) -> float:
        return sum(loads[expert] / counts[expert] for expert in experts if expert >= 0)

    mine, expert = held[device], held[device][place]
    share, here = loads[expert] / counts[expert], load(mine)
    best, fuller = None, 0.0
    first = device // per_node * per_node
    for other in range(first, first + per_node):
        if other == device or expert in held[other]:
            continue
        there = load(held[other])
        for at, theirs in enumerate(held[other]):
            if theirs < 0 or theirs in mine:
                continue
            gained = loads[theirs] / counts[theirs] - share
            after = max(here + gained, there - gained)
            if best is None or after < fuller:
                best, fuller = (other, at), after
    return best
