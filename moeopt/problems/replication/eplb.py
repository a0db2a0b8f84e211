"""DeepSeek's published load balancer (EPLB): groups to nodes, copies in nodes, copies to devices.

Re-implemented from the description and the published behaviour of github.com/deepseek-ai/EPLB; the
arithmetic is in single precision there, so it is here, and ties go to the lower number. `rebalance`
decides exactly as published, also where that puts two copies of one expert on a device or more than
`max_copies`; `placed` makes a placement of it that the problem allows.

FlashLB, vllm-ascend's policy: numbers of copies and their devices decided together.

Re-implemented from the description of pull request 6477 of github.com/vllm-project/vllm-ascend and
its published behaviour. An expert's *risk* over the windows is its mean load plus `QUANTILE`
standard deviations; a device's is that of the sum of its copies, with their covariances. Experts
stand by falling risk in `DEPTH` groups. Group by group it is decided how many further copies go to
the group: numbers up to `WIDTH` off from what equal risk per copy would give are tried, each by
placing all copies, and the one whose mean over windows of peak over mean load is least is kept.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Singles = NDArray[np.float32]


def pack(weights: Singles, packs: int, room: int) -> list[list[int]]:
    """Put items into packs: by falling weight, each into the lightest one with room.

    With room for one item each they stay in order. Packs hold their items as they were added.
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

    There are `slots` of them in all, fewer where every expert has `most`.
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
    return rows_of(held, len(loads))


def rows_of(held: Sequence[Sequence[int]], experts: int) -> list[list[int]]:
    """Return the devices of each expert, by the experts of each device; -1 is none."""
    rows: list[list[int]] = [[] for _ in range(experts)]
    for device, here in enumerate(held):
        for expert in here:
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


QUANTILE = 0.674
"""Three quarters of a normal distribution's draws are below its mean plus this much."""

DEPTH, WIDTH = 4, 8

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def flashlb_counts_and_places(
    loads: Floats, devices: int, slots: int, most_copies: int
) -> list[list[int]]:
    """Return the experts on each device, by loads of shape (windows, experts)."""
    mean = loads.mean(axis=0)
    spread = np.zeros((len(mean), len(mean)))
    if len(loads) > 1:
        spread = np.atleast_2d(np.cov(loads, rowvar=False))
    risk = mean + QUANTILE * np.sqrt(np.diag(spread))
    order = np.argsort(-risk, kind="stable")
    group = -(-len(order) // DEPTH)
    left = devices * slots - len(order)
    counts = _history(risk, left, most_copies)[-1]
    for number in range(DEPTH - 1):
        current = order[number * group : (number + 1) * group]
        rest = order[(number + 1) * group :]
        if not left or not len(rest):
            break
        both = np.concatenate([current, rest])
        equal = int((_history(risk[both], left, most_copies)[-1][: len(current)] - 1).sum())
        of_current = _history(risk[current], left, most_copies)
        of_rest = _history(risk[rest], left, most_copies)
        tried = [equal, *(equal + s * d for d in range(1, WIDTH + 1) for s in (-1, 1))]
        best, least = 0, np.inf
        for extra in (extra for extra in tried if 0 <= extra <= left):
            counts[current], counts[rest] = of_current[extra], of_rest[left - extra]
            peak = _peak(loads, _places(mean, spread, counts, devices, slots), counts)
            if peak < least:
                best, least = extra, peak
        counts[current], counts[rest] = of_current[best], of_rest[left - best]
        left -= int((counts[current] - 1).sum())
    return _places(mean, spread, counts, devices, slots)


def _history(risk: Floats, extra: int, most: int) -> list[Ints]:
    """Return the numbers of copies with 0, 1, ... further ones, each where the risk is most."""
    counts = np.ones(len(risk), dtype=np.int64)
    found = [counts.copy()]
    for _ in range(extra):
        each = np.where(counts < most, risk / counts, -1.0)
        if each.max() >= 0:
            counts[int(np.argmax(each))] += 1
        found.append(counts.copy())
    return found


def _places(
    mean: Floats, spread: Floats, counts: Ints, devices: int, slots: int
) -> list[list[int]]:
    """Return the experts on each device: by falling load per copy, each where the risk is least.

    A copy goes to a device that holds it already only where no other has a slot.
    """
    held: list[list[int]] = [[] for _ in range(devices)]
    load, variance = np.zeros(devices), np.zeros(devices)
    # covariance[g, e]: of expert e with what device g holds.
    covariance = np.zeros((devices, len(mean)))
    full = np.zeros(devices, dtype=np.bool_)
    for e in np.argsort(-mean / counts, kind="stable").tolist():
        share, there = 1 / counts[e], np.zeros(devices)
        for _ in range(int(counts[e])):
            more = spread[e, e] * share**2 + 2 * share * covariance[:, e]
            risk = load + mean[e] * share + QUANTILE * np.sqrt(np.maximum(variance + more, 0))
            risk[full] = np.inf
            device = int(np.argmin(np.where(there > 0, 1e300, risk)))
            if full[device] or there[device]:
                device = int(np.argmin(risk))
            held[device].append(e)
            there[device] = 1
            load[device] += mean[e] * share
            variance[device] += more[device]
            covariance[device] += spread[e] * share
            full[device] = len(held[device]) == slots
    return held


def _peak(loads: Floats, held: list[list[int]], counts: Ints) -> float:
    """Return the mean over windows of the fullest device's load over the devices' mean."""
    shares = loads / counts
    of_device = np.array([shares[:, experts].sum(axis=1) for experts in held])
    return float((of_device.max(axis=0) / (of_device.mean(axis=0) + 1e-9)).mean())
