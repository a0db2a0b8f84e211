"""The problem's own exact algorithms."""

from moeopt.problems.search import ExactMethod

EXACT = {"evacuation": ExactMethod("striped_reads", then="cp-sat")}
"""Method name -> where it stands; CP-SAT goes on from what `evacuation` leaves open."""
