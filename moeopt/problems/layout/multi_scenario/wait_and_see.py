"""The wait-and-see bound (Madansky 1960): let each scenario have a layout of its own."""

from moeopt.core.search import Search
from moeopt.problems.layout.instance import Instance
from moeopt.problems.layout.second_stage import Layout
from moeopt.problems.layout.single_scenario import solve_scenario


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
