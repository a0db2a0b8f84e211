"""Retention at a price: what each expert's accesses cost at least if keeping it is paid for."""

import numpy as np

from moeopt.numeric.compiled import compiled
from moeopt.problems.cache.curves import Ints

from .reuse import Flags

FAR = 2**62


@compiled
def retain(
    token: Ints, first: Flags, miss: Ints, fetch: int, price: Ints
) -> tuple[int, int, int, Ints]:
    """Return the least cost of all accesses, and the misses, fetches and kept experts it needs.

    Expert by expert, a chain of two states: an access is a hit if the expert was kept since the one
    before, else a miss. A kept stretch costs the prices between its ends, and a fetch if the access
    before it was a miss. Ties: fewer experts are kept.

    Parameters
    ----------
    token, first
        As in `Reuse`.
    miss, fetch
        Weighted costs of a miss, shape (accesses,), and of a fetch.
    price
        Shape (tokens - 1,): of keeping one expert from a token to the next, not negative.

    Returns
    -------
    tuple
        Cost; sum of nothing but misses; fetches; experts kept after each token, as `price`.
    """
    paid = np.zeros(len(price) + 1, np.int64)
    for t in range(len(price)):
        paid[t + 1] = paid[t] + price[t]
    hit_after_miss = np.zeros(len(token), np.bool_)
    miss_after_hit = np.zeros(len(token), np.bool_)
    change = np.zeros(len(price) + 1, np.int64)
    total = missing = fetches = 0
    begin = 0
    while begin < len(token):
        missed, hit, end = miss[begin], FAR, begin + 1
        while end < len(token) and not first[end]:
            hit_after_miss[end] = missed + fetch < hit
            miss_after_hit[end] = hit < missed
            kept = min(missed + fetch, hit) + paid[token[end]] - paid[token[end - 1]]
            missed = min(missed, hit) + miss[end]
            hit = kept
            end += 1
        total += min(missed, hit)
        is_hit = hit < missed
        for i in range(end - 1, begin, -1):
            if is_hit:
                change[token[i - 1]] += 1
                change[token[i]] -= 1
                fetches += hit_after_miss[i]
                is_hit = not hit_after_miss[i]
            else:
                missing += 1
                is_hit = miss_after_hit[i]
        missing += 1
        begin = end
    return total, missing, fetches, np.cumsum(change)[:-1]
