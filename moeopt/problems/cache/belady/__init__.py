"""The `belady` bound: what no retention policy could beat with all slots shared by all layers.

Belady's rule knows the future; so does this bound. It is reported as a bound and never as a plan: a
retention may keep any `slots` experts from one token to the next, whatever their layers, and may
pass by an expert without fetching it.

Proof. Take any ways and the LRU caches that they give. (1) An access that hits found its expert in
the cache ever since the access before: call that stretch kept. After each token the layers' caches
hold at most the sum of the ways, so at most `slots` stretches are kept at a time. (2) The time of a
lookup is at least its supporting line, so computing takes at least `fixed_ns` plus `miss_ns` of
every miss. (3) A stretch whose first access was a miss needs a fetch there, one for each such run
of stretches, so the runs take no more copying than the plan's fetches. (4) For weights p of q the
objective is at least (p x computing + (q - p) x copying) / q, as in `weighting`. (5) For any prices
m_t >= 0 per expert kept from token t to the next, add the sum of m_t (kept_t - slots), which is not
positive. What is left is a sum over experts without anything in common, and `retain` minimises it
for each in integers. So every weight and all prices give a lower bound.

With the best prices it is that of the best retention at this weight: intervals on a line have a
totally unimodular matrix, so that nothing is lost (`flow` computes the same by a flow, for tests).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from moeopt.problems.cache.curves import Ints
from moeopt.problems.cache.instance import Instance

from .prices import retain
from .reuse import Reuse, reuse_of

__all__ = ["Retention", "belady_bound", "priced"]

SCALE = 2**10
"""What a weight is a part of; with `MAX_TRACE_NS` all sums stay within 60 bits."""

LARGEST = 2**61

ROUNDS = 120
PATIENCE = 8
"""Rounds without a better bound before the steps shrink."""

SHRINK = 0.6
AIM = 0.02
"""Steps aim at first at a bound this much better than the best one."""

WEIGHT_STEP = 4.0


@dataclass(frozen=True)
class Retention:
    """The bound of one weight and given prices, and what attains it.

    `misses`, `fetches` and `kept` (shape (tokens - 1,)) may overstep the slots: prices are soft.
    """

    bound_ns: int
    misses: int
    fetches: int
    kept: Ints


def belady_bound(instance: Instance, rounds: int = ROUNDS) -> int:
    """Return a lower bound in ns on the trace's time under any retention policy, so of any ways.

    Parameters
    ----------
    instance
        The whole trace is known.
    rounds
        Steps that improve prices and weight; each is one pass over the trace.

    Notes
    -----
    First one price for all tokens and a weight, by bisection. Then subgradients: the price rises
    where more than `slots` are kept, the weight towards the side that is later.
    """
    reuse = reuse_of(instance, _miss_share(instance))
    most = min(SCALE * int(reuse.miss_ns.max(initial=0)), LARGEST // reuse.tokens)
    p, price, best = _level(reuse, most)
    prices = np.full(reuse.tokens - 1, float(price))
    weight, reach, waited = float(p), 1.0, 0
    for _ in range(rounds):
        found = priced(reuse, round(weight), np.rint(prices).astype(np.int64))
        waited = 0 if found.bound_ns > best else waited + 1
        best = max(best, found.bound_ns)
        if waited == PATIENCE:
            reach, waited = reach * SHRINK, 0
        excess = (found.kept - reuse.slots).astype(np.float64)
        aim = best * (1 + AIM * reach) - found.bound_ns
        step = SCALE * aim / max(1.0, float(excess @ excess))
        prices = np.clip(prices + step * excess, 0, most)
        weight += WEIGHT_STEP * reach * np.sign(_lateness(reuse, found))
        weight = min(max(weight, 0.0), float(SCALE))
    return best


def priced(reuse: Reuse, p: int, price: Ints) -> Retention:
    """Return the bound of a weight, p of `SCALE`, and prices, in integers."""
    fetch = (SCALE - p) * reuse.fetch_ns
    total, misses, fetches, kept = retain(reuse.token, reuse.first, p * reuse.miss_ns, fetch, price)
    weighted = int(total) + p * reuse.fixed_ns - reuse.slots * sum(price.tolist())
    return Retention(-(-weighted // SCALE), int(misses), int(fetches), kept)


def _level(reuse: Reuse, most: int) -> tuple[int, int, int]:
    """Return a weight and one price for all tokens that are about the best, and their bound."""
    tried = list(_bisect_weight(reuse, most))
    bound, p, price = max(tried)
    return p, price, bound


def _bisect_weight(reuse: Reuse, most: int) -> Iterator[tuple[int, int, int]]:
    low, high = 0, SCALE
    while high - low > SCALE // 64:
        p = (low + high) // 2
        cheap, dear = 0, most
        while True:
            price = (cheap + dear) // 2
            found = priced(reuse, p, np.full(reuse.tokens - 1, price))
            yield found.bound_ns, p, price
            if dear - cheap <= most // 256:
                break
            too_many = int(found.kept.sum()) > reuse.slots * (reuse.tokens - 1)
            cheap, dear = (price, dear) if too_many else (cheap, price)
        low, high = (p, high) if _lateness(reuse, found) > 0 else (low, p)


def _lateness(reuse: Reuse, found: Retention) -> float:
    """Return by how much computing exceeds copying, about: a miss counts as the average one."""
    per_miss = float(reuse.miss_ns.mean()) if len(reuse.miss_ns) else 0.0
    return reuse.fixed_ns + found.misses * per_miss - found.fetches * float(reuse.fetch_ns)


def _miss_share(instance: Instance) -> float:
    """Return the share of misses if every layer has the same number of ways."""
    curves = instance.curves
    used = int(curves.hits[:, -1].sum() + curves.fetches[:, -1].sum())
    share = min(instance.slots // instance.layers, instance.experts)
    return 1 - int(curves.hits[:, share].sum()) / used if used else 0.0
