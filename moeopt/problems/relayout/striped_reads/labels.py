"""Label setting over the plans of all groups, pruned by Lagrangian multipliers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array

from moeopt.core.clock import spend
from moeopt.core.search import Search

from .pareto import undominated
from .plans import GPU, LINK, PCIE, READS, SHARED, Ints, Plans

SCALE = 2.0**20
"""Multipliers are rounded to integers at this resolution, or a lower one if numbers are large."""

LARGEST = 2.0**58
"""Weighted sums stay below it."""

MAX_CANDIDATES = 200_000
"""Labels times plans that are looked at together: a few hundredths of a second."""


def multipliers(groups: Sequence[Plans], limit: Ints, span: Ints) -> Ints | None:
    """Return integer multipliers of the shared columns that are best for the linear relaxation.

    Rounding them to integers keeps them multipliers; `span`, the most that all groups use of each
    column, keeps what they weigh below `LARGEST`. None where the linear program is not solved.

    Minimised is the makespan over convex combinations of each group's plans; what exceeds a window,
    a slot or a threshold is paid for, so that there always is a solution.
    """
    uses = np.concatenate([plans.uses for plans in groups]).astype(np.float64)
    count, columns = uses.shape
    group = np.repeat(np.arange(len(groups)), [len(plans) for plans in groups])
    others = [column for column in range(LINK, columns) if column != READS]
    elastic = len(others) + 2
    left = uses.T[[GPU, 1, PCIE, *others]]
    right = np.zeros((len(left), 1 + elastic))
    right[: PCIE + 1, 0] = -1
    right[np.arange(PCIE + 1, len(left)), 1 + np.arange(len(others))] = -1
    bound = limit[[GPU, 1, PCIE, *others]].astype(np.float64)
    bound[: PCIE + 1] -= limit[1]  # base load counts, the makespan itself is minimised
    per_group = csr_array((np.ones(count), (group, np.arange(count))), (len(groups), count))
    reads = np.concatenate([uses[:, READS], [0], np.zeros(len(others)), [-1, 1]])
    equal = np.zeros((1 + len(groups), count + 1 + elastic))
    equal[0] = reads
    equal[1:, :count] = per_group.toarray()
    cost = np.concatenate([np.zeros(count), [1], np.full(elastic, float(limit[1]))])
    found = linprog(
        cost,
        A_ub=np.hstack([left, right]),
        b_ub=bound,
        A_eq=equal,
        b_eq=np.concatenate([[limit[READS]], np.ones(len(groups))]),
        method="highs",
    )
    spend(left.size / LINEAR)
    if found.status != 0:
        return None
    price = np.zeros(columns)
    price[[GPU, 1, PCIE, *others]] = np.maximum(-found.ineqlin.marginals, 0)
    price[READS] = -found.eqlin.marginals[0]
    largest = float(span.astype(np.float64) @ abs(price))
    return np.rint(price * min(SCALE, LARGEST / max(largest, 1.0))).astype(np.int64)


SUMS_PER_UNIT = 5_000_000
"""Labels times plans that are added in a unit of work, with all that follows."""

LINEAR = 2_000_000
"""Entries of a linear program that is solved in a unit of work."""

MAX_COMBINATIONS = 50
"""Up to so many are returned."""

Combination = list[tuple[Plans, int]]
"""The plans of each group, and the number of the one taken."""


@dataclass(frozen=True)
class Labels:
    """What is left of all choices after a number of groups.

    Attributes
    ----------
    uses
        Shape (labels, columns).
    parent, plan
        Of each label: the one before, and the plan added.
    """

    uses: Ints
    parent: Ints
    plan: Ints

    def only(self, kept: Ints) -> "Labels":
        """Return some of the labels."""
        return Labels(self.uses[kept], self.parent[kept], self.plan[kept])

    @classmethod
    def joined(cls, parts: Sequence["Labels"], columns: int) -> "Labels":
        """Return the labels of all parts."""
        nothing = np.zeros(0, dtype=np.int64)
        return cls(
            np.concatenate([np.zeros((0, columns), np.int64), *(part.uses for part in parts)]),
            np.concatenate([nothing, *(part.parent for part in parts)]),
            np.concatenate([nothing, *(part.plan for part in parts)]),
        )


@dataclass(frozen=True)
class _Rest:
    """What the groups still to come use, at least (`low`) and at most (`high`).

    `value` is what the multipliers leave for the groups so far.
    """

    value: int
    low: Ints
    high: Ints


class LabelSetting:
    """Choices of one plan per group within limits.

    Parameters
    ----------
    groups
        At least one plan each.
    limit
        Per column; met exactly in `READS`.
    price
        Multipliers of the columns, at least 0 but for `READS`.

    Attributes
    ----------
    refuted
        Whether the multipliers alone prove that there is none.
    complete
        Whether no label was dropped for being one too many.
    """

    def __init__(self, groups: Sequence[Plans], limit: Ints, price: Ints) -> None:
        self.limit, self.price = limit, price
        values = [plans.uses @ price for plans in groups]
        self.spare = int(limit @ price) - sum(int(value.min()) for value in values)
        self.refuted = self.spare < 0
        self.complete = True
        if self.refuted:
            return
        kept = [value - value.min() <= self.spare for value in values]
        self.groups = [plans.only(keep) for plans, keep in zip(groups, kept, strict=True)]
        self.groups.sort(key=len)

    def run(self, most: int, search: Search) -> list[Combination]:
        """Return some combinations within the limits, none if there is none.

        In each step at most so many labels are kept, the cheapest.
        """
        steps = self._steps(most, search)
        if len(steps) <= len(self.groups):
            return []
        last = len(steps[-1].uses)
        return [self._combination(steps, at) for at in range(min(last, MAX_COMBINATIONS))]

    def _steps(self, most: int, search: Search) -> list[Labels]:
        """Return the labels after each group, up to the first without any."""
        uses = [plans.uses for plans in self.groups]
        values = [of @ self.price for of in uses]
        rest_value = _suffix([np.array([value.min()]) for value in values])[:, 0]
        rest_low = _suffix([of.min(axis=0) for of in uses])
        rest_high = _suffix([of.max(axis=0) for of in uses])
        total = int(self.limit @ self.price)
        steps = [Labels(np.zeros((1, len(self.limit)), np.int64), *np.zeros((2, 1), np.int64))]
        for k, (of, value) in enumerate(zip(uses, values, strict=True), start=1):
            rest = _Rest(total - int(rest_value[k]), rest_low[k], rest_high[k])
            added = self._added(steps[-1], of, value, rest, search)
            if not len(added.uses) or search.stopped:
                break
            if len(added.uses) > most:
                cheapest = np.argsort(added.uses @ self.price, kind="stable")[:most]
                added = added.only(cheapest)
                self.complete = False
            steps.append(added)
        return steps

    def _added(
        self, before: Labels, plans: Ints, values: Ints, rest: "_Rest", search: Search
    ) -> Labels:
        """Return the labels with one of a group's plans added; a block of them at a time."""
        so_far = before.uses @ self.price
        block = max(1, MAX_CANDIDATES // len(plans))
        parts = []
        for first in range(0, len(so_far), block):
            if search.stopped:
                break
            open_value = so_far[first : first + block, None] + values <= rest.value
            spend(open_value.size / SUMS_PER_UNIT)
            parent, plan = np.nonzero(open_value)
            parent += first
            found = before.uses[parent] + plans[plan]
            fits = (found + rest.low <= self.limit).all(axis=1)
            fits &= found[:, READS] + rest.high[READS] >= self.limit[READS]
            found, parent, plan = found[fits], parent[fits], plan[fits]
            # What is offered beyond all that can still be needed is as good as just that.
            found[:, SHARED:] = np.maximum(found[:, SHARED:], -rest.high[SHARED:])
            labels = Labels(found, parent, plan)
            parts.append(labels.only(undominated(found, READS)))
        if len(parts) == 1:
            return parts[0]
        joined = Labels.joined(parts, len(self.limit))
        return joined.only(undominated(joined.uses, READS))

    def _combination(self, steps: Sequence[Labels], label: int) -> Combination:
        """Return each group's plan in one of the last labels."""
        found = []
        for plans, step in zip(reversed(self.groups), reversed(steps[1:]), strict=True):
            found.append((plans, int(step.plan[label])))
            label = int(step.parent[label])
        return found


def _suffix(rows: Sequence[NDArray[np.int64]]) -> Ints:
    """Return the sum of the rows from each on, and 0 at the end; shape (rows + 1, columns)."""
    stacked = np.array([*rows, np.zeros_like(rows[0])], dtype=np.int64)
    return stacked[::-1].cumsum(axis=0)[::-1]
