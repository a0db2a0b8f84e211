"""Names of room `solvers` that tests use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.solvers.arguments": ("Limits",),
        "moeopt.solvers.backends.cpsat as cpsat": ("integer_bound",),
        "moeopt.solvers.backends.milp as milp": ("FUNCTIONS",),
        "moeopt.solvers.backends.own as own": (),
        "moeopt.solvers.engines as engines": ("Answer", "solve_highs"),
        "moeopt.solvers.evidence": ("Claim", "REFUTED"),
        "moeopt.solvers.explain as explain": ("bind",),
        "moeopt.solvers.in_parts as in_parts": (),
        "moeopt.solvers.limits": ("Deadline", "run_interruptible", "within"),
        "moeopt.solvers.methods": ("problem_methods",),
        "moeopt.solvers.process": ("Process", "ProcessEndedError", "serve_pipes"),
        "moeopt.solvers.rule_process as rule_process": ("IN_PROCESS",),
        "moeopt.solvers.rules as rules": ("Rule", "load_rule"),
        "moeopt.solvers.task": ("Outcome", "Task", "Trace"),
        "moeopt.solvers.warm as warm_module": ("solve_with_all", "warm"),
    }
)
