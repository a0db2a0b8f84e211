"""One module per way of running a method; each has ``run(task)``."""

EXACT = {"cp-sat": "cpsat", "milp": "milp", "mathprog": "mathprog", "brute-force": "brute_force"}
"""Exact method -> backend; every problem has them all."""
