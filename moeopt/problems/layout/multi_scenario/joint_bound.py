"""Which bounds to compute, in what order."""

from dataclasses import dataclass, field

from moeopt.core.search import Search
from moeopt.problems.layout.bounds import lower_bound, objective_grid
from moeopt.problems.layout.instance import Instance
from moeopt.problems.layout.second_stage import Layout

from .aggregated import aggregated
from .destructive_bounds import grouped_bounds
from .wait_and_see import scenario_bounds

WAIT_AND_SEE_SHARE = 0.4
"""Part of the time that the scenarios by themselves may take; they mostly need little of it."""

PACKING = 1.02
"""By so much wait and see exceeds the aggregated relaxation where packing is what matters most."""

GROUPS_SHARE = 0.95
"""Part of what time is left there for groups of scenarios; elsewhere they get what is left over."""


@dataclass
class JointBound:
    """The bounds of one instance; each goes to the search as soon as it is proven.

    Attributes
    ----------
    alone
        Weighted wait-and-see bound of each scenario.
    grouped
        The same of groups of scenarios, each with one layout; empty before any is known.
    together
        The better of the aggregated bounds on all scenarios; 0 before one is known.
    relaxed
        The optimum of the aggregated model's linear relaxation.
    """

    instance: Instance
    search: Search
    relaxed: float = 0.0
    alone: list[int] = field(default_factory=list)
    grouped: list[int] = field(default_factory=list)
    together: int = 0

    def wait_and_see(self) -> list[Layout]:
        """Prove the bound that all others begin at; return each scenario's own layout."""
        layouts = list[Layout]()
        self._prove(lower_bound(self.instance))
        share = WAIT_AND_SEE_SHARE * self.search.remaining_s
        trusted = list[bool]()
        self.alone = scenario_bounds(self.instance, self.search, share, layouts, trusted)
        self._prove(sum(self.alone), floats=any(trusted))
        return layouts

    def raise_until(self, until_s: float) -> None:
        """Raise the bound until `until_s` seconds are left of the search's time."""
        if PACKING * self.relaxed < sum(self.alone):
            self._group(until_s + (1 - GROUPS_SHARE) * self._left(until_s))
        for whole in (False, True):  # the second is for what time the first has left over
            if self._left(until_s) > 0 and not self.search.closed:
                self._aggregate(self._left(until_s), whole)
        self._group(until_s)

    def _group(self, until_s: float) -> None:
        """Raise the bounds of groups of scenarios, once.

        Not with `verify`: they rest on HiGHS's "infeasible", which nothing here confirms.
        """
        done = bool(self.grouped) or self.search.closed or self.search.verify
        if self._left(until_s) > 0 and not done:
            self.grouped = grouped_bounds(self.instance, self.search, self.alone, until_s)
            self._prove(sum(self.grouped), floats=True)

    def _aggregate(self, limit_s: float, whole: bool) -> None:
        """Solve the aggregated model, with no makespan below its wait-and-see bound."""
        everything = list(range(len(self.alone)))
        model = aggregated(self.instance, everything, whole)
        for s, columns in zip(everything, model.scenarios, strict=True):
            least = self.alone[s] // self.instance.scenarios[s].weight
            model.lower[columns.makespan] = least / model.unit_ns
        found = model.solve(limit_s)
        bound = model.proven(self.instance, found, everything)
        self.together = max(self.together, bound)
        self._prove(bound, floats=True)

    def _left(self, until_s: float) -> float:
        return max(0.0, self.search.remaining_s - until_s)

    def _prove(self, bound: int, *, floats: bool = False) -> None:
        grid = objective_grid(self.instance)
        self.search.prove(-(-bound // grid) * grid, floats=floats)
