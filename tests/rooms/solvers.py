"""Names of room `solvers` that tests use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.solvers.arguments": ("Limits",),
        "moeopt.solvers.backends.cpsat as cpsat": ("integer_bound",),
        "moeopt.solvers.backends.milp as milp": ("TOLERANCE", "answer"),
        "moeopt.solvers.engines as engines": (),
        "moeopt.solvers.evidence": ("Claim", "REFUTED"),
        "moeopt.solvers.explain as explain": ("bind",),
        "moeopt.solvers.limits": ("Deadline",),
        "moeopt.solvers.methods": ("problem_methods",),
        "moeopt.solvers.milp_messages": ("MilpAnswer",),
        "moeopt.solvers.process as process": (
            "Process",
            "ProcessEndedError",
            "end_all",
            "kept",
            "serve_pipes",
        ),
        "moeopt.solvers.pulp_model": ("to_pulp",),
        "moeopt.solvers.rule_process as rule_process": ("IN_PROCESS",),
        "moeopt.solvers.rules as rules": ("Rule", "load_rule"),
        "moeopt.solvers.run as run_module": (),
        "moeopt.solvers.task": ("Outcome", "Task", "Trace"),
        "moeopt.solvers.warm as warm_module": ("solve_with_all", "warm"),
    }
)
