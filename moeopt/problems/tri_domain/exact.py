"""The problem's own exact algorithms."""

from moeopt.problems.search import ExactMethod

EXACT = {"threshold": ExactMethod("threshold", then="cp-sat")}
"""Method name -> where it stands; CP-SAT goes on from what `threshold` leaves open."""
