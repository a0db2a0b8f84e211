"""Names of room `problems` that benchmarks and `instances/` use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.problems.execute": ("compare", "execute"),
        "moeopt.problems.pictures": ("save_figure",),
        "moeopt.problems.registry": ("PROBLEMS", "get_problem"),
    }
)
