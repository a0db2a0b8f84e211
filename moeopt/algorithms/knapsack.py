"""Multiple-choice knapsacks: one option of each class within a capacity, at the least cost.

Three ways. A *table* (`Knapsack`) over classes and capacity is exact, and may ask that some options
are taken so often at least. *Curves* of least cost by capacity are merged in pairs (`merged`): what
parts have nothing but a capacity in common. A *price* of the capacity (`capacity_price`) gives the
bound of the linear relaxation.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from moeopt.algorithms.lagrangian import Tangent, best_price
from moeopt.core.clock import spend

Ints = NDArray[np.int64]

LARGEST_COST = 2**61
"""Most that costs may sum to; none is negative."""

FAR = 2**62
"""In place of a cost where there is no choice: with all costs added it fits into 64 bits."""

MAX_ENTRIES = 2**27
"""Most entries of a table: 1 GiB."""

SUMS = 1e9
"""Sums of costs that a core makes in a unit of work, in long rows; and for each row of them:"""

ROW = 3e-6

SUMS_PER_LOOK = 2**24
"""Sums between two looks at the clock: some 20 ms."""


class Stopped(Exception):  # noqa: N818 - no error
    """The time is up, or somebody asked to stop."""


class TooLarge(Exception):  # noqa: N818 - no error
    """The table would not fit into memory."""


def _never() -> bool:
    return False


class Knapsack:
    """The table of a multiple-choice knapsack: exact, and quick where the capacity is small.

    Parameters
    ----------
    weights
        What an option takes of the capacity, shape (options,) or (classes, options).
    costs
        Shape (classes, options), at least 0, with sums of at most `LARGEST_COST`; `FAR` where the
        class has no such option.
    capacity
        Weights beyond it are not asked for.
    least
        How often each option is taken at least, over all classes. Default: nothing is asked.
    stopped
        Asked every 20 ms or so.

    Attributes
    ----------
    costs_at
        Entry r: the least cost with a weight of exactly r, at least `FAR` where there is none.

    Raises
    ------
    Stopped, TooLarge

    Notes
    -----
    Proof. Entry (e, s, r) of the table is the least cost of the first e classes with weight r and
    state s: how often each option of `least` was taken, counted no further than asked. A choice for
    e + 1 classes is one for e and an option of the next. In the last state all is reached.
    """

    def __init__(
        self,
        weights: Ints,
        costs: Ints,
        capacity: int,
        least: Sequence[int] | None = None,
        stopped: Callable[[], bool] = _never,
    ) -> None:
        classes, options = costs.shape
        self.capacity = capacity
        self._least = [0] * options if least is None else [*least]
        self._counted = [option for option in range(options) if self._least[option]]
        shape = tuple(self._least[option] + 1 for option in self._counted)
        if (classes + 1) * prod(shape) * (capacity + 1) > MAX_ENTRIES:
            raise TooLarge
        every = zip(np.broadcast_to(weights, costs.shape).tolist(), costs.tolist(), strict=True)
        self._options = [
            [(n, w, cost) for n, (w, cost) in enumerate(zip(*row, strict=True)) if cost < FAR]
            for row in every
        ]
        self._table = np.full((classes + 1, *shape, capacity + 1), FAR, dtype=np.int64)
        self._table[(0,) * (len(shape) + 2)] = 0
        reached, pending = 0, SUMS_PER_LOOK
        for number, there in enumerate(self._options):
            if pending >= SUMS_PER_LOOK:
                pending = 0
                if stopped():
                    raise Stopped
            sums = len(there) * (reached + 1) * prod(shape)
            pending += sums
            spend(sums / SUMS + len(there) * ROW)
            self._extend(number, reached)
            reached = min(capacity, reached + max((weight for _, weight, _ in there), default=0))
        self.costs_at: Ints = self._table[-1].reshape(-1, capacity + 1)[-1]

    def _extend(self, number: int, reached: int) -> None:
        """Add a class to those before, which weigh at most `reached`."""
        before, after = self._table[number], self._table[number + 1]
        for option, weight, cost in self._options[number]:
            end = min(self.capacity - weight, reached) + 1
            if end <= 0:
                continue
            of, to = before[..., :end] + cost, after[..., weight : weight + end]
            if not self._least[option]:
                np.minimum(to, of, out=to)
                continue
            # Counted: one more than before, or as many as are asked for and no more.
            axis = self._counted.index(option)
            of, to = np.moveaxis(of, axis, 0), np.moveaxis(to, axis, 0)
            np.minimum(to[1:], of[:-1], out=to[1:])
            np.minimum(to[-1], of[-1], out=to[-1])

    def choice(self, weight: int) -> Ints:
        """Return the options of a best choice of exactly this weight, shape (classes,).

        Where there are several, later classes take the first options that they can.
        """
        chosen = np.zeros(len(self._options), dtype=np.int64)
        state = tuple(self._least[option] for option in self._counted)
        for number in range(len(self._options) - 1, -1, -1):
            wanted = int(self._table[(number + 1, *state, weight)])
            chosen[number], state, weight = next(
                (option, source, weight - added)
                for option, added, cost in self._options[number]
                if added <= weight
                for source in self._sources(state, option)
                if int(self._table[(number, *source, weight - added)]) + cost == wanted
            )
        return chosen

    def _sources(self, state: tuple[int, ...], option: int) -> Iterator[tuple[int, ...]]:
        """Yield the states that an option leads from to this one."""
        if not self._least[option]:
            yield state
            return
        axis = self._counted.index(option)
        if state[axis]:
            yield (*state[:axis], state[axis] - 1, *state[axis + 1 :])
        if state[axis] == self._least[option]:
            yield state


def capacity_price(weights: Ints, costs: Ints, capacity: int) -> int:
    """Return the least price of the capacity at which the cheapest options keep it.

    Of equally cheap options the first one counts. The bound of a price (`priced`) is best at this
    one or at the one below. Where costs are so large that their prices would not fit into 64 bits,
    it is the largest price that does.

    Parameters
    ----------
    weights, costs
        Shape (options,), by rising weight, and (classes, options).
    capacity
        At least what the lightest options take.
    """
    most = LARGEST_COST // max(1, len(costs) * int(weights[-1]))
    steepest = int((costs.max(axis=1) - costs.min(axis=1)).max(initial=0))

    def dual(price: int) -> Tangent[None]:
        used = int(weights[(costs + price * weights).argmin(axis=1)].sum())
        return Tangent(price, priced(weights, costs, capacity, price), used - capacity, None)

    return best_price(dual, min(most, steepest)).fallen.price


def priced(weights: Ints, costs: Ints, capacity: int, price: int) -> int:
    """Return a lower bound on the cost of all choices within the capacity.

    Proof. A choice within it costs at least its cost and the price of its weight, less that of the
    capacity, and that sum at least what each class's cheapest option adds to it.

    Parameters
    ----------
    weights, costs, capacity
        As in `capacity_price`.
    price
        At least 0. Costs, and prices of all weights, sum to less than 2**63.
    """
    return int((costs + price * weights).min(axis=1).sum()) - price * capacity


@dataclass(frozen=True)
class Curve:
    """The least cost of a part, by how much it may weigh.

    Attributes
    ----------
    least
        Below this weight there is no choice.
    unit
        Weight between two entries: all choices weigh `least` and a multiple of it.
    costs
        Entry r: the least cost with a weight of at most `least + r unit`. It never rises, and more
        than the last entry's weight is of no use.
    """

    least: int
    unit: int
    costs: Ints

    @classmethod
    def of(cls, base: int, unit: int, costs: Ints) -> "Curve | None":
        """Return the curve of the least costs with a weight of exactly `base + r unit`.

        None if there is no choice: all are at least `FAR`.
        """
        falling = np.minimum.accumulate(costs)
        first = int((falling < FAR).argmax())
        if falling[first] >= FAR:
            return None
        last = int(falling.argmin())
        return cls(base + first * unit, unit, falling[first : last + 1])

    def entry(self, weight: int) -> int | None:
        """Return the position of the least cost within a weight; None if nothing is."""
        r = (weight - self.least) // self.unit
        return None if r < 0 else min(r, len(self.costs) - 1)

    def split(self, later: "Curve", r: int) -> int:
        """Return the entry of `later` in a choice that is entry r of the two curves together."""
        least, most = max(0, r - len(self.costs) + 1), min(len(later.costs) - 1, r)
        sums = self.costs[r - most : r - least + 1][::-1] + later.costs[least : most + 1]
        return least + int(sums.argmin())


def merged(first: Curve, second: Curve, stopped: Callable[[], bool] = _never) -> Curve:
    """Return the curve of two parts together: the (min,+) convolution of theirs.

    Where both are convex, their steps are taken by falling gain. Otherwise every sum is looked at.

    Raises
    ------
    Stopped
        As soon as `stopped`, asked every 20 ms or so, says so.
    """
    least = first.least + second.least
    steps = [np.diff(curve.costs) for curve in (first, second)]
    if all((np.diff(of) >= 0).all() for of in steps):
        begin = first.costs[:1] + second.costs[:1]
        together = np.sort(np.concatenate(steps), kind="stable")
        spend(ROW + len(together) / SUMS)
        return Curve(least, first.unit, np.cumsum(np.concatenate([begin, together])))
    longer, shorter = sorted((first.costs, second.costs), key=len, reverse=True)
    costs = np.full(len(longer) + len(shorter) - 1, FAR, dtype=np.int64)
    block = max(1, SUMS_PER_LOOK // len(longer))
    for k, cost in enumerate(shorter.tolist()):
        if not k % block:
            if stopped():
                raise Stopped
            spend(min(block, len(shorter) - k) * (len(longer) / SUMS + ROW))
        part = costs[k : k + len(longer)]
        np.minimum(part, longer + cost, out=part)
    return Curve(least, first.unit, costs)


@dataclass(frozen=True)
class MergedCurves:
    """Parts that share a capacity.

    Attributes
    ----------
    levels
        Curves: of each part, then of every two of them together, and so on; the last level has one.
        A curve without a partner goes on to the next level as it is.
    """

    levels: tuple[tuple[Curve, ...], ...]

    @classmethod
    def of(cls, parts: Sequence[Curve], stopped: Callable[[], bool] = _never) -> "MergedCurves":
        """Merge the curves of some parts, which have the same unit.

        Raises
        ------
        Stopped
            As soon as `stopped`, asked every 20 ms or so, says so.
        """
        levels = [tuple(parts)]
        while len(levels[-1]) > 1:
            below = levels[-1]
            pairs = zip(below[::2], below[1::2], strict=False)
            together = [merged(one, other, stopped) for one, other in pairs]
            levels.append((*together, *below[2 * len(together) :]))
        return cls(tuple(levels))

    @property
    def curve(self) -> Curve:
        """The curve of all parts together."""
        return self.levels[-1][0]

    def weights(self, r: int) -> list[int]:
        """Return the most that each part may weigh in a choice that is entry r of all together."""
        entries = [r]
        for curves in reversed(self.levels[:-1]):
            entries = [
                entry
                for number, together in enumerate(entries)
                for entry in _apart(curves[2 * number : 2 * number + 2], together)
            ]
        pairs = zip(self.levels[0], entries, strict=True)
        return [curve.least + entry * curve.unit for curve, entry in pairs]


def _apart(pair: Sequence[Curve], r: int) -> tuple[int, ...]:
    """Return the entries of one or two curves in a choice that is entry r of them together."""
    if len(pair) == 1:
        return (r,)
    k = pair[0].split(pair[1], r)
    return r - k, k
