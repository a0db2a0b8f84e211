"""Names of problem `balance` that tests use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.problems.balance": ("HEURISTICS",),
        "moeopt.problems.balance.bounds as bounds": (
            "gpu_relaxation",
            "link_relaxation",
            "lower_bound",
            "taken_slices",
        ),
        "moeopt.problems.balance.check as check": (
            "CONSTRAINTS",
            "candidates",
            "count",
            "johnson_ns",
            "objective",
            "sides",
            "violations",
        ),
        "moeopt.problems.balance.cpsat": ("Model",),
        "moeopt.problems.balance.dynamic_program": ("solve",),
        "moeopt.problems.balance.generate": ("assume as assume",),
        "moeopt.problems.balance.heuristics": (
            "Symbols",
            "balance_equation",
            "balanced_experts",
            "best_of_all",
            "e_max",
            "fluid_makespan",
            "framework",
            "largest_resident_share",
            "monde",
            "take",
            "whole_experts",
        ),
        "moeopt.problems.balance.instance": ("Expert", "Instance", "Solution"),
        "moeopt.problems.balance.assumptions": ("ASSUMPTIONS",),
        "moeopt.problems.balance.view": ("facts", "lanes"),
    }
)
