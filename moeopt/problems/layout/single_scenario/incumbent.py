"""The incumbent, and packing heuristics that may improve it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from moeopt.core.clock import spend
from moeopt.problems.layout.paths import Path

from .packing import longest_first, repair
from .scenario import LOCAL_READS, STRIPED_READS, Assignment, Branch, Ints, SingleScenario, Times

TRIALS_PER_UNIT = 100_000
"""Pairs of DIMMs that are filled again in a unit of work."""


@dataclass
class Incumbent:
    """The best assignment found.

    Attributes
    ----------
    scenario
        The scenario.
    upper
        Only makespans below this are of interest; the assignment's own if there is one.
    on_improvement
        Called with each better assignment and its makespan.
    seed
        Of the packings' random numbers; each packing draws anew.
    assignment
        The assignment, None if none below `upper` is known.
    """

    scenario: SingleScenario
    upper: int
    on_improvement: Callable[[Assignment, int], None]
    seed: int = 0
    assignment: Assignment | None = None

    def offer(self, path: Ints, experts: Ints, place: Ints) -> None:
        """Keep an assignment if it is better; its makespan is computed from itself alone.

        `place` is the DIMM of each of `experts`, where -1 stands for the localized reads.
        """
        dimm = np.full(self.scenario.experts, -1)
        place = self._spread(experts, place)
        dimm[experts[experts >= 0]] = place[experts >= 0]
        dimm[np.isin(path, LOCAL_READS)] = place[experts < 0]
        found = Assignment(path, dimm)
        makespan = found.makespan(self.scenario)
        if makespan < self.upper:
            self.upper, self.assignment = makespan, found
            self.on_improvement(found, makespan)

    def items_of(self, path: Ints, *, reads_first: bool = False) -> tuple[Times, Ints]:
        """Return what the DIMMs hold if the experts run so: sizes, falling, and experts.

        With `reads_first` localized reads, expert -1, stand before all others.
        """
        experts = np.flatnonzero(path == Path.NDP)
        reads = int(np.isin(path, LOCAL_READS).sum())
        experts = np.concatenate([experts, np.full(reads, -1)])
        sizes = np.where(experts < 0, self.scenario.local_read, self.scenario.ndp[experts])
        order = np.lexsort([-sizes, experts >= 0] if reads_first else [-sizes])
        return sizes[order], experts[order]

    def pack(self, path: Ints, makespan: int, trials: int) -> bool:
        """Pack what the DIMMs hold if the experts run so; return whether the makespan is kept."""
        sizes, experts = self.items_of(path)
        dimms, slots = self.scenario.dimms, self.scenario.slots
        if len(sizes) > dimms * slots:
            return False
        place = longest_first(sizes, dimms, slots)
        branch = Branch(int(np.isin(path, STRIPED_READS).sum()), 0)
        capacity = self.scenario.dimm_capacity(branch, makespan)
        draws = np.random.default_rng(self.seed).integers(2**62, size=(trials, 3))
        self.seed += 1
        done = repair(sizes, place, dimms, slots, capacity, draws)
        spend(trials / TRIALS_PER_UNIT)
        self.offer(path, experts, place)
        return bool(done) and self.upper <= makespan

    def _spread(self, experts: Ints, place: Ints) -> Ints:
        """Renumber the DIMMs so that no channel has many of the localized reads (LA-C8).

        The DIMMs with most of them first, each goes to a channel with fewest so far.
        """
        scenario = self.scenario
        reads = np.bincount(place[experts < 0], minlength=scenario.dimms)
        if not scenario.channels or not reads.any():
            return place
        number, of_channel = np.empty_like(reads), np.zeros(scenario.channels, dtype=np.int64)
        free = [np.flatnonzero(scenario.channel == c).tolist() for c in range(scenario.channels)]
        for dimm in np.argsort(-reads, kind="stable").tolist():
            channel = min(
                (c for c in range(scenario.channels) if free[c]), key=of_channel.__getitem__
            )
            number[dimm] = free[channel].pop(0)
            of_channel[channel] += reads[dimm]
        return np.asarray(number[place])
