"""One layer by itself: a multiple-choice knapsack, by dynamic programming over its experts.

Each expert takes one width, and the state is the bits in use.

Proof. Table e holds, for each number of increments over the narrowest width, the least loss of the
first e experts. A second index says how many of them have each width in `min_count`, counted no
further than needed. A choice among e + 1 experts is one among e and a width for the next, so
`extend` keeps the property. Entries in which every count is reached are what BW-C5 allows.

**Curves** of least loss over bits: layers share nothing but a budget. So the curve of two parts is
the (min,+) convolution of theirs: r increments in all, k of them in the second part.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import gcd, prod

import numpy as np
from numpy.typing import NDArray

from moeopt.core.clock import spend
from moeopt.core.compiled import compiled

from .instance import Instance

Ints = NDArray[np.int64]

UNREACHABLE = 2**61
"""In place of a loss where no choice has these bits and counts; losses sum to 2**60 at most."""

MERGED_PER_LOOK, MERGED_SUMS = 2**26, 4e9
"""Sums of two curves between two looks at the clock, and how many a core makes in a second."""


class Stopped(Exception):  # noqa: N818 - no error
    """The time is up, or somebody asked to stop."""


@dataclass(frozen=True)
class Curve:
    """The least loss of a part of the model, by how many bits it may use.

    Attributes
    ----------
    least_bits
        Below these there is no choice.
    unit
        Bits between two entries: all choices use `least_bits` and a multiple of it.
    losses
        Entry r: the least loss with at most `least_bits + r unit` bits. It never rises, and more
        bits than the last entry's are of no use.
    """

    least_bits: int
    unit: int
    losses: Ints

    @classmethod
    def of(cls, base_bits: int, unit: int, losses: Ints) -> "Curve | None":
        """Return the curve of the least losses with exactly `base_bits + r unit` bits.

        None if all are `UNREACHABLE`.
        """
        falling = np.minimum.accumulate(losses)
        first = int((falling < UNREACHABLE).argmax())
        if falling[first] >= UNREACHABLE:
            return None
        last = int(falling.argmin())
        return cls(base_bits + first * unit, unit, falling[first : last + 1])

    def entry(self, budget: int) -> int | None:
        """Return the position of the least loss within a budget; None if nothing is."""
        r = (budget - self.least_bits) // self.unit
        return None if r < 0 else min(r, len(self.losses) - 1)

    def split(self, later: "Curve", r: int) -> int:
        """Return the entry of `later` in a choice that is entry r of the two curves together."""
        least, most = max(0, r - len(self.losses) + 1), min(len(later.losses) - 1, r)
        sums = self.losses[r - most : r - least + 1][::-1] + later.losses[least : most + 1]
        return least + int(sums.argmin())


def merged(first: Curve, second: Curve, stopped: Callable[[], bool] = lambda: False) -> Curve:
    """Return the curve of two parts together.

    Raises
    ------
    Stopped
        As soon as `stopped`, asked every 20 ms or so, says so.
    """
    longer, shorter = sorted((first.losses, second.losses), key=len, reverse=True)
    losses = np.full(len(longer) + len(shorter) - 1, UNREACHABLE, dtype=np.int64)
    step = max(1, MERGED_PER_LOOK // len(longer))
    for low in range(0, len(shorter), step):
        if stopped():
            raise Stopped
        part = shorter[low : low + step]
        spend(len(part) * len(longer) / MERGED_SUMS)
        lower_to_sums(losses[low:], longer, part)
    return Curve(first.least_bits + second.least_bits, first.unit, losses)


@compiled
def lower_to_sums(least: Ints, first: Ints, second: Ints) -> None:
    """Lower ``least[r + k]`` to ``first[r] + second[k]``, for all r and k."""
    for k in range(len(second)):
        for r in range(len(first)):
            least[r + k] = min(least[r + k], first[r] + second[k])


SUMS_PER_LOOK = 2**25
"""Sums between two looks at the clock: some 20 ms."""

SUMS = 1.5e9
"""Sums that a core makes in a second."""

MAX_ENTRIES = 2**27
"""Most entries of a layer's tables: 1 GiB."""


class TooLarge(Exception):  # noqa: N818 - no error
    """The tables would not fit into memory."""


class LayerKnapsack:
    """The dynamic program of one layer.

    Attributes
    ----------
    base_bits
        What the experts use at the narrowest width.
    unit
        Bits per increment.
    """

    def __init__(self, instance: Instance, layer: int, stopped: Callable[[], bool]) -> None:
        self.losses = instance.layer_losses[layer]
        self.stopped = stopped
        experts = len(self.losses)
        steps = np.array(instance.bits, dtype=np.int64) - instance.bits[0]
        self.unit = gcd(*steps.tolist()) or 1
        self.steps = steps // self.unit
        self.base_bits = experts * instance.bits[0]
        least = [instance.min_count.get(width, 0) for width in instance.bits]
        self.feasible = sum(least) <= experts
        if self.feasible:
            if prod(count + 1 for count in least) > MAX_ENTRIES:
                raise TooLarge
            self.following = _following(least)

    def curve(self, budget: int | None = None) -> Curve | None:
        """Return the least losses within a budget, or without one; None if nothing is feasible."""
        increments = self._increments(budget)
        if increments < 0:
            return None
        return Curve.of(self.base_bits, self.unit, self._tables(increments)[-1, -1])

    def columns(self, budget: int) -> list[int] | None:
        """Return the width of every expert, by position, in a best choice within a budget."""
        increments = self._increments(budget)
        if increments < 0:
            return None
        tables = self._tables(increments)
        best = int(tables[-1, -1].argmin())
        if tables[-1, -1, best] >= UNREACHABLE:
            return None
        chosen: list[int] = trace_back(
            tables, self.losses, self.steps, self.following, best
        ).tolist()
        return chosen

    def _increments(self, budget: int | None) -> int:
        """Return the most increments that are of use within a budget; negative if none fits."""
        if not self.feasible:
            return -1
        most = len(self.losses) * int(self.steps[-1])
        return most if budget is None else min(most, (budget - self.base_bits) // self.unit)

    def _tables(self, increments: int) -> Ints:
        experts, states = len(self.losses), len(self.following)
        if (experts + 1) * states * (increments + 1) > MAX_ENTRIES:
            raise TooLarge
        tables = np.empty((experts + 1, states, increments + 1), dtype=np.int64)
        tables[0, :, 0] = UNREACHABLE
        tables[0, 0, 0] = 0
        sums = states * (increments + 1) * len(self.steps)
        block = max(1, SUMS_PER_LOOK // sums)
        for first in range(0, experts, block):
            if self.stopped():
                raise Stopped
            last = min(experts, first + block)
            spend((last - first) * sums / SUMS)
            extend(tables, self.losses, self.steps, self.following, first, last)
        return tables


def _following(least: list[int]) -> Ints:
    """Return the state after one more expert of a width, shape (states, widths).

    A state is the tuple of counts, each no further than its entry in `least`; the first state has
    counted nothing, the last one everything.
    """
    states = list(product(*(range(count + 1) for count in least)))
    number = {state: row for row, state in enumerate(states)}
    following = np.empty((len(states), len(least)), dtype=np.int64)
    for state, row in number.items():
        for column, count in enumerate(state):
            after = (*state[:column], min(count + 1, least[column]), *state[column + 1 :])
            following[row, column] = number[after]
    return following


@compiled
def extend(tables: Ints, losses: Ints, steps: Ints, following: Ints, first: int, last: int) -> None:
    """Fill the tables of experts `first` to `last` - 1 from the one before.

    Parameters
    ----------
    tables
        Shape (experts + 1, states, increments): the least loss of the experts before, by counts
        reached and increments in use. Entry [e, :, r] is filled for r <= e x the largest step.
    losses, steps
        Shape (experts, widths), and the increments of each width.
    following
        Shape (states, widths): the counts after one more expert of a width.
    """
    increments = tables.shape[2]
    largest = steps[-1]
    for e in range(first, last):
        old, new = tables[e], tables[e + 1]
        reached = min(increments, e * largest + 1)
        new[:, : min(increments, reached + largest)] = UNREACHABLE
        for state in range(old.shape[0]):
            for j in range(len(steps)):
                step, loss = steps[j], losses[e, j]
                source, target = old[state], new[following[state, j], step:]
                for r in range(min(reached, increments - step)):
                    target[r] = min(target[r], source[r] + loss)


@compiled
def trace_back(tables: Ints, losses: Ints, steps: Ints, following: Ints, increments: int) -> Ints:
    """Return the width of every expert, by position, in a choice that the last table stands for.

    It ends in the last state with exactly so many increments. The narrowest width goes first.
    """
    experts = len(losses)
    chosen = np.zeros(experts, dtype=np.int64)
    state, r = tables.shape[1] - 1, increments
    for e in range(experts - 1, -1, -1):
        wanted = tables[e + 1, state, r]
        found = False
        for j in range(len(steps)):
            before = r - steps[j]
            if before < 0 or before > e * steps[-1]:
                continue
            for source in range(tables.shape[1]):
                if (
                    following[source, j] == state
                    and tables[e, source, before] + losses[e, j] == wanted
                ):
                    chosen[e], state, r, found = j, source, before, True
                    break
            if found:
                break
    return chosen
