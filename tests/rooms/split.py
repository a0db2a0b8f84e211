"""Names of problem `split` that tests use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.problems.split": ("HEURISTICS",),
        "moeopt.problems.split.bounds as bounds": (),
        "moeopt.problems.split.check as check": (),
        "moeopt.problems.split.cpsat": ("Model",),
        "moeopt.problems.split.instance": ("Instance", "Solution"),
        "moeopt.problems.split.labels as labels": (),
        "moeopt.problems.split.paths": ("paths_of",),
        "moeopt.problems.split.runs as runs": (),
        "moeopt.problems.split.view as view": (),
    }
)
