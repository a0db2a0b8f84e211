"""The best split of one window's tokens over given copies, as a flow; integers throughout.

Experts send their units to the devices that hold a copy. With T units of room on every device all
fit if and only if for every set R of devices the experts that have no copy elsewhere have at most
T |R| units (max-flow min-cut). So the least T is the largest such mean, rounded up: capacities and
supplies are integers, and then there is an integral flow.
"""

import itertools
from collections import deque
from collections.abc import Sequence


def free_split(supply: Sequence[int], copies: Sequence[Sequence[int]], devices: int) -> list[int]:
    """Return device loads in units whose largest is the least possible.

    Augmenting paths fill the devices up to T, which starts at a lower bound. Where no path is left,
    the devices that were reached are a set R as above that is too small for T, and T rises to its
    mean. Every T is a lower bound, so that the last one is the least.

    Parameters
    ----------
    supply
        Units of each expert.
    copies
        The devices of its copies. Experts without any are left out.
    devices
        How many devices there are.
    """
    active = [e for e, where in enumerate(copies) if where and supply[e]]
    if not active:
        return [0] * devices
    least = max(-(-supply[e] // len(set(copies[e]))) for e in active)
    peak = max(least, -(-sum(supply[e] for e in active) // devices))
    flow: list[dict[int, int]] = [{} for _ in range(devices)]
    room = [peak] * devices
    for e in sorted(active, key=lambda e: len(copies[e])):
        left = supply[e]
        while left:
            path, reached = _path(e, copies, flow, room)
            if path is None:
                inside = sum(supply[f] for f in active if reached.issuperset(copies[f]))
                higher = -(-inside // len(reached))
                room = [free + higher - peak for free in room]
                peak = higher
                continue
            # On a path expert, device, expert, ...: what each earlier expert may push further on.
            step = min(left, room[path[-1][1]])
            for (_, device), (pushed, _) in itertools.pairwise(path):
                step = min(step, flow[device][pushed])
            room[path[-1][1]] -= step
            for number, (expert, device) in enumerate(path):
                flow[device][expert] = flow[device].get(expert, 0) + step
                if number + 1 < len(path):
                    flow[device][path[number + 1][0]] -= step
            left -= step
    return [sum(of.values()) for of in flow]


def _path(
    start: int, copies: Sequence[Sequence[int]], flow: Sequence[dict[int, int]], room: Sequence[int]
) -> tuple[list[tuple[int, int]] | None, set[int]]:
    """Return the shortest path to a device with room, as (expert, device) steps; and what it saw.

    Each step sends the expert's units to the device; the next one's expert gives way there.
    """
    before: dict[int, tuple[int, int | None]] = {}
    queue: deque[tuple[int, int | None]] = deque([(start, None)])
    seen = {start}
    while queue:
        expert, at = queue.popleft()
        for device in copies[expert]:
            if device in before:
                continue
            before[device] = (expert, at)
            if room[device] > 0:
                path: list[tuple[int, int]] = []
                here: int | None = device
                while here is not None:
                    sender, earlier = before[here]
                    path.append((sender, here))
                    here = earlier
                return path[::-1], set(before)
            for other, units in flow[device].items():
                if units and other not in seen:
                    seen.add(other)
                    queue.append((other, device))
    return None, set(before)
