"""Heuristics of problem `tri_domain`, as data."""

from moeopt.core.problem import Heuristic

RULES = (
    Heuristic("greedy", ".heuristics:greedy", "current loads"),
    Heuristic("trimoe", ".heuristics:trimoe", "current loads"),
    Heuristic("klotski", ".heuristics:klotski", "current loads", label="on the given layout"),
    Heuristic(
        "ktransformers", ".heuristics:ktransformers", "current loads", label="on the given layout"
    ),
    Heuristic("monde", ".heuristics:monde", "current loads", label="on the given layout"),
    Heuristic("fiddler", ".heuristics:fiddler", "current loads", label="on the given layout"),
    Heuristic(
        "fiddler-as-coded",
        ".heuristics:fiddler_as_coded",
        "current loads",
        label="on the given layout",
    ),
    Heuristic("hybrimoe", ".heuristics:hybrimoe", "current loads", label="on the given layout"),
)
"""Each with the loads that it decides by."""
