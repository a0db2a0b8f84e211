"""Names of problem `cache` that tests use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.problems.cache": ("HEURISTICS",),
        "moeopt.problems.cache.bounds": (
            "Sides",
            "bisect",
            "cheapest",
            "dual_function",
            "priced_ns",
        ),
        "moeopt.problems.cache.check as check": (
            "CONSTRAINTS",
            "Served",
            "candidates",
            "count",
            "objective",
            "serve",
            "violations",
        ),
        "moeopt.problems.cache.dynamic_program as dynamic_program": ("Answer", "within"),
        "moeopt.problems.cache.generate": ("slots_of",),
        "moeopt.problems.cache.heuristics": (
            "best_uniform",
            "greedy_marginal",
            "proportional",
            "uniform",
            "uniform_ways",
        ),
        "moeopt.problems.cache.instance as instance": (
            "Instance",
            "MAX_TRACE_NS",
            "Solution",
        ),
        "moeopt.problems.cache.view as view": (),
    }
)
