"""Names of problem `balance` that benchmarks and `instances/` use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.problems.balance.bounds": ("Answer",),
        "moeopt.problems.balance.check": ("objective",),
        "moeopt.problems.balance.dynamic_program as dynamic_program": (),
        "moeopt.problems.balance.heuristics": (
            "all_ndp",
            "balance_equation",
            "e_max",
            "framework",
            "whole_experts",
        ),
        "moeopt.problems.balance.instance": ("Instance", "Solution"),
        "moeopt.problems.balance.assumptions": ("ASSUMPTIONS",),
    }
)
