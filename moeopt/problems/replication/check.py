"""The checker: copies, slots, nodes, loads and moves. Written first; knows no solvers."""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import pairwise

from .instance import Instance
from .solution import Solution

CONSTRAINTS = {
    "RP-C1": "every expert has a copy, and at most max_copies",
    "RP-C2": "a device holds at most as many copies as it has slots",
    "RP-C3": "no device holds two copies of one expert",
    "RP-C4": "all copies of a group lie within one node",
    "RP-C5": "every device has the tokens of its copies, at most as many as the fullest one",
    "RP-C6": "every copy that is not there now costs move_cost",
}

OBJECTIVE = ("peak_load_units",)
"""What is minimised; a unit is 1 / lcm(1..max_copies) of a token."""

Found = Iterator[tuple[str, str]]


def violations(
    instance: Instance, solution: Solution, peak_load_units: int | None = None
) -> list[tuple[str, str]]:
    """Return what is wrong with a solution, as (constraint ID, sentence); empty if it is valid.

    Parameters
    ----------
    instance, solution
        The problem and the decision to check.
    peak_load_units
        The objective claimed for the solution, if there is a claim: RP-C5 and RP-C6 hold it to
        what its loads and its moves come to.
    """
    found = list(_shape(instance, solution))
    found += _slots(instance, solution)
    found += _nodes(instance, solution)
    if peak_load_units is not None:
        found += _below(instance, solution, peak_load_units)
    return found


def objective(instance: Instance, solution: Solution) -> int:
    """Return the weighted sum of the fullest devices' loads and the cost of moves, in units."""
    return peaks_units(instance, solution) + moves_units(instance, solution)


def peaks_units(instance: Instance, solution: Solution) -> int:
    """Return the sum over windows of weight times the load of the fullest device, in units."""
    of_window = zip(instance.windows, device_loads(instance, solution), strict=True)
    return sum(window.weight * max(loads) for window, loads in of_window)


def moves_units(instance: Instance, solution: Solution) -> int:
    """Return what the copies cost that are not there now."""
    return instance.move_cost * len(moved(instance, solution))


def moved(instance: Instance, solution: Solution) -> list[tuple[int, int]]:
    """Return the copies that are not there now, as (expert, device); none without `current`."""
    if instance.current is None:
        return []
    rows = zip(_fitting(instance, solution), instance.current, strict=True)
    return [
        (e, device) for e, (ours, now) in enumerate(rows) for device in ours if device not in now
    ]


def device_loads(instance: Instance, solution: Solution) -> list[list[int]]:
    """Return the load of every device in every window, in units.

    With an even split each copy of an expert has an equal share, rounded up where an invalid
    solution has more copies than `max_copies`. With a free one, loads are those of a split whose
    fullest device has least. Experts without copies are left out, and so are devices that do not
    exist.
    """
    copies = [
        [device for device in row if device < instance.devices]
        for row in _fitting(instance, solution)
    ]
    found = []
    for window in instance.windows:
        units = [load * instance.units_per_token for load in window.loads]
        if instance.split == "free":
            found.append(free_split(units, copies, instance.devices))
            continue
        loads = [0] * instance.devices
        for load, row in zip(units, copies, strict=True):
            for device in row:
                loads[device] += -(-load // len(row))
        found.append(loads)
    return found


def free_split(supply: Sequence[int], copies: Sequence[Sequence[int]], devices: int) -> list[int]:
    """Return device loads in units whose largest is the least possible: one window, free split.

    Experts send their units to the devices that hold a copy. With T units of room on every device
    all fit if and only if for every set R of devices the experts that have no copy elsewhere have
    at most T |R| units (max-flow min-cut). So the least T is the largest such mean, rounded up:
    capacities and supplies are integers, and then there is an integral flow.

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
            for (_, device), (pushed, _) in pairwise(path):
                step = min(step, flow[device][pushed])
            room[path[-1][1]] -= step
            for number, (expert, device) in enumerate(path):
                flow[device][expert] = flow[device].get(expert, 0) + step
                if number + 1 < len(path):
                    flow[device][path[number + 1][0]] -= step
            left -= step
    return [sum(of.values()) for of in flow]


def _fitting(instance: Instance, solution: Solution) -> list[tuple[int, ...]]:
    """Return one row per expert of the instance."""
    missing = instance.experts - len(solution.copies)
    return [*solution.copies[: instance.experts], *[()] * missing]


def _shape(instance: Instance, solution: Solution) -> Found:
    if len(solution.copies) != instance.experts:
        yield "RP-C1", f"copies has {len(solution.copies)} rows for {instance.experts} experts"
    for expert, row in enumerate(solution.copies):
        if not 1 <= len(row) <= instance.max_copies:
            yield (
                "RP-C1",
                f"expert {expert} has {len(row)} copies, not 1 to {instance.max_copies}",
            )
        if len(set(row)) < len(row):
            yield "RP-C3", f"expert {expert} has two copies on one device"


def _slots(instance: Instance, solution: Solution) -> Found:
    held = [0] * instance.devices
    for expert, row in enumerate(solution.copies):
        for device in row:
            if device >= instance.devices:
                have = f"there are {instance.devices}"
                yield "RP-C2", f"expert {expert} has a copy on device {device}, {have}"
            else:
                held[device] += 1
    for device, count in enumerate(held):
        if count > instance.slots:
            yield "RP-C2", f"device {device} holds {count} copies in {instance.slots} slots"


def _nodes(instance: Instance, solution: Solution) -> Found:
    if instance.nodes == 1:
        return
    size = instance.group_size
    for first in range(0, len(solution.copies), size):
        rows = solution.copies[first : first + size]
        nodes = {device // instance.devices_per_node for row in rows for device in row}
        if len(nodes) > 1:
            who = (
                f"experts {first} to {first + size - 1} have" if size > 1 else f"expert {first} has"
            )
            yield "RP-C4", f"{who} copies in nodes {', '.join(map(str, sorted(nodes)))}"


def _below(instance: Instance, solution: Solution, claim: int) -> Found:
    """Name what a claim below the objective leaves out: the loads, the moves, or both."""
    loads, moves = peaks_units(instance, solution), moves_units(instance, solution)
    if loads + moves <= claim:
        return
    if loads > claim or moves == 0:
        yield "RP-C5", f"the fullest devices have {loads} units, the claim is {claim}"
    if moves and (loads <= claim or moves > claim):
        yield "RP-C6", f"with moves for {moves} it is {loads + moves} units, the claim is {claim}"


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
