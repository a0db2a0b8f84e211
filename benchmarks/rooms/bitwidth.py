"""Names of problem `bitwidth` that benchmarks and `instances/` use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.problems.bitwidth.instance": ("Instance",),
    }
)
