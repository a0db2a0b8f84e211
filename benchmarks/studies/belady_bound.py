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
objective is at least (p x computing + (q - p) x copying) / q, as in `lagrangian`. (5) Lagrangian
relaxation of the slots: for any multipliers m_t >= 0 per expert kept from token t to the next, add
the sum of m_t (kept_t - slots), which is not positive. What is left is a sum over experts without
anything in common, and `retain` minimises it for each in integers. So every weight and all
multipliers give a lower bound.

With the best multipliers it is that of the best retention at this weight: intervals on a line have
a totally unimodular matrix, so that nothing is lost (the tests compute the same by a flow of least
cost). Multipliers rise by a subgradient method.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.rooms.cache import Costs, Instance, Ints
from benchmarks.rooms.core import compiled

Flags = NDArray[np.bool_]

FAR = 2**62

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


@dataclass(frozen=True)
class Retention:
    """The bound of one weight and given multipliers, and what attains it.

    `misses`, `fetches` and `kept` (shape (tokens - 1,)) may overstep the slots, which are relaxed.
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
        Steps that improve multipliers and weight; each is one pass over the trace.

    Notes
    -----
    First one multiplier for all tokens and a weight, by bisection. Then subgradients: it rises
    where more than `slots` are kept, the weight towards the side that is later.
    """
    reuse = reuse_of(instance, _miss_share(instance))
    most = min(SCALE * int(reuse.miss_ns.max(initial=0)), LARGEST // reuse.tokens)
    p, multiplier, best = _level(reuse, most)
    multipliers = np.full(reuse.tokens - 1, float(multiplier))
    weight, reach, waited = float(p), 1.0, 0
    for _ in range(rounds):
        found = dual_function(reuse, round(weight), np.rint(multipliers).astype(np.int64))
        waited = 0 if found.bound_ns > best else waited + 1
        best = max(best, found.bound_ns)
        if waited == PATIENCE:
            reach, waited = reach * SHRINK, 0
        excess = (found.kept - reuse.slots).astype(np.float64)
        aim = best * (1 + AIM * reach) - found.bound_ns
        step = SCALE * aim / max(1.0, float(excess @ excess))
        multipliers = np.clip(multipliers + step * excess, 0, most)
        weight += WEIGHT_STEP * reach * np.sign(_lateness(reuse, found))
        weight = min(max(weight, 0.0), float(SCALE))
    return best


def dual_function(reuse: Reuse, p: int, multipliers: Ints) -> Retention:
    """Return the bound of a weight, p of `SCALE`, and multipliers, in integers."""
    fetch = (SCALE - p) * reuse.fetch_ns
    miss = p * reuse.miss_ns
    total, misses, fetches, kept = retain(reuse.token, reuse.first, miss, fetch, multipliers)
    weighted = int(total) + p * reuse.fixed_ns - reuse.slots * sum(multipliers.tolist())
    return Retention(-(-weighted // SCALE), int(misses), int(fetches), kept)


def _level(reuse: Reuse, most: int) -> tuple[int, int, int]:
    """Return about the best weight and one multiplier for all tokens, and their bound."""
    tried = list(_bisect_weight(reuse, most))
    bound, p, multiplier = max(tried)
    return p, multiplier, bound


def _bisect_weight(reuse: Reuse, most: int) -> Iterator[tuple[int, int, int]]:
    low, high = 0, SCALE
    while high - low > SCALE // 64:
        p = (low + high) // 2
        cheap, dear = 0, most
        while True:
            multiplier = (cheap + dear) // 2
            found = dual_function(reuse, p, np.full(reuse.tokens - 1, multiplier))
            yield found.bound_ns, p, multiplier
            if dear - cheap <= most // 256:
                break
            too_many = int(found.kept.sum()) > reuse.slots * (reuse.tokens - 1)
            cheap, dear = (multiplier, dear) if too_many else (cheap, multiplier)
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


@compiled
def retain(
    token: Ints, first: Flags, miss: Ints, fetch: int, multipliers: Ints
) -> tuple[int, int, int, Ints]:
    """Return the least cost of all accesses, and the misses, fetches and kept experts it needs.

    Expert by expert, a chain of two states: an access is a hit if the expert was kept since the one
    before, else a miss. A kept stretch costs the multipliers between its ends, and a fetch if the
    access before it was a miss. Ties: fewer experts are kept.

    Parameters
    ----------
    token, first
        As in `Reuse`.
    miss, fetch
        Weighted costs of a miss, shape (accesses,), and of a fetch.
    multipliers
        Shape (tokens - 1,): of keeping one expert from a token to the next, not negative.

    Returns
    -------
    tuple
        Cost; sum of nothing but misses; fetches; experts kept after each token, as `multipliers`.
    """
    paid = np.zeros(len(multipliers) + 1, np.int64)
    for t in range(len(multipliers)):
        paid[t + 1] = paid[t] + multipliers[t]
    hit_after_miss = np.zeros(len(token), np.bool_)
    miss_after_hit = np.zeros(len(token), np.bool_)
    change = np.zeros(len(multipliers) + 1, np.int64)
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
