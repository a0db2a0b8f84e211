"""Names of problem `threads` that tests use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.problems.threads.assumptions": ("ASSUMPTIONS",),
        "moeopt.problems.threads.bounds": (
            "MOST_TOGETHER",
            "Refuter",
            "SHARES",
            "lower_bound",
            "objective_grid",
        ),
        "moeopt.problems.threads.check": (
            "CONSTRAINTS",
            "candidates",
            "count",
            "ends_ns",
            "objective",
            "violations",
        ),
        "moeopt.problems.threads.fill": ("filled", "items_of", "solve"),
        "moeopt.problems.threads.generate": ("assume as assume",),
        "moeopt.problems.threads.heuristics": (
            "dynamic",
            "dynamic_round_robin",
            "lpt",
            "static",
            "static_all_threads",
        ),
        "moeopt.problems.threads.instance": ("Instance", "Solution"),
        "moeopt.problems.threads.view": ("facts", "lanes"),
    }
)
