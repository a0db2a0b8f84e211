"""The problem's own exact algorithm, beside the models that every problem has."""

from moeopt.problems.search import ExactMethod

EXACT = {"price-and-swap": ExactMethod("lagrangian", then="cp-sat")}
"""Method name -> where it stands; CP-SAT goes on from what is left open."""
