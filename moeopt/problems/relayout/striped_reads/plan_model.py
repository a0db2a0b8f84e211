"""The feasibility subproblem of one makespan and one number of striped reads.

Plans of all DIMMs are combined without saying where experts are brought; thresholds on how long
they keep a DIMM busy are added as combinations are found whose experts no DIMMs have room for.
"""

from collections.abc import Sequence

import numpy as np

from moeopt.core.clock import spend
from moeopt.core.search import Feasibility, Search
from moeopt.problems.relayout.check import objective, violations
from moeopt.problems.relayout.instance import Domain, Migration, Solution

from .labels import Combination, LabelSetting, multipliers
from .modes import Modes
from .pareto import undominated
from .plans import READS, SHARED, Ints, Limits, Offers, TooManyError, tabulate

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
                labels = self._labels(makespan, reads, capacity)
                if labels is None:
                    return Feasibility.INFEASIBLE, None
                combined = labels.run(most, search)
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

    def _labels(self, makespan: int, reads: int, capacity: int) -> LabelSetting | None:
        """Return the plans that multipliers leave open, None if they refute the makespan."""
        lengths = sorted(self.thresholds[reads])
        limit = self.limits.vector(self.modes, makespan, reads, len(lengths))
        groups = [plans.fitting(capacity) for plans in self.plans]
        if not all(len(plans) for plans in groups):
            return None
        known = LabelSetting(groups, limit[:SHARED], self._price)
        if known.refuted:
            return None
        offers = Offers.of(lengths, self.modes.link_moves, capacity)
        groups = [offers.applied(plans, capacity) for plans in known.groups]
        shared, of_lengths = self._full_price
        price = np.array([*shared, *(of_lengths.get(length, 0) for length in lengths)])
        known = LabelSetting(groups, limit, price)
        if known.refuted:
            return None
        groups = [plans.only(undominated(plans.uses, READS)) for plans in known.groups]
        most = len(self.modes.rows) + self.modes.dimms * self.modes.link_moves
        found = multipliers(groups, limit, np.array([*self._span, *[most] * len(lengths)]))
        if found is not None:
            price = found
            self._full_price = price[:SHARED], dict(zip(lengths, price[SHARED:], strict=True))
            if not lengths:
                self._price = price
        labels = LabelSetting(groups, limit, price)
        return None if labels.refuted else labels

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
