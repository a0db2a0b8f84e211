"""What each problem decides, and which heuristic is the one that its paper publishes."""

from moeopt.problems.registry import get_problem
from moeopt.solvers.methods import problem_methods
from moeopt.study.rows import Row

TITLES = {
    "tri_domain": "Where each expert of a layer runs",
    "relayout": "Which experts migrate before a layer",
    "layout": "Where the experts lie",
    "deferral": "How many experts each layer defers",
    "balance": "What the GPU takes from the NDP units",
    "cache": "How many experts of each layer the GPU caches",
    "bitwidth": "How many bits each expert gets",
    "placement": "Which experts live on the GPU",
}
"""Problem -> what is decided."""

PUBLISHED = {
    "tri_domain": ("trimoe", "TriMoE"),
    "relayout": ("benefit-greedy", "TriMoE"),
    "layout": ("trimoe-layout", "TriMoE"),
    "deferral": ("saturate", "KTransformers"),
    "balance": ("framework", "Edge GPU-NDP"),
    "cache": ("uniform-ways", "CPU-GPU collaborative"),
    "bitwidth": ("prefix-split", "Context-aware CXL-NDP"),
    "placement": ("frequency", "KTransformers"),
}
"""Problem -> the heuristic that decides so in a published system, and the system's paper."""


def title(problem: str) -> str:
    """Return what a problem decides, or its name."""
    return TITLES.get(problem, problem)


def is_exact(problem: str, method: str) -> bool:
    """Tell whether a method can prove; one that no longer exists counts as a heuristic."""
    found = problem_methods(get_problem(problem)).get(method)
    return found is not None and found.kind == "exact"


def own_heuristic(problem: str, rows: list[Row]) -> tuple[str, str] | None:
    """Return the published heuristic and its paper, else the first heuristic with an empty paper.

    None where the rows have no heuristic.
    """
    methods = dict.fromkeys(row.key.method for row in rows)
    method, paper = PUBLISHED.get(problem, ("", ""))
    if method in methods:
        return method, paper
    return next(((name, "") for name in methods if not is_exact(problem, name)), None)
