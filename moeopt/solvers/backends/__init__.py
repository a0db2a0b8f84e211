"""Ways of running a method: a module for each kind of solver, and `plain` for what needs none."""

EXACT = {"cp-sat": "cpsat", "milp": "milp", "brute-force": "brute_force"}
"""Exact method -> backend; every problem has them all."""

ENGINES = ("highs", "cbc", "scip", "gurobi", "cplex")
"""MILP engines; the first is the default."""
