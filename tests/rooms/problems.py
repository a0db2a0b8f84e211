"""Names of room `problems` that tests use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.problems.execute": ("compare", "critical_lanes", "execute"),
        "moeopt.problems.generate": ("generator_of",),
        "moeopt.problems.holdout": ("is_scheduled", "joined", "separated", "windows_of"),
        "moeopt.problems.registry": ("AnyProblem", "PROBLEMS", "get_problem"),
        "moeopt.problems.twins": ("check_later", "family_of", "forecast_saw_later"),
    }
)
