"""Other contents of the same ways, for comparison: first in, first out, and random ones.

CPU-GPU collaborative IV-D compares LRU with both. They are no plans: the problem's cache is LRU.
"""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb

from benchmarks.rooms.cache import Instance


@dataclass(frozen=True)
class Outcome:
    """What a policy does over the trace; expected values where contents are drawn at random."""

    hits: Fraction
    fetches: Fraction
    trace_ns: Fraction


def fifo(instance: Instance, ways: Sequence[int]) -> Outcome:
    """Serve the trace with first-in-first-out caches.

    Missing experts enter in the listed order after the lookup; a hit changes nothing.

    Parameters
    ----------
    instance, ways
        Ways of each layer.
    """
    hits = fetches = computed_ns = 0
    for layer, most in enumerate(ways):
        content: deque[int] = deque(maxlen=most)
        for token in instance.accesses:
            missing = [expert for expert in token[layer] if expert not in content]
            found = len(token[layer]) - len(missing)
            computed_ns += instance.costs.lookup_ns(found, len(missing))
            hits += found
            fetches += len(missing) if most else 0
            content.extend(missing)
    trace_ns = max(computed_ns, fetches * instance.fetch_ns)
    return Outcome(Fraction(hits), Fraction(fetches), Fraction(trace_ns))


def random_contents(instance: Instance, ways: Sequence[int]) -> Outcome:
    """Return what is expected of contents that are drawn at random once and then stay.

    A lookup of k of n experts finds h of them in M ways with probability
    C(M, h) C(n - M, k - h) / C(n, k). The paper's closed forms are two cases of it for k = 2:
    1 - P(h = 0) and P(h = 2). Nothing is fetched.
    """
    hits = computed_ns = Fraction(0)
    for layer, most in enumerate(ways):
        lookups = Counter(len(token[layer]) for token in instance.accesses)
        for used, times in lookups.items():
            for found in range(used + 1):
                chance = times * probability(instance.experts, most, used, found)
                hits += chance * found
                computed_ns += chance * instance.costs.lookup_ns(found, used - found)
    return Outcome(hits, Fraction(0), computed_ns)


def probability(experts: int, ways: int, used: int, found: int) -> Fraction:
    """Return the chance that a lookup of `used` experts finds so many in `ways` random ones."""
    return Fraction(comb(ways, found) * comb(experts - ways, used - found), comb(experts, used))
