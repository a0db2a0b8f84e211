"""Heuristics of problem `replication`, as data."""

from moeopt.core.problem import Heuristic

ONE_NODE = ("nodes", 1)

RULES = (
    Heuristic("eplb", ".heuristics:eplb", "oracle", knows_only=ONE_NODE),
    Heuristic(
        "eplb-hierarchical", ".heuristics:eplb_hierarchical", "oracle", coincides_with="eplb"
    ),
    Heuristic("flashlb", ".heuristics:flashlb", "oracle", knows_only=ONE_NODE),
    Heuristic("lplb", ".heuristics:lplb", "oracle", coincides_with="eplb", knows_only=ONE_NODE),
    Heuristic("static-split", ".heuristics:static_split", "oracle"),
    Heuristic("metro", ".heuristics:metro", "oracle"),
    Heuristic(
        "eplb-without-copies", ".heuristics:eplb_without_copies", "oracle", knows_only=ONE_NODE
    ),
    Heuristic("biased", ".heuristics:biased", "oracle", knows_only=ONE_NODE),
    Heuristic("swift-balancer", ".heuristics:swift_balancer", "oracle", knows_only=ONE_NODE),
    Heuristic("topology-swaps", ".heuristics:topology_swaps", "oracle"),
    Heuristic("longest-first", ".heuristics:longest_first", "oracle"),
    Heuristic("round-robin", ".heuristics:round_robin", "none"),
)
"""Each with the loads that it decides by."""
