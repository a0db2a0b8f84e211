"""Exact algorithms of its own, beside the models that every problem has."""

from moeopt.problems.search import ExactMethod

EXACT = {"bound-and-pack": ExactMethod("single_scenario", then="cp-sat")}
"""Method name -> module with ``solve(instance, search)`` and its proof."""
