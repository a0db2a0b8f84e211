"""Lower bounds that need no solver, each with its proof."""

from math import gcd

import numpy as np

from .instance import Instance, Ints


def objective_grid(instance: Instance) -> int:
    """Return a number that every objective is a multiple of; 1 if nothing better is known.

    Even shares are multiples of a load over each number of copies; a free split is rounded up.
    """
    moves = instance.move_cost if instance.current is not None else 0
    if instance.split == "free":
        return gcd(*(int(weight) for weight in instance.weights), moves)
    shares = [
        gcd(*(int(load) // copies for load in row for copies in range(1, instance.most_copies + 1)))
        for row in instance.loads_units
    ]
    weighted = (int(w) * share for w, share in zip(instance.weights, shares, strict=True))
    return gcd(*weighted, moves) or 1


def lower_bound(instance: Instance) -> int:
    """Return the weighted sum of each window's own bound.

    Proof. One placement serves all windows and each by itself is at least its bound, see
    `window_bounds`; moves cost nothing or more.
    """
    return int(instance.weights @ window_bounds(instance))


def window_bounds(instance: Instance) -> Ints:
    """Return a bound on the fullest device of each window alone, in units, shape (windows,).

    Proof. (1) The fullest device has at least the mean of all devices. (2) Some device has at least
    an expert's load over its copies, since these are on different devices; for a peak T an expert
    of load l needs ceil(l / T) copies. If that is more than `most_copies` for some expert, or more
    than there are slots for all of them, or for those of a group and its node, T is refuted. What
    is not refuted is monotone in T, so that bisection finds the least.
    """
    return np.array([_window_bound(instance, row) for row in instance.loads_units], dtype=np.int64)


def _window_bound(instance: Instance, loads: Ints) -> int:
    low = max(-(-int(loads.sum()) // instance.devices), 0)
    high = max(low, int(loads.max()))
    while low < high:
        middle = (low + high) // 2
        if _enough_slots(instance, loads, middle):
            high = middle
        else:
            low = middle + 1
    return low


def _enough_slots(instance: Instance, loads: Ints, peak: int) -> bool:
    """Tell whether the copies that a peak needs find slots, as far as their numbers say."""
    if peak == 0:
        return not loads.any() and instance.experts <= instance.devices * instance.slots
    needed = np.maximum(1, -(-loads // peak))
    if needed.max() > instance.most_copies:
        return False
    if instance.nodes == 1:
        return int(needed.sum()) <= instance.devices * instance.slots
    of_group = needed.reshape(-1, instance.group_size).sum(axis=1)
    return bool(
        of_group.max() <= instance.devices_per_node * instance.slots
        and of_group.sum() <= instance.devices * instance.slots
    )


def has_room(instance: Instance) -> bool:
    """Tell whether there is any placement.

    Proof. Groups are equally large, so a node has room for as many as its slots allow, and one copy
    of each expert dealt to the devices in turn meets every other rule.
    """
    if instance.nodes == 1:
        return instance.experts <= instance.devices * instance.slots
    per_node = instance.devices_per_node * instance.slots // instance.group_size
    return instance.experts // instance.group_size <= instance.nodes * per_node
