"""Names of problem `tri_domain` that benchmarks and `instances/` use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.problems.tri_domain.check": ("loads", "objective"),
        "moeopt.problems.tri_domain.expert": ("Expert", "Layout", "STRIPED"),
        "moeopt.problems.tri_domain.fixed_layout": ("Schedule", "scheduled"),
        "moeopt.problems.tri_domain.generate": ("resettled",),
        "moeopt.problems.tri_domain.heuristics as heuristics": (
            "HEURISTICS",
            "greedy",
            "monde",
            "trimoe",
        ),
        "moeopt.problems.tri_domain.instance": ("DOMAINS", "Domain", "Instance", "Solution"),
        "moeopt.problems.tri_domain.layout_rule": ("cold_localized",),
        "moeopt.problems.tri_domain.online": ("Scheduler",),
        "moeopt.problems.tri_domain.settlements": ("SETTLEMENTS",),
        "moeopt.problems.tri_domain.threshold.search": ("Bracket", "FIRST_WORK", "NO_CUTOFF"),
    }
)
