"""The problem's own exact algorithms."""

from moeopt.problems.search import ExactMethod

EXACT = {"evacuation": ExactMethod("evacuation", then="cp-sat")}
"""Method name -> where it stands; CP-SAT goes on from what `evacuation` leaves open."""
