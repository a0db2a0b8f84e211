"""Names of problem `placement` that tests use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.problems.placement": ("HEURISTICS",),
        "moeopt.problems.placement.bounds": (
            "capacity_of",
            "knapsack_bound",
            "lower_bound",
            "objective_grid",
        ),
        "moeopt.problems.placement.check": (
            "CONSTRAINTS",
            "LayerStep",
            "candidates",
            "count",
            "layer_steps",
            "objective",
            "violations",
        ),
        "moeopt.problems.placement.fields": ("Known", "expert_ns"),
        "moeopt.problems.placement.generate": ("memory_of", "assume as assume"),
        "moeopt.problems.placement.heuristics": (
            "fiddler",
            "frequency",
            "listed",
            "offload_time",
        ),
        "moeopt.problems.placement.instance": (
            "Instance",
            "MAX_TOTAL_NS",
            "Solution",
            "held_of",
            "solution_of",
        ),
        "moeopt.problems.placement.lagrangian as lagrangian": ("solve",),
        "moeopt.problems.placement.lagrangian.linear_relaxation": ("linear_relaxation",),
        "moeopt.problems.placement.lagrangian.local_search": ("LocalSearch",),
        "moeopt.problems.placement.lagrangian.relaxation": (
            "Decomposition",
            "Model",
            "Relaxed",
            "allowed",
            "cheapest_layers",
            "first_multipliers",
            "reduced_cost_fixing",
            "relaxed",
            "weighed",
        ),
        "moeopt.problems.placement.lagrangian.residual_problem": (
            "Residual",
            "residual_of",
            "solve_residual",
        ),
        "moeopt.problems.placement.later": ("unchanged as for_other_steps",),
        "moeopt.problems.placement.layer_steps": (
            "CELLS",
            "FEW",
            "Flags",
            "best_dispatch",
            "total_ns",
        ),
        "moeopt.problems.placement.ranking": (
            "best_prefix",
            "filled",
            "layer_by_layer",
        ),
        "moeopt.problems.placement.assumptions": ("ASSUMPTIONS",),
        "moeopt.problems.placement.view as view": ("facts",),
    }
)
