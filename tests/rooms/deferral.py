"""Names of problem `deferral` that tests use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.problems.deferral": ("HEURISTICS",),
        "moeopt.problems.deferral.bounds as bounds": ("second_key_radix",),
        "moeopt.problems.deferral.check": (
            "CONSTRAINTS",
            "candidates",
            "count",
            "objective",
            "violations",
        ),
        "moeopt.problems.deferral.dynamic_program": ("front", "solve"),
        "moeopt.problems.deferral.generate": ("BITS", "assume as assume"),
        "moeopt.problems.deferral.heuristics": (
            "none",
            "period_ns",
            "saturate",
            "schedule",
            "uniform",
        ),
        "moeopt.problems.deferral.instance": ("Instance", "Solution", "TIMES"),
        "moeopt.problems.deferral.scores": ("SCORES", "lost", "skipping"),
        "moeopt.problems.deferral.view as view": (),
    }
)
