"""The feasibility subproblem of one makespan and one number of striped reads.

Plans of all DIMMs are combined without saying where experts are brought; thresholds on how long
they keep a DIMM busy are added as combinations are found whose experts no DIMMs have room for. The
combinations are found by label setting over the plans of all groups, pruned by Lagrangian
multipliers.
"""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from moeopt.algorithms.labels import LabelSetting, undominated, whole_prices
from moeopt.core.clock import spend
from moeopt.core.search import Feasibility, Search
from moeopt.problems.relayout.check import objective, violations
from moeopt.problems.relayout.instance import Domain, Migration, Solution
from moeopt.problems.relayout.modes import Modes

from .plans import (
    GPU,
    LINK,
    PCIE,
    READS,
    SHARED,
    Ints,
    Limits,
    Offers,
    Plans,
    TooManyError,
    tabulate,
)


def multipliers(groups: Sequence[Plans], limit: Ints, span: Ints) -> Ints | None:
    """Return integer multipliers of the shared columns that are best for the linear relaxation.

    Rounding them to integers keeps them multipliers; `span` is the most that all groups use of each
    column. None where the linear program is not solved.

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
    return whole_prices(price, span)


LINEAR = 2_000_000
"""Entries of a linear program that is solved in a unit of work."""

MAX_COMBINATIONS = 50
"""Up to so many are looked at."""

Combination = list[tuple[Plans, int]]
"""The plans of each group, and the number of the one taken."""


PLANS_PER_UNIT = 50_000
"""Plans of DIMMs that are listed in a unit of work."""


class PlanModel:
    """The subproblems of an instance, decided by combinations of plans.

    Parameters
    ----------
    modes
        The instance; `TooManyError` if a DIMM has too many plans.
    largest
        No makespan beyond this one is asked for, in steps.

    Attributes
    ----------
    exact
        Whether plans know of every rule. They know nothing of channels: what is refuted without
        them is refuted, what is found may break RE-C11 and then says nothing.
    thresholds
        Of each number of striped reads, so far.
    """

    def __init__(self, modes: Modes, largest: int) -> None:
        self.modes, self.limits = modes, Limits.of(modes)
        self.plans = tabulate(modes, self.limits)
        spend(sum(map(len, self.plans)) / PLANS_PER_UNIT)
        limit = self.limits.vector(modes, largest, len(modes.rows), 0)
        self._span = sum((plans.uses.max(axis=0) for plans in self.plans), start=limit)
        self.exact = modes.instance.channels is None
        self.thresholds: dict[int, set[int]] = {reads: set() for reads in modes.reads}
        self._price = np.zeros(SHARED, dtype=np.int64)
        self._full_price: tuple[Ints, dict[int, int]] = (self._price, {})

    @staticmethod
    def applies(modes: Modes) -> bool:
        """Return whether plans are of use: not where each DIMM's link has a window of its own.

        There the sum of all windows, which plans know of, permits far too much.
        """
        return modes.instance.relayout_share_ns is None

    def solve(
        self, makespan: int, reads: int, search: Search, most: int
    ) -> tuple[Feasibility, Solution | None]:
        """Decide whether a makespan can be reached, with at most so many labels per step."""
        capacity = makespan - reads * self.modes.striped_read
        on_channels = reads * self.modes.channel_read
        if capacity < 0 or makespan < max(on_channels, self.modes.base):
            return Feasibility.INFEASIBLE, None
        thresholds = self.thresholds[reads]
        try:
            while not search.stopped:
                found = self._labels(makespan, reads, capacity)
                if found is None:
                    return Feasibility.INFEASIBLE, None
                groups, labels = found
                number = min(MAX_COMBINATIONS, len(labels.run(most, lambda: search.stopped)))
                combined = [
                    list(zip(groups, labels.choice(at), strict=True)) for at in range(number)
                ]
                if not combined:
                    refuted = labels.complete and not search.stopped
                    return Feasibility.INFEASIBLE if refuted else Feasibility.UNKNOWN, None
                wanted: set[int] = set()
                for taken in combined:
                    places = self._places(taken, capacity)
                    if places is not None:
                        return self._decided(taken, places, makespan)
                    brought = {int(n) for plans, k in taken for n in plans.needs[k] if n}
                    wanted = wanted or brought - thresholds
                if not wanted:
                    break
                thresholds.add(max(wanted))
        except TooManyError:
            pass
        return Feasibility.UNKNOWN, None

    def _labels(
        self, makespan: int, reads: int, capacity: int
    ) -> tuple[list[Plans], LabelSetting] | None:
        """Return the plans that multipliers leave open, None if they refute the makespan."""
        lengths = sorted(self.thresholds[reads])
        limit = self.limits.vector(self.modes, makespan, reads, len(lengths))
        groups = [plans.fitting(capacity) for plans in self.plans]
        if not all(len(plans) for plans in groups):
            return None
        if not (groups := _open(groups, limit[:SHARED], self._price)):
            return None
        offers = Offers.of(lengths, self.modes.link_moves, capacity)
        groups = [offers.applied(plans, capacity) for plans in groups]
        shared, of_lengths = self._full_price
        price = np.array([*shared, *(of_lengths.get(length, 0) for length in lengths)])
        if not (groups := _open(groups, limit, price)):
            return None
        groups = [plans.only(undominated(plans.uses, READS)) for plans in groups]
        most = len(self.modes.rows) + self.modes.dimms * self.modes.link_moves
        found = multipliers(groups, limit, np.array([*self._span, *[most] * len(lengths)]))
        if found is not None:
            price = found
            self._full_price = price[:SHARED], dict(zip(lengths, price[SHARED:], strict=True))
            if not lengths:
                self._price = price
        labels = _setting(groups, limit, price)
        return None if labels.refuted else (groups, labels)

    def _places(self, taken: Combination, capacity: int) -> list[int] | None:
        """Return the DIMM of each expert that is brought to one, longest first; None if none."""
        lengths = sorted((int(n) for plans, k in taken for n in plans.needs[k] if n), reverse=True)
        dimms = [(plans.dimm, capacity - int(plans.load[k])) for plans, k in taken]
        slack = dict(entry for entry in dimms if entry[0] >= 0)
        return _packed(lengths, slack)

    def _decided(
        self, taken: Combination, places: Sequence[int], makespan: int
    ) -> tuple[Feasibility, Solution | None]:
        """Return the solution, unless it breaks a rule that plans know nothing of."""
        solution = self._decode(taken, places)
        instance = self.modes.instance
        found = objective(instance, solution)
        if found > makespan * self.modes.step_ns or violations(instance, solution, found):
            return Feasibility.UNKNOWN, None
        return Feasibility.FEASIBLE, solution

    def _decode(self, taken: Combination, places: Sequence[int]) -> Solution:
        """Return the solution with the experts that are brought somewhere, longest first, there.

        Those that take no time there are brought anywhere.
        """
        instance = self.modes.instance
        chosen = [
            self.modes.of[row][choice]
            for plans, number in taken
            for row, choice in zip(plans.rows, plans.modes[number].tolist(), strict=True)
        ]
        assignment: list[Domain | None] = [None] * len(instance.experts)
        for mode in chosen:
            assignment[mode.row] = mode.domain
        brought = [(mode.arrives, mode.row) for mode in chosen if mode.arrives is not None]
        brought.sort(key=lambda entry: -entry[0])
        rest = [0] * (len(brought) - len(places))
        place = {row: at for (_, row), at in zip(brought, [*places, *rest], strict=True)}
        migrations = [
            Migration(
                expert=instance.experts[mode.row].expert, kind=mode.kind, dimm=place.get(mode.row)
            )
            for mode in chosen
            if mode.kind and (mode.arrives is None or place[mode.row] != self.modes.dimm[mode.row])
        ]
        return Solution(
            instance=instance.name, migrations=tuple(migrations), assignment=tuple(assignment)
        )


def _setting(groups: Sequence[Plans], limit: Ints, price: Ints) -> LabelSetting:
    """Return the choices of one plan per group: any within the limits will do."""
    return LabelSetting([plans.uses for plans in groups], limit, price, equal=READS)


def _open(groups: Sequence[Plans], limit: Ints, price: Ints) -> list[Plans]:
    """Return the plans that multipliers leave open; nothing where they leave no choice."""
    kept = _setting(groups, limit, price)
    if kept.refuted:
        return []
    return [plans.only(of) for plans, of in zip(groups, kept.open, strict=True)]


def _packed(lengths: Sequence[int], slack: dict[int, int]) -> list[int] | None:
    """Return a DIMM with room for each length, None if there is no such packing."""
    if not lengths:
        return []
    tried = set()
    for dimm in sorted(slack, key=lambda dimm: slack[dimm]):
        room = slack[dimm] - lengths[0]
        if room >= 0 and room not in tried:
            tried.add(room)
            rest = _packed(lengths[1:], slack | {dimm: room})
            if rest is not None:
                return [dimm, *rest]
    return None
