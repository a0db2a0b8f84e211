"""Heuristics of problem `placement`, as data."""

from moeopt.core.problem import Heuristic

RULES = (
    Heuristic("frequency", ".heuristics:frequency", "past loads", "offline profile"),
    Heuristic(
        "per-layer-frequency", ".heuristics:per_layer_frequency", "past loads", "offline profile"
    ),
    Heuristic("importance", ".heuristics:importance", "past loads", "prefill counts and scores"),
    Heuristic("offload-time", ".heuristics:offload_time", "oracle"),
    Heuristic("uniform-x", ".heuristics:uniform_x", "past loads", "prefill counts"),
    Heuristic("front-loading", ".heuristics:front_loading", "none"),
    Heuristic("last-first", ".heuristics:last_first", "none"),
    Heuristic("random", ".heuristics:random", "none"),
    Heuristic("fiddler", ".heuristics:fiddler", "past loads", "offline profile"),
    Heuristic("frequency-hindsight", ".heuristics:frequency_hindsight", "oracle"),
    Heuristic(
        "per-layer-frequency-hindsight", ".heuristics:per_layer_frequency_hindsight", "oracle"
    ),
    Heuristic("importance-hindsight", ".heuristics:importance_hindsight", "oracle"),
    Heuristic("uniform-x-hindsight", ".heuristics:uniform_x_hindsight", "oracle"),
    Heuristic("fiddler-hindsight", ".heuristics:fiddler_hindsight", "oracle"),
    Heuristic(
        "frequency-stop",
        ".heuristics:frequency_stop",
        "oracle",
        "offline profile, stops in hindsight",
    ),
    Heuristic(
        "per-layer-frequency-stop",
        ".heuristics:per_layer_frequency_stop",
        "oracle",
        "offline profile, stops in hindsight",
    ),
    Heuristic(
        "importance-stop",
        ".heuristics:importance_stop",
        "oracle",
        "prefill counts and scores, stops in hindsight",
    ),
    Heuristic("offload-time-stop", ".heuristics:offload_time_stop", "oracle"),
)
"""Each with the loads that it decides by."""
