"""Bounds on several scenarios: wait and see (Madansky 1960), then the aggregated model."""

from dataclasses import dataclass, field

from moeopt.core.search import Search
from moeopt.problems.layout.bounds import lower_bound, objective_grid
from moeopt.problems.layout.instance import Instance
from moeopt.problems.layout.second_stage import Layout
from moeopt.problems.layout.single_scenario import solve_scenario

from .aggregated import aggregated

WAIT_AND_SEE_SHARE = 0.4
"""Part of the time that the scenarios by themselves may take; they mostly need little of it."""


@dataclass
class JointBound:
    """The bounds of one instance; each goes to the search as soon as it is proven.

    Attributes
    ----------
    alone
        Weighted wait-and-see bound of each scenario.
    together
        The better of the aggregated bounds on all scenarios; 0 before one is known.
    """

    instance: Instance
    search: Search
    alone: list[int] = field(default_factory=list)
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
        for whole in (False, True):  # the second is for what time the first has left over
            if self._left(until_s) > 0 and not self.search.closed:
                self._aggregate(self._left(until_s), whole)

    def _aggregate(self, limit_s: float, whole: bool) -> None:
        """Solve the aggregated model, with no makespan below its wait-and-see bound."""
        everything = list(range(len(self.alone)))
        model = aggregated(self.instance, everything, whole)
        for s, makespan in zip(everything, model.makespans, strict=True):
            least = self.alone[s] // self.instance.scenarios[s].weight
            model.lower[makespan] = least / model.unit_ns
        found = model.solve(limit_s)
        bound = model.proven(self.instance, found, everything)
        self.together = max(self.together, bound)
        self._prove(bound, floats=True)

    def _left(self, until_s: float) -> float:
        return max(0.0, self.search.remaining_s - until_s)

    def _prove(self, bound: int, *, floats: bool = False) -> None:
        grid = objective_grid(self.instance)
        self.search.prove(-(-bound // grid) * grid, floats=floats)


def scenario_bounds(
    instance: Instance,
    search: Search,
    share_s: float,
    layouts: list[Layout] | None = None,
    trusted: list[bool] | None = None,
) -> list[int]:
    """Return weight times a proven bound on the makespan of each scenario by itself.

    Their sum, and the sum over any part of the scenarios for these, is a bound: whatever layout is
    chosen for all is one that each scenario may choose.

    Parameters
    ----------
    share_s
        About how many seconds may be spent; each scenario gets an equal share of what is left.
    layouts
        Gets the best layout found for each scenario by itself.
    trusted
        Gets for each whether its bound rests on a solver of floats.
    """
    begin = search.remaining_s
    found = []
    for number, scenario in enumerate(instance.scenarios):
        left = max(0.0, share_s - (begin - search.remaining_s))
        until = search.remaining_s - left / (len(instance.scenarios) - number)

        def remaining(until: float = until) -> float:
            return max(0.0, search.remaining_s - until)

        answer = solve_scenario(instance, number, remaining, seed=search.seed, verify=search.verify)
        found.append(scenario.weight * answer.bound_ns)
        if trusted is not None:
            trusted.append(answer.floats)
        if layouts is not None and answer.resident is not None and answer.dimm is not None:
            layouts.append(Layout(answer.resident, answer.dimm))
    return found
