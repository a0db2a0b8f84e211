"""Names of problem `relayout` that tests use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.problems.relayout": ("HEURISTICS",),
        "moeopt.problems.relayout.bounds": ("kind_of", "lower_bound", "with_migrations"),
        "moeopt.problems.relayout.check as check": (
            "CONSTRAINTS",
            "candidates",
            "count",
            "layout_after",
            "link_busy_ns",
            "loads",
            "objective",
            "violations",
        ),
        "moeopt.problems.relayout.fixed_layout": (
            "after_migrations",
            "migrated",
            "refined",
            "refined_after",
            "refined_ns",
            "schedule_of",
        ),
        "moeopt.problems.relayout.heuristics": (
            "WARM_START",
            "benefit_greedy",
            "benefit_makespan",
            "none",
            "rebalance_only",
        ),
        "moeopt.problems.relayout.instance": (
            "COSTS",
            "DOMAINS",
            "Expert",
            "Instance",
            "Migration",
            "Solution",
        ),
        "moeopt.problems.relayout.later": ("execute",),
        "moeopt.problems.relayout.modes": ("Modes", "objective_grid"),
        "moeopt.problems.relayout.striped_reads as striped_reads": ("_Decomposition", "solve"),
        "moeopt.problems.relayout.striped_reads.plan_model as plan_model": ("PlanModel",),
        "moeopt.problems.relayout.striped_reads.plans": (
            "Limits",
            "Offers",
            "READS",
            "SHARED",
            "tabulate",
        ),
        "moeopt.problems.relayout.striped_reads.subproblem": ("Dimm", "FIRST_PASS", "Subproblem"),
        "moeopt.problems.relayout.view": ("facts", "lanes"),
    }
)
