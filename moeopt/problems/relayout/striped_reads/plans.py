"""Plans: what may become of all the experts of one DIMM together, and of a striped expert alone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd

import numpy as np
from numpy.typing import NDArray

from moeopt.algorithms.labels import undominated
from moeopt.problems.relayout.migrations import link_use
from moeopt.problems.relayout.modes import Mode, Modes

Ints = NDArray[np.int64]

GPU, CPU, PCIE, LINK, PREFETCHES, READS = range(6)
"""What a plan uses of whatever DIMMs share. Further columns are one per threshold: how many of its
experts are brought elsewhere for at least that long, less those that its DIMM takes in."""

SHARED = 6

MAX_PLANS = 20_000
"""Per DIMM; more are not listed."""

MAX_OFFERS = 5_000
"""Of what a DIMM may take in."""

MAX_PAIRS = 20_000_000
"""Of a plan and an offer."""

NEVER = 2**60
"""Longer than any slack."""


class TooManyError(Exception):
    """There are more plans, offers or labels than are worth listing."""


@dataclass(frozen=True)
class Plans:
    """All plans of one group of experts, one row each.

    Attributes
    ----------
    rows
        The experts: those of one DIMM, or one striped expert.
    dimm
        The DIMM that can take in others, -1 if there is none.
    uses
        Shape (plans, `SHARED` + thresholds).
    load
        Shape (plans,): time on the DIMM itself.
    needs
        Shape (plans, experts): how long the expert keeps the DIMM busy where it is brought, 0 if it
        is brought nowhere or takes no time there.
    modes
        Shape (plans, experts): which of its modes each expert takes.
    """

    rows: tuple[int, ...]
    dimm: int
    uses: Ints
    load: Ints
    needs: Ints
    modes: Ints

    def __len__(self) -> int:
        return len(self.load)

    def fitting(self, capacity: int) -> "Plans":
        """Return the plans that fit into what every DIMM has left beside the striped reads."""
        longest = self.needs.max(axis=1, initial=0)
        return self.only((self.load <= capacity) & (longest <= capacity))

    def only(self, kept: NDArray[np.bool_] | Ints) -> "Plans":
        """Return some of the plans."""
        return replace(
            self,
            uses=self.uses[kept],
            load=self.load[kept],
            needs=self.needs[kept],
            modes=self.modes[kept],
        )


@dataclass(frozen=True)
class Limits:
    """How much of each shared resource there is, in the columns of `Plans.uses`.

    Attributes
    ----------
    link_step_ns
        DIMM-Link time is counted in steps of this many ns.
    link, prefetches
        Of link time and of prefetches.
    """

    link_step_ns: int
    link: int
    prefetches: int

    @classmethod
    def of(cls, modes: Modes) -> "Limits":
        """Return the limits of an instance on migrations."""
        use = link_use(modes.instance)
        step = gcd(use.relayout_ns, use.rebalance_ns) or 1
        return cls(step, use.window_ns // step, modes.prefetches)

    def vector(self, modes: Modes, makespan: int, reads: int, thresholds: int) -> Ints:
        """Return the limit of each column for one makespan and one number of striped reads."""
        hosts = [makespan - modes.base, makespan, makespan]
        shared = [*hosts, self.link, self.prefetches, reads]
        return np.array(shared + [0] * thresholds, dtype=np.int64)


def tabulate(modes: Modes, limits: Limits) -> list[Plans]:
    """Return the plans of every DIMM and of every striped expert."""
    at: dict[int, list[int]] = {dimm: [] for dimm in range(modes.dimms)}
    for row in modes.rows:
        at.setdefault(modes.dimm[row], []).append(row)
    striped = at.pop(-1, [])
    groups = list(at.items()) + [(-1, [row]) for row in striped]
    return [_plans(modes, limits, dimm, rows) for dimm, rows in groups]


def _plans(modes: Modes, limits: Limits, dimm: int, rows: Sequence[int]) -> Plans:
    """Return the choices of modes of a group's experts that windows and slots allow alone.

    Left out are those that another one replaces, whatever DIMMs have room for.
    """
    nothing = np.zeros((1, 0), dtype=np.int64)
    start = np.zeros((1, SHARED), dtype=np.int64), np.zeros(1, dtype=np.int64)
    plans = Plans(tuple(rows), dimm, *start, nothing, nothing)
    for row in rows:
        of = modes.of[row]
        if len(plans) * len(of) > 20 * MAX_PLANS:
            raise TooManyError
        plan, choice = np.divmod(np.arange(len(plans) * len(of)), len(of))
        uses = np.array([_uses(modes, limits, mode) for mode in of], dtype=np.int64)
        stays, arrives = np.array([(mode.stays, mode.arrives or 0) for mode in of]).T
        plans = plans.only(plan)
        plans = replace(
            plans,
            uses=plans.uses + uses[choice],
            load=plans.load + stays[choice],
            needs=np.column_stack([plans.needs, arrives[choice]]),
            modes=np.column_stack([plans.modes, choice]),
        )
        fits = plans.uses[:, LINK] <= limits.link
        plans = plans.only(fits & (plans.uses[:, PREFETCHES] <= limits.prefetches))
        kinds = np.column_stack([plans.uses, plans.load, np.sort(plans.needs, axis=1)])
        plans = plans.only(undominated(kinds, READS))
        if len(plans) > MAX_PLANS:
            raise TooManyError
    return plans


def _uses(modes: Modes, limits: Limits, mode: Mode) -> list[int]:
    link = modes.link_ns(mode) // limits.link_step_ns
    return [mode.gpu, mode.cpu, mode.pcie, link, int(mode.kind == "prefetch"), mode.reads]


@dataclass(frozen=True)
class Offers:
    """What a DIMM may take in, told by thresholds only.

    A set of experts is told by how many of them are at least as long as each threshold, and takes
    at least the room of as many experts of just the thresholds' lengths.

    Attributes
    ----------
    thresholds
        Shape (thresholds,): lengths, rising.
    room, upgrade
        Shape (offers,): the room that each takes, and the least more of the next greater ones.
    counts
        Shape (offers, thresholds): how many experts are at least as long as each.
    """

    thresholds: Ints
    room: Ints
    upgrade: Ints
    counts: Ints

    @classmethod
    def of(cls, thresholds: Sequence[int], most: int, capacity: int) -> "Offers":
        """Return all offers of at most so many experts that some DIMM may have room for."""
        lengths = np.array(sorted(thresholds), dtype=np.int64)
        counts = np.zeros((1, len(lengths)), dtype=np.int64)
        steps = np.diff(lengths, prepend=0)  # one more of a level is one more of all below it
        for level in range(len(lengths)):
            number = np.arange(most + 1)
            chosen = np.repeat(counts, len(number), axis=0)
            chosen[:, level] = np.tile(number, len(counts))
            fits = chosen @ steps <= capacity
            if level:
                fits &= chosen[:, level] <= chosen[:, level - 1]
            counts = chosen[fits]
            if len(counts) > MAX_OFFERS:
                raise TooManyError
        below = np.column_stack([np.full(len(counts), most), counts[:, :-1]])[:, : len(lengths)]
        upgrade = np.where(counts < below, steps, NEVER).min(axis=1, initial=NEVER)
        return cls(lengths, counts @ steps, upgrade, counts)

    def applied(self, plans: Plans, capacity: int) -> Plans:
        """Return plans that fit into a DIMM's capacity with what it can take in beside.

        Left out are offers that another one exceeds: then one greater step up fits as well.
        """
        needs = (plans.needs[:, :, None] >= self.thresholds).sum(axis=1)
        if plans.dimm < 0 or not len(self.thresholds):
            return replace(plans, uses=np.column_stack([plans.uses, needs]))
        slack = capacity - plans.load[:, None]
        if slack.size * len(self.room) > MAX_PAIRS:
            raise TooManyError
        plan, offer = np.nonzero((self.room <= slack) & (self.room + self.upgrade > slack))
        net = needs[plan] - self.counts[offer]
        return replace(plans.only(plan), uses=np.column_stack([plans.uses[plan], net]))
