"""The checker: copies, slots, nodes, loads, moves and shares. Written first; knows no solvers.

Brute force: every placement there is, and every share, for the checker to compare.

Written from the spec's text; it calls nothing but the checker.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise, product
from math import comb, prod

from .instance import Instance, Shares, Solution

CONSTRAINTS = {
    "RP-C1": "every expert has a copy, and at most max_copies",
    "RP-C2": "a device holds at most as many copies as it has slots",
    "RP-C3": "no device holds two copies of one expert",
    "RP-C4": "all copies of a group lie within one node",
    "RP-C5": "every device has the tokens of its copies, at most as many as the fullest one",
    "RP-C6": "every copy that is not there now costs move_cost",
    "RP-C7": "with kernel times and a free split, an expert's shares are its tokens in each window",
    "RP-C8": "every copy beyond one per expert costs slot_cost",
}

OBJECTIVE = ("peak_load_units",)
"""What is minimised; a unit is 1 / lcm(1..max_copies) of a token. Kernel times: ``peak_ns``."""

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
        The objective claimed for the solution, if there is a claim: RP-C5, RP-C6 and RP-C8 hold it
        to what its loads, its moves and its copies come to.
    """
    found = list(_shape(instance, solution))
    found += _slots(instance, solution)
    found += _nodes(instance, solution)
    found += _shares(instance, solution)
    if peak_load_units is not None:
        found += _below(instance, solution, peak_load_units)
    return found


def objective(instance: Instance, solution: Solution) -> int:
    """Return the weighted sum of the fullest devices' loads or times, and the costs of copies."""
    paid = moves_units(instance, solution) + slots_ns(instance, solution)
    return peaks_units(instance, solution) + paid


def slots_ns(instance: Instance, solution: Solution) -> int:
    """Return what copies beyond one per expert cost."""
    beyond = sum(max(0, len(row) - 1) for row in _fitting(instance, solution))
    return instance.slot_cost * beyond


def peaks_units(instance: Instance, solution: Solution) -> int:
    """Return the sum over windows of weight times the load of the fullest device.

    In units; with kernel times that of the slowest device's time, in ns.
    """
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
    """Return the load of every device in every window, in units; with kernel times its ns.

    With an even split each copy of an expert has an equal share, rounded up where an invalid
    solution has more copies than `max_copies`. With a free one, loads are those of a split whose
    fullest device has least. Experts without copies are left out, and so are devices that do not
    exist.
    """
    copies = [
        [device for device in row if device < instance.devices]
        for row in _fitting(instance, solution)
    ]
    if instance.work == "kernel":
        return [
            device_times(instance, copies, tokens)
            for tokens in tokens_of_copies(instance, copies, solution.shares)
        ]
    found = []
    for window in instance.windows:
        units = [load * instance.units_per_token for load in window.loads]
        if instance.split == "free":
            flow = free_flow(units, copies, instance.devices)
            found.append([sum(of.values()) for of in flow])
            continue
        loads = [0] * instance.devices
        for load, row in zip(units, copies, strict=True):
            for device in row:
                loads[device] += -(-load // len(row))
        found.append(loads)
    return found


def tokens_of_copies(
    instance: Instance, copies: Sequence[Sequence[int]], shares: Shares | None
) -> list[list[list[int]]]:
    """Return the tokens of each copy by window and expert, with kernel times.

    With an even split each copy of an expert with l tokens and c copies gets l // c, and the first
    l % c of them by device number one more. With a free one shares say; what they lack is 0.
    """
    if instance.split == "even":
        return [
            [even_shares(load, row) for load, row in zip(window.loads, copies, strict=True)]
            for window in instance.windows
        ]
    return [
        [
            [_at(shares, w, expert, place) for place in range(len(row))]
            for expert, row in enumerate(copies)
        ]
        for w in range(len(instance.windows))
    ]


def even_shares(load: int, devices: Sequence[int]) -> list[int]:
    """Return each copy's tokens: equally many, and one more on the devices of lowest number."""
    if not devices:
        return []
    order = sorted(range(len(devices)), key=lambda place: devices[place])
    found = [load // len(devices)] * len(devices)
    for place in order[: load % len(devices)]:
        found[place] += 1
    return found


def device_times(
    instance: Instance, copies: Sequence[Sequence[int]], tokens: Sequence[Sequence[int]]
) -> list[int]:
    """Return the time of each device in one window, in ns.

    Reading the weights of each expert that has a token there, or computing all tokens, whichever
    takes longer, and what each token takes besides. Where there are links, the tokens' way there is
    added, rounded up: each device sends an equal part of them.
    """
    here, read = [0] * instance.devices, [0] * instance.devices
    for row, of_expert in zip(copies, tokens, strict=True):
        for device, count in zip(row, of_expert, strict=True):
            here[device] += count
            read[device] += count > 0
    read_ns, token_ns = instance.read_ns or 0, instance.token_ns or 0
    times = []
    for device in range(instance.devices):
        time = max(read_ns * read[device], token_ns * here[device])
        time += instance.pass_ns * here[device]
        if instance.links is not None:
            way = here[device] * sum(row[device] for row in instance.links)
            time += -(-way // instance.devices)
        times.append(time)
    return times


def free_flow(
    supply: Sequence[int], copies: Sequence[Sequence[int]], devices: int
) -> list[dict[int, int]]:
    """Return what each device takes of each expert in the best free split of one window.

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
        return [{} for _ in range(devices)]
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
    return flow


def _at(shares: Shares | None, window: int, expert: int, place: int) -> int:
    """Return a share; 0 where there is none."""
    if shares is None or window >= len(shares) or expert >= len(shares[window]):
        return 0
    return shares[window][expert][place] if place < len(shares[window][expert]) else 0


def _shares(instance: Instance, solution: Solution) -> Found:
    """Hold shares to the tokens of each expert; other instances have none."""
    shares = solution.shares
    if not instance.has_shares:
        if shares is not None:
            yield "RP-C7", "shares go with kernel times and a free split only"
        return
    if shares is None or len(shares) != len(instance.windows):
        have = "no" if shares is None else str(len(shares))
        yield "RP-C7", f"shares has {have} windows for {len(instance.windows)}"
        return
    for w, (window, rows) in enumerate(zip(instance.windows, shares, strict=True)):
        if len(rows) != instance.experts:
            yield "RP-C7", f"shares[{w}] has {len(rows)} rows for {instance.experts} experts"
        for expert, (load, row, copies) in enumerate(
            zip(window.loads, rows, solution.copies, strict=False)
        ):
            if len(row) != len(copies):
                said = f"has {len(row)} entries for {len(copies)} copies"
                yield "RP-C7", f"shares[{w}][{expert}] {said}"
            elif sum(row) != load:
                yield "RP-C7", f"shares[{w}][{expert}] are {sum(row)} tokens, not {load}"


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
    """Name what a claim below the objective leaves out: loads, moves, slots, or several."""
    loads, moves = peaks_units(instance, solution), moves_units(instance, solution)
    slots, unit = slots_ns(instance, solution), "ns" if instance.work == "kernel" else "units"
    total = loads + moves + slots
    if total <= claim:
        return
    if loads > claim or moves + slots == 0:
        yield "RP-C5", f"the fullest devices have {loads} {unit}, the claim is {claim}"
    for rule, what, cost in (("RP-C6", "moves", moves), ("RP-C8", "slots", slots)):
        if cost and (loads <= claim or cost > claim):
            yield rule, f"with {what} for {cost} it is {total} {unit}, the claim is {claim}"


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


MAX_CANDIDATES = 2**16


def count(instance: Instance) -> int:
    """Return how many placements there are; with shares to decide, how many shares all have."""
    sizes = range(1, min(instance.max_copies, instance.devices) + 1)
    if not instance.has_shares:
        return int(sum(comb(instance.devices, k) for k in sizes) ** instance.experts)
    return sum(
        prod(
            sum(comb(instance.devices, k) * comb(load + k - 1, k - 1) for k in sizes)
            for load in window.loads
        )
        for window in instance.windows
    )


def candidates(instance: Instance) -> Iterator[Solution]:
    """Yield every choice of devices for each expert, valid or not: that is for the checker to say.

    Only two copies of one expert on a device, and no copies at all, are left out. With kernel times
    and a free split each comes with the best of all shares: windows do not share tokens, so that
    each window's are tried by themselves.
    """
    devices, most = range(instance.devices), min(instance.max_copies, instance.devices)
    rows = [row for size in range(1, most + 1) for row in combinations(devices, size)]
    for copies in product(rows, repeat=instance.experts):
        shares = None
        if instance.has_shares:
            shares = tuple(_best(instance, window.loads, copies) for window in instance.windows)
        yield Solution.model_construct(
            problem="replication", instance=instance.name, copies=copies, shares=shares
        )


def _best(
    instance: Instance, loads: tuple[int, ...], copies: tuple[tuple[int, ...], ...]
) -> tuple[tuple[int, ...], ...]:
    """Return the shares of one window whose slowest device is the fastest."""
    each = [list(_parts(load, len(row))) for load, row in zip(loads, copies, strict=True)]
    return min(product(*each), key=lambda shares: max(device_times(instance, copies, shares)))


def _parts(load: int, copies: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to share out tokens over copies."""
    if copies == 1:
        yield (load,)
        return
    for first in range(load + 1):
        for rest in _parts(load - first, copies - 1):
            yield (first, *rest)
