"""Label setting: one option of each of several groups, within limits on what all of them use.

A label is a choice for the first groups: what it uses of each resource. Group after group, every
label is extended by every option. Dropped is what cannot lead to a choice within the limits, what
another label is at least as good as, and what prices of the resources prove to be too dear.

Proof. (1) *Prices.* A choice within the limits, priced, costs at most the priced limits; one that
goes on from a label costs at least the label and the cheapest option of each group to come. So a
label above the difference has no such choice. Any prices will do that are at least 0 where the
limit is an upper one; several are applied one after the other. (2) *Dominance.* What completes a
label completes every label that uses no more of anything, and as much of what must be met exactly.
(3) *Enough.* Of a resource that is not ranked only the limit counts. A label that keeps it whatever
the groups to come use is as good there as one that just does: its use is raised to that.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moeopt.core.clock import spend
from moeopt.core.compiled import short

Ints = NDArray[np.int64]
Kept = NDArray[np.bool_] | Ints

FLAT = 3
"""Columns up to which rows are compared by stairs; beyond, one by one."""

MAX_COMPARISONS = 50_000_000
"""Of two rows, for one list: a tenth of a second or two."""


def undominated(rows: Ints, equal: int | None = None) -> Ints:
    """Return the numbers of the rows that no other one is equal to or below.

    Parameters
    ----------
    rows
        Shape (rows, columns).
    equal
        A column in which only equal rows are compared.

    Returns
    -------
    array
        Of equal rows one is left. Where very many are left, there may be some too many.
    """
    kept = np.empty(len(rows), dtype=np.int64)
    if equal is None and rows.shape[1] <= FLAT:
        flat = np.zeros((len(rows), FLAT), dtype=np.int64)
        flat[:, : rows.shape[1]] = rows
        order = np.lexsort(flat.T[::-1])
        return order[kept[: _stairs(flat[order], kept)]]
    sums = rows.sum(axis=1)
    order = np.lexsort((sums,) if equal is None else (sums, rows[:, equal]))
    count = _scan(np.ascontiguousarray(rows[order]), -1 if equal is None else equal, kept)
    return order[kept[:count]]


@short(1024)
def _stairs(rows: Ints, kept: Ints) -> int:
    """List the rows of three columns that none before them is equal to or below; return how many.

    Rows are sorted by the first column, then the second, then the third, so that later rows are
    below none. Those kept so far form stairs in the other two columns: the last step with no larger
    second number has the least third one of all such.
    """
    second, third = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    steps = count = 0
    for row in range(len(rows)):
        a, b = rows[row, 1], rows[row, 2]
        low, high = 0, steps
        while low < high:  # the first step with a larger second number
            middle = (low + high) // 2
            low, high = (low, middle) if second[middle] > a else (middle + 1, high)
        if low and third[low - 1] <= b:
            continue
        end = low
        while end < steps and third[end] >= b:
            end += 1
        fewer = end - low - 1
        if fewer < 0:
            for step in range(steps, low, -1):
                second[step], third[step] = second[step - 1], third[step - 1]
        elif fewer:
            for step in range(end, steps):
                second[step - fewer], third[step - fewer] = second[step], third[step]
        second[low], third[low] = a, b
        steps -= fewer
        kept[count] = row
        count += 1
    return count


@short(1024)
def _scan(rows: Ints, equal: int, kept: Ints) -> int:
    """List the rows without any before them that is nowhere above; return how many there are.

    Rows are sorted by the column `equal`, if it is none below 0, then by their sums, so that later
    rows are below none. Rows that replace others move to the front of what is compared next.
    """
    first = count = 0
    left = MAX_COMPARISONS
    for row in range(len(rows)):
        if equal >= 0 and row and rows[row, equal] != rows[row - 1, equal]:
            first = count
        replaced = False
        for place in range(first, min(count, first + left)):
            left -= 1
            other = kept[place]
            replaced = True
            for column in range(rows.shape[1]):
                if rows[other, column] > rows[row, column]:
                    replaced = False
                    break
            if replaced:
                ahead = first + (place - first) // 2
                kept[place], kept[ahead] = kept[ahead], other
                break
        if not replaced:
            kept[count] = row
            count += 1
    return count


SCALE = 2.0**20
"""Prices are rounded to integers at this resolution, or a lower one if numbers are large."""

LARGEST = 2.0**58
"""Priced sums stay below it."""


def whole_prices(price: NDArray[np.float64], span: Ints) -> Ints:
    """Return prices as integers, such that what is priced stays within 64 bits.

    Parameters
    ----------
    price
        Of each resource.
    span
        The most that limits, or all groups together, use of each; where it is 0 nothing is priced.
    """
    price = np.where(span > 0, price, 0.0)
    largest = float(span.astype(np.float64) @ abs(price))
    return np.rint(price * min(SCALE, LARGEST / max(largest, 1.0))).astype(np.int64)


MAX_CANDIDATES = 200_000
"""Labels times options that are looked at together: a few hundredths of a second."""

SUMS_PER_UNIT = 5_000_000
"""Labels times options that are added in a unit of work, with all that follows."""


@dataclass(frozen=True)
class Labels:
    """What is left of all choices after a number of groups.

    Attributes
    ----------
    uses
        Shape (labels, resources).
    parent, option
        Of each label: the one before, and the option added.
    """

    uses: Ints
    parent: Ints
    option: Ints

    def only(self, kept: Kept) -> "Labels":
        """Return some of the labels."""
        return Labels(self.uses[kept], self.parent[kept], self.option[kept])

    @classmethod
    def joined(cls, parts: Sequence["Labels"], resources: int) -> "Labels":
        """Return the labels of all parts."""
        nothing = np.zeros(0, dtype=np.int64)
        return cls(
            np.concatenate([np.zeros((0, resources), np.int64), *(part.uses for part in parts)]),
            np.concatenate([nothing, *(part.parent for part in parts)]),
            np.concatenate([nothing, *(part.option for part in parts)]),
        )


@dataclass(frozen=True)
class _Rest:
    """What the groups still to come use, at least (`low`) and at most (`high`).

    `value` is what each of the prices leaves for the groups so far.
    """

    value: Ints
    low: Ints
    high: Ints


class LabelSetting:
    """Choices of one option of each group within limits.

    Parameters
    ----------
    groups
        What each option uses, shape (options, resources): at least one option each.
    limit
        Of each resource, shape (resources,). One that no choice can reach is lowered to that.
    prices
        Shape (resources,), or (prices, resources) for several: at least 0 but for `equal`. What
        all groups use, priced, must fit into 64 bits.
    equal
        The resource of which the limit must be met exactly.
    ranked
        Resources of which less is better even within the limit: the last labels then hold, for
        every choice within the limits, one that uses no more of these.

    Attributes
    ----------
    open
        Of each group, the options that the prices leave open; nothing where they leave none.
    refuted
        Whether the prices alone prove that there is no choice.
    complete
        Whether no label was dropped for being one too many, or for lack of time.
    """

    def __init__(
        self,
        groups: Sequence[Ints],
        limit: Ints,
        prices: Ints,
        *,
        equal: int | None = None,
        ranked: Sequence[int] = (),
    ) -> None:
        most = sum((uses.max(axis=0) for uses in groups), np.zeros_like(limit))
        self.limit = np.where(np.arange(len(limit)) == equal, limit, np.minimum(limit, most))
        self.prices, self.equal = np.atleast_2d(prices), equal
        self._met = [n for n in range(len(limit)) if n != equal and n not in ranked]
        self.complete = True
        self.open: list[Ints] = []
        kept = [np.ones(len(uses), dtype=np.bool_) for uses in groups]
        self.refuted = False
        for price in self.prices:
            values = [uses @ price for uses in groups]
            spare = int(self.limit @ price) - sum(int(value.min()) for value in values)
            if spare < 0:
                self.refuted = True
                return
            for keep, value in zip(kept, values, strict=True):
                keep &= value - value.min() <= spare
        self.open = [np.flatnonzero(keep) for keep in kept]
        self.refuted = not all(map(len, self.open))
        self._order = sorted(range(len(groups)), key=lambda number: len(self.open[number]))
        self._uses = [groups[number][self.open[number]] for number in self._order]
        self._steps: list[Labels] = []

    def run(self, most: int, stopped: Callable[[], bool]) -> Ints:
        """Return what choices within the limits use, shape (choices, resources), none if none is.

        Resources that are not ranked may be said to be used up. In each step at most so many labels
        are kept, the cheapest by the first prices.
        """
        nothing = np.zeros((0, len(self.limit)), np.int64)
        if self.refuted:
            return nothing
        resources = len(self.limit)
        least_values = [(uses @ self.prices.T).min(axis=0) for uses in self._uses]
        rest_value = _suffix(least_values, len(self.prices))
        rest_low = _suffix([uses.min(axis=0) for uses in self._uses], resources)
        rest_high = _suffix([uses.max(axis=0) for uses in self._uses], resources)
        total = self.prices @ self.limit
        if (rest_low[0] > self.limit).any():
            return nothing
        labels = Labels(np.zeros((1, len(self.limit)), np.int64), *np.zeros((2, 1), np.int64))
        self._steps = []
        for k, uses in enumerate(self._uses, start=1):
            rest = _Rest(total - rest_value[k], rest_low[k], rest_high[k])
            labels = self._added(labels, uses, rest, stopped)
            if stopped():
                self.complete = False
                return nothing
            if not len(labels.uses):
                return nothing
            if len(labels.uses) > most:
                cheapest = np.argsort(labels.uses @ self.prices[0], kind="stable")[:most]
                labels = labels.only(cheapest)
                self.complete = False
            self._steps.append(labels)
        return labels.uses

    def choice(self, number: int) -> list[int]:
        """Return the option of each group in one of the choices that `run` found."""
        found = [0] * len(self._order)
        for group, labels in zip(reversed(self._order), reversed(self._steps), strict=True):
            found[group] = int(self.open[group][labels.option[number]])
            number = int(labels.parent[number])
        return found

    def _added(
        self, before: Labels, uses: Ints, rest: _Rest, stopped: Callable[[], bool]
    ) -> Labels:
        """Return the labels with one of a group's options added; a block of them at a time."""
        so_far, own = before.uses @ self.prices.T, uses @ self.prices.T
        block = max(1, MAX_CANDIDATES // len(uses))
        parts = []
        for first in range(0, len(so_far), block):
            if stopped():
                break
            here = so_far[first : first + block]
            spend(len(here) * len(uses) / SUMS_PER_UNIT)
            parent, option = np.nonzero(here[:, None, 0] + own[:, 0] <= rest.value[0])
            for n in range(1, len(self.prices)):
                open_value = here[parent, n] + own[option, n] <= rest.value[n]
                parent, option = parent[open_value], option[open_value]
            found = before.uses[first + parent] + uses[option]
            fits = np.all(found + rest.low <= self.limit, axis=1)
            if self.equal is not None:
                at = self.equal
                fits &= found[:, at] + rest.high[at] >= self.limit[at]
            labels = Labels(found, first + parent, option).only(fits)
            enough = (self.limit - rest.high)[self._met]
            labels.uses[:, self._met] = np.maximum(labels.uses[:, self._met], enough)
            parts.append(labels.only(undominated(labels.uses, self.equal)))
        if len(parts) == 1:
            return parts[0]
        joined = Labels.joined(parts, len(self.limit))
        return joined.only(undominated(joined.uses, self.equal))


def _suffix(rows: Sequence[Ints], columns: int) -> Ints:
    """Return the sum of the rows from each on, and 0 at the end; shape (rows + 1, columns)."""
    stacked = np.array([*rows, np.zeros(columns, dtype=np.int64)], dtype=np.int64)
    return stacked[::-1].cumsum(axis=0)[::-1]
