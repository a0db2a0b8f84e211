"""Names of room `solvers` that benchmarks and `instances/` use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.solvers.backends": ("EXACT",),
        "moeopt.solvers.methods": ("problem_methods",),
        "moeopt.solvers.process": ("end_all",),
        "moeopt.solvers.result": ("with_unit",),
        "moeopt.solvers.warm": ("warm",),
    }
)
