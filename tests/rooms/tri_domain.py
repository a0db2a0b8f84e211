"""Names of problem `tri_domain` that tests use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.problems.tri_domain": ("HEURISTICS",),
        "moeopt.problems.tri_domain.bounds as bounds": (
            "busiest_channel_ns",
            "busiest_dimm_ns",
            "lagrangian_bound_ns",
            "longest_expert_ns",
            "lower_bound",
        ),
        "moeopt.problems.tri_domain.check as check": (
            "CONSTRAINTS",
            "Loads",
            "candidates",
            "count",
            "loads",
            "objective",
            "violations",
        ),
        "moeopt.problems.tri_domain.cpsat as cpsat": (),
        "moeopt.problems.tri_domain.execute": ("execute",),
        "moeopt.problems.tri_domain.expert": ("Copy", "Expert", "Layout", "STRIPED"),
        "moeopt.problems.tri_domain.generate": ("Options", "of_load", "assume as assume"),
        "moeopt.problems.tri_domain.heuristics as heuristics": (
            "fiddler",
            "fiddler_as_coded",
            "greedy",
            "hybrimoe",
            "klotski",
            "ktransformers",
            "monde",
            "trimoe",
        ),
        "moeopt.problems.tri_domain.instance as instance": (
            "DOMAINS",
            "Instance",
            "Solution",
            "modes_of",
        ),
        "moeopt.problems.tri_domain.layout_rule": ("cold_localized", "expected_ndp_ns"),
        "moeopt.problems.tri_domain.online as online": (),
        "moeopt.problems.tri_domain.assumptions": ("ASSUMPTIONS",),
        "moeopt.problems.tri_domain.threshold as threshold": (),
        "moeopt.problems.tri_domain.threshold.copies as threshold_copies": (),
        "moeopt.problems.tri_domain.threshold.feasibility": ("decide",),
        "moeopt.problems.tri_domain.threshold.incumbent": ("first_schedule", "simple_bound"),
        "moeopt.problems.tri_domain.threshold.pareto": ("pareto_labels",),
        "moeopt.problems.tri_domain.threshold.search as search": (
            "Bracket",
            "NO_CUTOFF",
            "grid_and_scale",
            "solve",
        ),
        "moeopt.problems.tri_domain.view": ("facts", "lanes"),
    }
)
