"""Names of problem `bitwidth` that tests use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.problems.bitwidth": ("HEURISTICS",),
        "moeopt.problems.bitwidth.bounds": ("lower_bound", "priced"),
        "moeopt.problems.bitwidth.check as check": (
            "CONSTRAINTS",
            "candidates",
            "count",
            "objective",
            "violations",
        ),
        "moeopt.problems.bitwidth.dynamic_program as dynamic_program": ("frontier",),
        "moeopt.problems.bitwidth.generate as generate_module": (
            "Options",
            "generate",
            "assume as assume",
        ),
        "moeopt.problems.bitwidth.heuristics as heuristics": (
            "WARM_START",
            "greedy_marginal",
            "uniform",
        ),
        "moeopt.problems.bitwidth.instance": ("Instance", "Solution"),
        "moeopt.problems.bitwidth.later": ("decide", "draw"),
        "moeopt.problems.bitwidth.prefix_split": ("budget_shares", "evenly_spaced", "prefix_split"),
        "moeopt.problems.bitwidth.view as view": (),
    }
)
