"""Raising the wait-and-see bounds of a few scenarios at a time, by refuting what lies just above.

"Destructive" bounds (Klein and Scholl 1999): take a value, show that no plan is as good, take a
larger one. The nearer the value to the scenarios' least makespans, the less room there is on the
DIMMs and the stronger the refutation; each step up costs more than the one before.
`formulations/layout/spec.md`, section "Several scenarios", has the proof.
"""

from itertools import pairwise
from math import gcd

from moeopt.problems.layout.bounds import makespan_grid
from moeopt.problems.layout.instance import Instance
from moeopt.problems.layout.multi_scenario.rows import Rows
from moeopt.problems.search import Search

from .branching import Group, refute

GROUP = 4
"""Scenarios taken together at most: their programs grow, and so does the slack of each."""

STEPS = 1000
"""The first step up is such a part of the bound."""

QUICK = 0.05
"""Part of the time left in which a step must be done for the next one to be twice as long."""

PATIENCE = 0.5
"""Part of the time left that one step may take: half as long a step may still succeed."""


def groups_of(scenarios: int) -> list[list[int]]:
    """Return the scenarios in groups of neighbours, of nearly equal size."""
    count = -(-scenarios // GROUP)
    ends = [n * scenarios // count for n in range(count + 1)]
    return [list(range(a, b)) for a, b in pairwise(ends)]


def grouped_bounds(
    instance: Instance, rows: Rows, search: Search, alone: list[int], until_s: float
) -> list[int]:
    """Return a proven bound on the weighted makespans of each group of scenarios.

    Parameters
    ----------
    instance, rows
        The instance.
    search
        Its incumbent says what is worth refuting; its clock runs.
    alone
        Proven bounds on each scenario's weighted makespan.
    until_s
        Stop when so many seconds are left.
    """
    groups = groups_of(len(alone))
    found = []
    for number, group in enumerate(groups):
        share = (search.remaining_s - until_s) / (len(groups) - number)
        found.append(_raised(instance, rows, search, alone, group, search.remaining_s - share))
    return found


def _raised(
    instance: Instance,
    rows: Rows,
    search: Search,
    alone: list[int],
    scenarios: list[int],
    until_s: float,
) -> int:
    """Return the bound of one group: its scenarios' bounds, and all slack that was refuted."""
    least, total = sum(alone[s] for s in scenarios), sum(alone)
    weight = [int(rows.weight[s]) for s in scenarios]
    least_ns = [alone[s] // w for s, w in zip(scenarios, weight, strict=True)]
    grid = gcd(*(w * makespan_grid(instance, s) for s, w in zip(scenarios, weight, strict=True)))
    step, bound = max(grid, least // STEPS), least
    group = Group.of(instance, rows, scenarios, least_ns)
    while bound - least < _gap(search, total) and search.remaining_s > until_s:
        slack = min(bound + step, least + _gap(search, total) - 1) // grid * grid - least
        begin = search.remaining_s
        enough = begin - PATIENCE * (begin - until_s)

        def patience(enough: float = enough) -> float:
            return max(0.0, search.remaining_s - enough)

        verdict = refute(group, slack, patience)
        if verdict == "none":
            bound = -(-(least + slack + 1) // grid) * grid
            if begin - search.remaining_s < QUICK * (begin - until_s):
                step *= 2
        elif step <= grid:
            break
        else:
            step //= 2
    return bound


def _gap(search: Search, bound: int) -> int:
    """Return by how much the incumbent exceeds a bound; 0 without an incumbent."""
    return search.objective - bound if isinstance(search.objective, int) else 0
