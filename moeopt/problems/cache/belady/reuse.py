"""What retention is about: the accesses of every expert in order of time, and what a miss costs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moeopt.problems.cache.curves import Costs, Ints
from moeopt.problems.cache.instance import Instance

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Reuse:
    """The accesses of a trace, expert by expert and each expert's in order of time.

    Attributes
    ----------
    token
        Shape (accesses,): which token.
    first
        Shape (accesses,): whether it is the first of its expert.
    miss_ns
        Shape (accesses,): what computing takes longer if it is a miss; may be negative.
    fixed_ns
        What computing takes if every access hits.
    fetch_ns
        One fetch.
    tokens, slots
        Of the instance; between two tokens at most `slots` experts are kept.
    """

    token: Ints
    first: Flags
    miss_ns: Ints
    fixed_ns: int
    fetch_ns: int
    tokens: int
    slots: int


def reuse_of(instance: Instance, miss_share: float) -> Reuse:
    """Return the accesses of an instance, with a bound on computing that is linear in the misses.

    Parameters
    ----------
    miss_share
        About which share of the accesses of a lookup misses: there the bound is closest.
    """
    ids = instance.ids
    layer, token, slot = np.nonzero(ids >= 0)
    expert = layer * instance.experts + ids[layer, token, slot]
    order = np.lexsort((token, expert))
    layer, token, expert = layer[order], token[order], expert[order]
    first = np.ones(len(expert), dtype=np.bool_)
    first[1:] = expert[1:] != expert[:-1]
    used = (ids >= 0).sum(axis=2)
    slope = np.zeros(int(used.max()) + 1, dtype=np.int64)
    fixed_ns = 0
    for count, lookups in enumerate(np.bincount(used.ravel()).tolist()):
        at_none, slope[count] = supporting_line(instance.costs, count, count * miss_share)
        fixed_ns += lookups * at_none
    return Reuse(
        token=token.astype(np.int64),
        first=first,
        miss_ns=slope[used[layer, token]],
        fixed_ns=fixed_ns,
        fetch_ns=instance.fetch_ns,
        tokens=len(instance.accesses),
        slots=instance.slots,
    )


def supporting_line(costs: Costs, used: int, near: float) -> tuple[int, int]:
    """Return (value without misses, slope) of a line that is nowhere above a lookup's time.

    Parameters
    ----------
    costs, used
        The lookup of so many experts.
    near
        Number of misses at which the line is as high as slopes between two points let it be.
    """
    time_ns = [costs.lookup_ns(used - misses, misses) for misses in range(used + 1)]
    best = (min(time_ns), 0)
    for left in range(used):
        for right in range(left + 1, used + 1):
            slope = (time_ns[right] - time_ns[left]) // (right - left)
            at_none = min(time_ns[misses] - slope * misses for misses in range(used + 1))
            if at_none + slope * near > best[0] + best[1] * near:
                best = (at_none, slope)
    return best
