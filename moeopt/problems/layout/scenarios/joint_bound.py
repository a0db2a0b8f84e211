"""Which bounds to compute, in what order, and how they add up."""

from dataclasses import dataclass, field

import numpy as np

from moeopt.problems.layout.bounds import lower_bound, objective_grid
from moeopt.problems.layout.check import loads
from moeopt.problems.layout.instance import Instance
from moeopt.problems.search import Search

from .aggregated import Model, aggregated, proven
from .levels import add_levels, even_thresholds
from .rows import Rows
from .wait_and_see import scenario_bounds

LEVELS = 16
"""Thresholds per scenario."""

MARGIN = 1.25
"""The highest threshold, relative to the longest DIMM's own work in the best plan."""

GROUP = 4
"""Scenarios in a model with levels: more of them HiGHS does not get far with."""

CHUNKY = 3.0
"""Localized experts per DIMM below which levels are worth more than the plain model."""

WAIT_AND_SEE_SHARE = 0.1
PLAIN_SHARE = 0.15


@dataclass
class JointBound:
    """The bounds of one instance; each goes to the search as soon as it is proven.

    Attributes
    ----------
    group
        How many scenarios a model with levels has at most.
    alone
        Weighted wait-and-see bound of each scenario.
    together
        Aggregated bound on all scenarios.
    grouped
        Bound of each group of scenarios, with levels.
    """

    instance: Instance
    rows: Rows
    search: Search
    group: int = GROUP
    alone: list[int] = field(default_factory=list)
    together: int = 0
    grouped: dict[tuple[int, ...], int] = field(default_factory=dict)

    def raise_until(self, until_s: float) -> None:
        """Raise the bound until `until_s` seconds are left of the search's time."""
        self._prove(lower_bound(self.instance))
        self.alone = scenario_bounds(
            self.instance, self.search, WAIT_AND_SEE_SHARE * self._left(until_s)
        )
        self._prove(sum(self.alone))
        everything = list(range(len(self.alone)))
        chunky = self._chunky()
        if self._left(until_s) > 0 and not self.search.closed:
            model = self._model(everything)
            share = PLAIN_SHARE if chunky else 1.0
            found = model.solve(share * self._left(until_s))
            self.together = proven(self.instance, self.rows, model, found, everything)
            self._prove(self.together)
        if chunky or self._left(until_s) > 0:
            self._groups(until_s)

    def ungrouped(self) -> list[int]:
        """Return the scenarios that no group has, or no group yet."""
        grouped = {s for members in self.grouped for s in members}
        return [s for s in range(len(self.alone)) if s not in grouped]

    def _groups(self, until_s: float) -> None:
        groups = np.array_split(np.arange(len(self.alone)), -(-len(self.alone) // self.group))
        for turn, members in enumerate(groups):
            left = self._left(until_s) / (len(groups) - turn)
            if left <= 0 or self.search.closed:
                break
            group = tuple(members.tolist())
            model = self._with_levels(list(group))
            found = model.solve(left)
            bound = proven(self.instance, self.rows, model, found, list(group))
            self.grouped[group] = max(bound, sum(self.alone[s] for s in group))
            rest = sum(self.alone[s] for s in self.ungrouped())
            self._prove(sum(self.grouped.values()) + rest)

    def _model(self, scenarios: list[int]) -> Model:
        """Return the aggregated model; no makespan is below its wait-and-see bound."""
        model = aggregated(self.instance, self.rows, scenarios)
        for s, columns in zip(scenarios, model.scenarios, strict=True):
            least = self.alone[s] // int(self.rows.weight[s])
            model.lower[columns.makespan] = least / model.unit_ns
        return model

    def _with_levels(self, scenarios: list[int]) -> Model:
        model = self._model(scenarios)
        add_levels(
            model,
            self.instance.dimms,
            [even_thresholds(self._top_ns(s), LEVELS) for s in scenarios],
        )
        return model

    def _top_ns(self, s: int) -> int:
        """Return the highest threshold: a little above what the best plan's DIMMs hold."""
        return max(1, round(MARGIN * self._own_ns(s)))

    def _own_ns(self, s: int) -> int:
        """Return the longest DIMM's work in the best plan besides striped reads."""
        plan = self.search.solution
        reads = sum(
            1
            for i, domain in enumerate(plan.assignment[s])
            if plan.dimm[i] is None
            and (domain == "cpu" or (domain == "gpu" and not plan.resident[i]))
        )
        busy = loads(self.instance, plan)[s].dimm_ns
        return max(busy) - reads * self.instance.dram_striped_ns

    def _chunky(self) -> bool:
        """Tell whether the best plan's DIMMs hold few experts each."""
        held = sum(d is not None for d in self.search.solution.dimm)
        return held < CHUNKY * self.instance.dimms

    def _left(self, until_s: float) -> float:
        return max(0.0, self.search.remaining_s - until_s)

    def _prove(self, bound: int) -> None:
        grid = objective_grid(self.instance)
        self.search.prove(-(-bound // grid) * grid)
