"""Names of problem `split` that benchmarks and `instances/` use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.problems.split": ("HEURISTICS",),
        "moeopt.problems.split.assumptions": ("ASSUMPTIONS",),
        "moeopt.problems.split.check": ("objective",),
        "moeopt.problems.split.generate": ("tensors_apart",),
        "moeopt.problems.split.instance": ("Instance", "Solution"),
        "moeopt.problems.split.labels as labels": (),
    }
)
