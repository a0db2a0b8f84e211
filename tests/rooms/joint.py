"""Names of problem `joint` that tests use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.problems.joint": ("HEURISTICS",),
        "moeopt.problems.joint.bounds": ("objective_grid",),
        "moeopt.problems.joint.check as check": (
            "CONSTRAINTS",
            "candidates",
            "count",
            "loss",
            "objective",
            "violations",
        ),
        "moeopt.problems.joint.cpsat": ("Model",),
        "moeopt.problems.joint.execute": ("execute",),
        "moeopt.problems.joint.generate": ("UNIT", "assume as assume"),
        "moeopt.problems.joint.instance": ("Instance", "Solution"),
        "moeopt.problems.joint.lagrangian": ("PACE", "Prices", "first_multipliers"),
        "moeopt.problems.joint.lagrangian.arrays": ("Arrays", "cost", "plan_of", "solution_of"),
        "moeopt.problems.joint.lagrangian.columns": (
            "layer_columns",
            "solve_by_columns",
            "suits",
        ),
        "moeopt.problems.joint.lagrangian.gpu_memory": ("cached_layers", "least_within"),
        "moeopt.problems.joint.lagrangian.kernels": ("Decisions", "Floats", "Ints", "cache_hits"),
        "moeopt.problems.joint.lagrangian.local_search": ("changes",),
        "moeopt.problems.joint.lagrangian.relaxation": (
            "Multipliers",
            "Relaxation",
            "Relaxed",
            "StepRelaxation",
            "soft_flow",
            "whole_flow",
        ),
        "moeopt.problems.joint.view": ("differences", "facts", "lanes"),
    }
)
