"""The problem's own exact algorithm, beside the models that every problem has."""

from moeopt.problems.search import ExactMethod

EXACT = {"dp": ExactMethod("dynamic_program", then="cp-sat")}
"""Method name -> where it stands; CP-SAT goes on from what has too many states."""
