"""Heuristics of problem `layout`, as data."""

from moeopt.core.problem import Heuristic

RULES = (
    Heuristic("trimoe-layout", ".heuristics:trimoe_layout", "oracle", label="hindsight"),
    Heuristic(
        "trimoe-layout-tuned", ".heuristics:trimoe_layout_tuned", "oracle", label="hindsight"
    ),
    Heuristic("lpt", ".heuristics:lpt", "oracle", label="hindsight"),
    Heuristic("local-search", ".heuristics:local_search", "oracle", label="hindsight"),
    Heuristic("trimoe", ".systems:trimoe", "oracle", label="cold localized"),
    Heuristic(
        "trimoe-best-schedule", ".systems:trimoe_best_schedule", "oracle", label="TriMoE's layout"
    ),
    Heuristic("klotski", ".systems:klotski", "oracle", label="all striped"),
    Heuristic("ktransformers", ".systems:ktransformers", "oracle", label="all striped"),
    Heuristic("monde", ".systems:monde", "oracle", label="all localized"),
    Heuristic("fiddler", ".systems:fiddler", "oracle", label="all striped"),
    Heuristic(
        "hybrimoe",
        ".systems:hybrimoe",
        "oracle",
        coincides_with="ktransformers",
        label="all striped",
    ),
    Heuristic(
        "dual-copies",
        ".with_copies:dual_copies",
        "current loads",
        needs="copies",
        label="striped and on a DIMM by number",
    ),
    Heuristic(
        "two-localized",
        ".with_copies:two_localized",
        "current loads",
        needs="copies",
        label="on two DIMMs by number",
    ),
    Heuristic(
        "copies-by-load",
        ".with_copies:copies_by_load",
        "oracle",
        needs="copies",
        label="hot striped, cold localized, both between",
    ),
)
"""Each with the loads that it decides by."""
