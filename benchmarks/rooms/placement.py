"""Names of problem `placement` that benchmarks and `instances/` use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.problems.placement.instance": ("Instance",),
        "moeopt.problems.placement.lagrangian as lagrangian": (),
    }
)
