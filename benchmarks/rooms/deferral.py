"""Names of problem `deferral` that benchmarks and `instances/` use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.problems.deferral.check": ("objective",),
        "moeopt.problems.deferral.generate": ("BITS",),
        "moeopt.problems.deferral.heuristics": ("none", "saturate", "uniform"),
        "moeopt.problems.deferral.instance": ("Instance", "Solution"),
        "moeopt.problems.deferral.scores": ("TABLE_2", "skipping"),
        "moeopt.problems.deferral.view": ("lanes",),
    }
)
