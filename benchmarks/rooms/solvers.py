"""Names of room `solvers` that benchmarks and `instances/` use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.solvers.backends": ("EXACT",),
        "moeopt.solvers.in_parts as in_parts": (),
        "moeopt.solvers.methods": ("get_method", "problem_methods"),
        "moeopt.solvers.process": ("end_all",),
        "moeopt.solvers.result": ("with_unit",),
        "moeopt.solvers.warm": ("warm",),
    }
)
