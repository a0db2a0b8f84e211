"""Packing the DIMMs: longest first, then two DIMMs at a time are emptied and filled again.

The incumbent, and packing heuristics that may improve it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from moeopt.core.clock import spend
from moeopt.core.compiled import part, short
from moeopt.problems.layout.paths import LOCAL_READS, STRIPED_READS, Path

from .scenario import Assignment, Branch, SingleScenario, Times

Ints = NDArray[np.int64]

NODES = 4000
"""Subsets looked at when two DIMMs are filled again."""


def longest_first(sizes: Ints, bins: int, slots: int) -> Ints:
    """Put each item into the least loaded bin with a free slot; `sizes` fall, the slots suffice."""
    free = [(0, b, slots) for b in range(bins)]
    place = []
    for size in sizes.tolist():
        load, b, left = heappop(free)
        place.append(b)
        if left > 1:
            heappush(free, (load + size, b, left - 1))
    return np.array(place, dtype=np.int64)


@short(2**14)
def repair(
    sizes: Ints, place: Ints, load: Ints, slots: int, capacity: int, draws: Ints, own: Ints
) -> bool:
    """Change `place` until no bin is above `capacity`; return whether that succeeded.

    `draws` has three random numbers from 0 to 2**62 for each trial; more than 2000 trials can take
    too long for one call. Each trial takes two bins, the fullest three times out of four, and
    divides their items anew (`divide`). A division is taken if the larger load does not grow, so
    that contents change even where loads cannot: the next trials see other subsets.

    Parameters
    ----------
    load
        The bins' loads, which follow the changes.
    own
        For own use, shape (5, items + 1).
    """
    bins = len(load)
    for trial in range(len(draws) + 1):
        a = 0
        for other in range(1, bins):
            if load[other] > load[a]:
                a = other
        if load[a] <= capacity:
            return True
        if bins == 1 or trial == len(draws):
            break
        if trial % 4 == 3:
            a = draws[trial, 0] % bins
        b = (a + 1 + draws[trial, 1] % (bins - 1)) % bins
        count = 0
        for i in range(len(sizes)):
            if place[i] == a or place[i] == b:
                own[0, count] = i
                count += 1
        total = load[a] + load[b]
        goal = max(capacity, (total + 1) // 2)
        most = max(load[a], load[b], capacity)
        into_a = divide(sizes, count, total, goal, most, slots, draws[trial, 2], own)
        if into_a < 0:
            continue
        load[a], load[b] = into_a, total - into_a
        for j in range(count):
            place[own[0, j]] = a if own[1, j] else b
    return False


@part
def divide(
    sizes: Ints, count: int, total: int, goal: int, most: int, slots: int, draw: int, own: Ints
) -> int:
    """Choose items for the first of two bins; return their sum, or -1 if no choice was found.

    The larger bin gets at most `most`; the search ends at once where it gets at most `goal`, else
    after `NODES` subsets with the best. Depth first, largest items first, each one tried in the
    first or the second bin as the bits of `draw` say.

    Parameters
    ----------
    own
        Rows: the items, `count` of them; output, 1 for those taken; three for own use.
    """
    items, taken, rest, tried, now = own[0], own[1], own[2], own[3], own[4]
    rest[count], tried[0] = 0, 0
    for j in range(count - 1, -1, -1):
        rest[j] = rest[j + 1] + sizes[items[j]]
    best, bound = -1, most + 1
    total_taken, number, depth = 0, 0, 0
    for _ in range(NODES):
        fits = (
            total_taken < bound
            and total - total_taken - rest[depth] < bound
            and number <= slots
            and depth - number <= slots
        )
        if fits and depth == count:
            best, bound = total_taken, max(total_taken, total - total_taken)
            for j in range(count):
                taken[j] = now[j]
            if bound <= goal:
                return best
        if not fits or depth == count:  # back to the last item with an untried bin
            depth -= 1
            while depth >= 0 and tried[depth] == 2:
                if now[depth] == 1:
                    total_taken -= sizes[items[depth]]
                    number -= 1
                depth -= 1
            if depth < 0:
                return best
            if now[depth] == 1:
                total_taken -= sizes[items[depth]]
                number -= 1
        now[depth] = (draw >> depth % 60 & 1) ^ tried[depth]
        tried[depth] += 1
        if now[depth] == 1:
            total_taken += sizes[items[depth]]
            number += 1
        depth += 1
        tried[depth] = 0
    return best


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
        load, own = np.zeros(dimms, np.int64), np.zeros((5, len(sizes) + 1), np.int64)
        np.add.at(load, place, sizes)
        done = repair(sizes, place, load, slots, capacity, draws, own)
        spend(trials / TRIALS_PER_UNIT)
        self.offer(path, experts, place)
        return done and self.upper <= makespan

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
