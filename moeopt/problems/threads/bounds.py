"""Lower bounds: average, largest part, pigeonhole, and a linear program over grains.

All but the pigeonhole refute a makespan T: they show that no solution ends by then. A solution that
ends before T also ends by T, so whatever is refuted, T + 1 is a bound.
"""

from math import gcd

import numpy as np
from numpy.typing import NDArray

from .instance import Instance

Integers = NDArray[np.int64] | NDArray[np.object_]

SAFE = 2**62
"""Products below this stay in int64; else Python's integers are taken."""

SHARES = 8
"""Prices of the linear program are tried in steps of one over this."""

MOST_TOGETHER = 3
"""Long parts are those of which at most so many different experts' fit on a thread, or fewer."""

ABSENT = -1
"""Stands for a part of a grain that does not exist."""


class Refuter:
    """What no makespan below can be: the necessary conditions of `formulations/threads/spec.md`.

    Attributes
    ----------
    least_ns
        The bound of the pigeonhole.
    """

    def __init__(self, instance: Instance) -> None:
        self.threads = instance.threads
        # Nothing that is multiplied is above the horizon, T included.
        factors = SHARES * MOST_TOGETHER * (instance.threads + 1)
        most = (instance.horizon_ns + 1) * factors * 2
        large = most * max(len(instance.experts), 1) >= SAFE
        kind = object if large else np.int64
        self.parts: Integers = np.array(instance.grains, dtype=kind)[None, :]
        self.load: Integers = np.array([e.load_ns for e in instance.experts], dtype=kind)[:, None]
        pulled = [
            [ABSENT if part is None else part + instance.pull_ns for part in expert.part_ns]
            for expert in instance.experts
        ]
        table: Integers = np.array(pulled, dtype=kind)
        self.there = table != ABSENT
        self.pulled: Integers = np.where(self.there, table, 0)
        self.bundle: Integers = self.pulled + self.load
        self.least_ns = self._pigeonhole()

    def average_refutes(self, makespan_ns: int) -> bool:
        """Tell whether work, or a single part, is too much for a makespan.

        Proof. At most floor((T - load) / (part + pull)) parts of an expert fit on a thread beside
        their load, so it touches as many threads as that takes, each with a load. All work is
        within M T.
        """
        work, able = self._work(makespan_ns)[1:]
        if not able.any(axis=1).all():
            return True
        return bool(_least(work, able).sum() > self.threads * makespan_ns)

    def prices_refute(self, makespan_ns: int, together: int, share: int) -> bool:
        """Tell whether the linear program over grains is infeasible, by one pair of prices.

        Proof. A thread's work is at most T. Of experts whose part with its load is longer than
        T / (j + 1) at most j touch one thread: j + 1 of them would take more than T. So a thread's
        (1 - s) work / T + s (long ones) / j is at most 1, and all threads' at most M. Each expert
        adds at least the least over its grains, with the fewest threads that it can touch. Both
        sides are multiplied by T j and by the denominator of s.

        Parameters
        ----------
        together
            j, from 1 to `MOST_TOGETHER`.
        share
            s in steps of 1 / `SHARES`.
        """
        touched, work, able = self._work(makespan_ns)
        if not able.any(axis=1).all():
            return True
        long = (together + 1) * self.bundle > makespan_ns
        priced = (SHARES - share) * together * work
        priced = priced + np.where(long, share * makespan_ns * touched, 0)
        most = SHARES * together * makespan_ns * self.threads
        return bool(_least(priced, able).sum() > most)

    def _work(self, makespan_ns: int) -> tuple[Integers, Integers, NDArray[np.bool_]]:
        """Return the fewest threads that each grain touches, its work, and whether a part fits."""
        able = self.there & (self.bundle <= makespan_ns)
        room = makespan_ns - self.load
        fit = np.where(self.pulled > 0, room // np.maximum(self.pulled, 1), self.parts)
        fit = np.maximum(fit, 1)
        touched = -(-self.parts // fit)
        return touched, self.parts * self.pulled + touched * self.load, able

    def _pigeonhole(self) -> int:
        """Return the bound by experts that have to share a thread.

        Proof. Of j M + 1 experts some j + 1 share a thread, each with one part and its load at
        least. Taking the longest experts, these take at least as long as the j + 1 shortest.
        """
        shortest = _least(self.bundle, self.there)
        longest = sorted(map(int, shortest), reverse=True)
        best, number = longest[0], 1
        while number * self.threads < len(longest):
            last = number * self.threads + 1
            best = max(best, sum(longest[last - number - 1 : last]))
            number += 1
        return best


def _least(values: Integers, able: NDArray[np.bool_]) -> Integers:
    """Return the least of each row's values that are able; those that are not do not count."""
    most = values.max() + 1
    return np.where(able, values, most).min(axis=1)  # type: ignore[no-any-return]


def lower_bound(instance: Instance) -> int:
    """Return a bound on every solution: the largest one by the conditions of `Refuter`.

    Proof: each condition has its own. Every makespan is a multiple of `objective_grid`, so a bound
    rounds up.
    """
    refuter = Refuter(instance)
    high = max(instance.horizon_ns, refuter.least_ns)
    low = refuter.least_ns
    # Least makespan that the average allows: work falls as T rises, so bisection finds it.
    while low < high:
        middle = (low + high) // 2
        if refuter.average_refutes(middle):
            low = middle + 1
        else:
            high = middle
    best = low
    for together in range(1, MOST_TOGETHER + 1):
        if together * instance.threads >= len(instance.experts) * max(instance.grains):
            break
        for share in range(1, SHARES + 1):
            best = _raised(refuter, best, together, share)
    grid = objective_grid(instance)
    return -(-best // grid) * grid


def _raised(refuter: Refuter, bound: int, together: int, share: int) -> int:
    """Return a bound that is at least as high, by one pair of prices.

    Not every makespan below one that is refuted is refuted by the same prices; it need not be.
    """
    step = max(bound // 16, 1)
    while step:
        if refuter.prices_refute(bound + step - 1, together, share):
            bound += step
        else:
            step //= 2
    return bound


def objective_grid(instance: Instance) -> int:
    """Return a number that every makespan is a multiple of: the times' greatest common divisor."""
    times = [expert.load_ns for expert in instance.experts]
    times += [
        part + instance.pull_ns
        for expert in instance.experts
        for part in expert.part_ns
        if part is not None
    ]
    return gcd(*times) or 1
