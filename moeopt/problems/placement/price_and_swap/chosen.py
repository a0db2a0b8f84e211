"""The best experts for the GPU if each has a value of its own, and a lower bound on their sum."""

import numpy as np

from moeopt.problems.placement.layer_steps import Flags, Ints
from moeopt.problems.placement.room import Room, cheapest_ns

from .kernels import Floats


def chosen(value: Ints, room: Room) -> tuple[int, Floats]:
    """Return a lower bound on the summed value of any placement, and who attains it or nearly.

    Parameters
    ----------
    value
        What each expert on the GPU costs, shape (layers, experts); negative where it gains.

    Returns
    -------
    int, Floats
        The second from 0 to 1: with sizes one expert may be there in part.

    Notes
    -----
    Proof for equal counts: with n experts in each layer the sum is at least that of the n cheapest
    of each. Only those n count that some choice of n experts per layer can fit into the room. For
    the rest, and for whole layers, see `cheapest_ns`.
    """
    bound, _ = cheapest_ns(value, room)
    if room.restriction == "equal-counts":
        equal, wanted = _equal_counts(value, room)
        if equal >= bound:
            return equal, wanted
    return bound, _in_order(value, room)


def allowed(value: Ints, room: Room, most: int) -> tuple[Flags, Flags]:
    """Return who can be on the GPU, and who off it, if the values sum to at most `most`.

    Notes
    -----
    Proof. With the price p of `cheapest_ns`, the sum of any placement is at least that bound, plus
    |value + p size| of each expert on the side that the bound does not choose. With equal counts it
    is also, for its own n, at least the n cheapest of each layer; an expert beyond these that is on
    the GPU replaces the n-th cheapest, and one of them that is off is replaced by the next one.
    """
    bound, price = cheapest_ns(value, room)
    worth = value + price * room.sizes
    near = np.abs(worth) <= most - bound
    on, off = (worth < 0) | near, (worth >= 0) | near
    if bound > most:
        on, off = np.zeros_like(on), np.zeros_like(off)
    if room.restriction == "equal-counts":
        on_too, off_too = _allowed_by_counts(value, room, most)
        return on & on_too, off & off_too
    return on, off


def _allowed_by_counts(value: Ints, room: Room, most: int) -> tuple[Flags, Flags]:
    ranked, counts, sums = _by_count(value, room)
    on, off = np.zeros(value.shape, dtype=bool), np.zeros(value.shape, dtype=bool)
    for n in counts.tolist():
        if n > 0:
            on |= sums[n] + np.maximum(0, value - ranked[:, [n - 1]]) <= most
        if n < value.shape[1]:
            off |= sums[n] + np.maximum(0, ranked[:, [n]] - value) <= most
    return on, off


def _by_count(value: Ints, room: Room) -> tuple[Ints, Ints, Ints]:
    """Return values ranked by layer, the counts that can fit, and the least sum of every count."""
    ranked, small = np.sort(value, axis=1), np.sort(room.sizes, axis=1)
    sums, fewest, largest = (
        np.concatenate([[0], rows.cumsum(axis=1).sum(axis=0)])
        for rows in (ranked, small, small[:, ::-1])
    )
    counts = np.flatnonzero((fewest <= room.most) & (largest >= room.least))
    return ranked, counts, sums


def _equal_counts(value: Ints, room: Room) -> tuple[int, Floats]:
    _, counts, sums = _by_count(value, room)
    if not len(counts):  # nothing is feasible: any bound is right
        return int(np.iinfo(np.int64).min), np.zeros(value.shape)
    count = int(counts[sums[counts].argmin()])
    order = np.argsort(value, axis=1, kind="stable")
    wanted = np.zeros(value.shape)
    np.put_along_axis(wanted, order[:, :count], 1.0, axis=1)
    return int(sums[count]), wanted


def _in_order(value: Ints, room: Room) -> Floats:
    """Take experts by value per slot, as far as they gain and there is room, and as many as due."""
    sizes = room.sizes.ravel()
    order = np.argsort(value.ravel() / sizes, kind="stable")
    gaining = int(sizes[value.ravel() < 0].sum())
    limit = max(room.least, min(room.most, gaining))
    before = np.cumsum(sizes[order]) - sizes[order]
    wanted = np.zeros(len(sizes))
    wanted[order] = np.clip((limit - before) / sizes[order], 0, 1)
    return wanted.reshape(value.shape)
