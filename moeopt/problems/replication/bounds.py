"""Lower bounds that need no solver, each with its proof, in integers."""

from math import gcd

import numpy as np

from moeopt.core.envelope import LARGEST_SUM

from .instance import Instance, Ints


def objective_grid(instance: Instance) -> int:
    """Return a number that every objective is a multiple of; 1 if nothing better is known.

    Even shares are multiples of a load over each number of copies; a free split is rounded up. A
    kernel takes whole numbers of readings or of tokens, where there are no links.
    """
    moves = instance.move_cost if instance.current is not None else 0
    if instance.work == "kernel":
        weights = gcd(*(int(weight) for weight in instance.weights))
        return gcd(weights * time_grid(instance), moves, instance.slot_cost)
    if instance.split == "free":
        return gcd(*(int(weight) for weight in instance.weights), moves)
    # Also of copies in several nodes, which a model without RP-C4 has.
    numbers = range(1, min(instance.max_copies, instance.devices) + 1)
    shares = [
        gcd(*(int(load) // copies for load in row for copies in numbers))
        for row in instance.loads_units
    ]
    weighted = (int(w) * share for w, share in zip(instance.weights, shares, strict=True))
    return gcd(*weighted, moves) or 1


def time_grid(instance: Instance) -> int:
    """Return a number that every device's kernel time is a multiple of."""
    if instance.links is not None:
        return 1
    return gcd(instance.read_ns or 0, instance.token_ns or 0, instance.pass_ns)


def has_room(instance: Instance) -> bool:
    """Tell whether there is any placement.

    Proof. Groups are equally large, so a node has room for as many as its slots allow, and one copy
    of each expert dealt to the devices in turn meets every other rule.
    """
    per_node = instance.devices_per_node * instance.slots // instance.group_size
    return instance.experts // instance.group_size <= instance.nodes * per_node


def lower_bound(instance: Instance) -> int:
    """Return the weighted sum of each window's own bound.

    Proof. One placement serves all windows and each by itself is at least its bound, see
    `window_bounds`; moves and slots cost nothing or more.
    """
    return int(instance.weights @ window_bounds(instance))


def window_bounds(instance: Instance) -> Ints:
    """Return a bound on the fullest device of each window alone, shape (windows,).

    Proof. (1) The fullest device has at least the mean of all devices. (2) Some device has at least
    an expert's load over its copies, since these are on different devices; for a peak T an expert
    of load l needs ceil(l / T) copies. If that is more than `most_copies` for some expert, or more
    than there are slots for all of them, or for those of a group and its node, T is refuted. What
    is not refuted is monotone in T, so that bisection finds the least.

    (3) With kernel times a device that reads n experts has room for so many tokens in T, a_g(n):
    computing, or reading and what tokens take besides, may take no longer. Experts with tokens need
    R copies that are read, each of a device's own room for one reading, so that for every price
    q >= 0 the tokens and q R together are at most the sum over devices of max_n a_g(n) + q n. These
    prices are what further readings take of the first device's room.
    """
    rows = instance.loads_units
    return np.array([_window_bound(instance, row) for row in rows], dtype=np.int64)


def _window_bound(instance: Instance, loads: Ints) -> int:
    total, kernel = int(loads.sum()), instance.work == "kernel"
    low = -(-total // instance.devices)
    high = max(low, int(loads.max()))
    if kernel:
        slowest = max(instance.scaled_token_ns)
        longest = total * slowest + instance.scaled_read_ns * len(loads)
        low, high = 0, (total > 0) * -(-longest // instance.scale)
    while low < high:
        middle = (low + high) // 2
        # Times are multiplied by the scale: with links they are rounded up to it.
        fits = kernel and _reachable(instance, loads, middle * instance.scale)
        if fits or (not kernel and _enough_slots(instance, _needed(loads, middle))):
            high = middle
        else:
            low = middle + 1
    return low


def _reachable(instance: Instance, loads: Ints, peak: int) -> bool:
    """Tell whether devices may serve all experts in a time; see `window_bounds`, (3)."""
    token = np.array(instance.scaled_token_ns, dtype=np.int64)[:, None]
    besides = np.array(instance.scaled_link_ns, dtype=np.int64)[:, None]
    read = instance.scaled_read_ns
    # Each expert that a device reads has a token there.
    numbers = np.minimum(np.arange(instance.slots + 1), peak // np.maximum(read + besides, token))
    most, total = int(numbers.max()), int(loads.sum())
    if most == 0:
        return False
    left = (peak - read * numbers) // np.maximum(1, besides)
    room = np.minimum(peak // token, np.where(besides > 0, left, total))
    needed = _needed(loads, int(room[:, 1].max()))
    copies = int(needed[loads > 0].sum())
    if not _enough_slots(instance, needed) or copies > int(numbers.max(axis=1).sum()):
        return False
    middle, first = copies // instance.devices, room[0].tolist()
    low, high = range(max(0, middle - 1), min(most, middle + 1)), range(middle + 1, middle + 3)
    prices = [(first[i] - first[j], j - i) for i in low for j in high if j <= most]
    prices += [(0, 1), (read, int(besides.min()))]
    return all(
        sum((each * room + price * numbers).max(axis=1).tolist()) >= each * total + price * copies
        for price, each in prices
        if price * most + each * total < LARGEST_SUM
    )


def _needed(loads: Ints, peak: int) -> Ints:
    """Return the copies that experts need so that none has more than a peak."""
    if peak == 0:
        return np.where(loads > 0, np.iinfo(np.int64).max // (len(loads) + 1), 1)
    return np.maximum(1, -(-loads // peak))


def _enough_slots(instance: Instance, needed: Ints) -> bool:
    """Tell whether the copies that are needed find slots, as far as their numbers say."""
    if needed.max() > instance.most_copies:
        return False
    of_group = needed.reshape(-1, instance.group_size).sum(axis=1)
    return bool(
        of_group.max() <= instance.devices_per_node * instance.slots
        and of_group.sum() <= instance.devices * instance.slots
    )


def share_times(instance: Instance) -> Ints:
    """Return the least that the copy with the most tokens takes, shape (windows, experts, copies).

    Of k copies, k from 1, one has at least the k-th part: in units, or ns on the cheapest device.
    """
    numbers = np.arange(1, instance.most_copies + 1)
    loads = instance.loads_units[:, :, None]
    if instance.work == "tokens":
        return loads // numbers
    largest = -(-loads // numbers)
    computed = largest * min(instance.scaled_token_ns)
    besides = largest * min(instance.scaled_link_ns)
    least = np.maximum(computed, instance.scaled_read_ns * (loads > 0) + besides)
    times: Ints = -(-least // instance.scale)
    return times


def peak_limits(instance: Instance) -> list[int]:
    """Return what no peak of a window is above: all its tokens on one device, in units or ns."""
    tokens: list[int] = instance.loads_units.sum(axis=1).tolist()
    if instance.work == "tokens":
        return tokens
    read, slowest = instance.scaled_read_ns * instance.slots, max(instance.scaled_token_ns)
    return [-(-(read + slowest * count) // instance.scale) for count in tokens]


def objective_limit(instance: Instance) -> int:
    """Return what no objective is above: all tokens on one device, and every copy paid."""
    total = int(instance.weights @ instance.loads_units.sum(axis=1))
    if instance.work == "kernel":
        read = int(instance.weights.sum()) * instance.scaled_read_ns * instance.slots
        slowest = max(instance.scaled_token_ns)
        total = -(-(read + slowest * total) // instance.scale) + int(instance.weights.sum())
    copies = instance.devices * instance.slots
    moves = instance.move_cost if instance.current is not None else 0
    return total + (moves + instance.slot_cost) * copies
