"""Names of problem `layout` that benchmarks and `instances/` use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.problems.layout.check": ("objective",),
        "moeopt.problems.layout.generate": ("Options", "of_loads"),
        "moeopt.problems.layout.heuristics": (
            "cold_counts_of",
            "family",
            "round_robin",
            "trimoe_layout_tuned",
        ),
        "moeopt.problems.layout.instance": ("Copies", "Domain", "Instance", "Solution"),
        "moeopt.problems.layout.later": ("execute_layout", "windows_of"),
        "moeopt.problems.layout.multi_scenario as multi_scenario": (),
        "moeopt.problems.layout.rounds as rounds": (),
        "moeopt.problems.layout.second_stage": ("as_solution", "starting"),
        "moeopt.problems.layout.single_scenario.lagrangian as lagrangian": (),
        "moeopt.problems.layout.single_scenario.packing as packing": (),
        "moeopt.problems.layout.single_scenario.subproblems as subproblems": (),
    }
)
