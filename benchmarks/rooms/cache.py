"""Names of problem `cache` that benchmarks and `instances/` use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.problems.cache.bounds": ("sides_of",),
        "moeopt.problems.cache.dynamic_program as dynamic_program": ("solve",),
        "moeopt.problems.cache.generate": ("slots_of",),
        "moeopt.problems.cache.heuristics": ("best_uniform", "uniform"),
        "moeopt.problems.cache.instance": (
            "Curves",
            "Instance",
            "Ints",
        ),
    }
)
