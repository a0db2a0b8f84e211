"""Which heuristic is the one that a problem's paper publishes, and what is exact."""

from moeopt.problems.registry import get_problem
from moeopt.solvers.methods import problem_methods
from moeopt.study.rows import Row


def title(problem: str) -> str:
    """Return what a problem decides."""
    return get_problem(problem).info.title


def is_exact(problem: str, method: str) -> bool:
    """Tell whether a method can prove; one that no longer exists counts as a heuristic."""
    found = problem_methods(get_problem(problem)).get(method)
    return found is not None and found.kind == "exact"


def own_heuristic(problem: str, rows: list[Row]) -> tuple[str, str] | None:
    """Return the published heuristic and its paper, else the first heuristic with an empty paper.

    None where the rows have no heuristic.
    """
    methods = dict.fromkeys(row.key.method for row in rows)
    info = get_problem(problem).info
    if info.published_rule in methods:
        return info.published_rule, info.paper
    return next(((name, "") for name in methods if not is_exact(problem, name)), None)
