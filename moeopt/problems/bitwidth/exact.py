"""bitwidth's own exact algorithm, beside the models that every problem has."""

from moeopt.problems.search import ExactMethod

EXACT = {"dp": ExactMethod("dynamic_program", then="cp-sat")}
"""Method name -> module with ``solve(instance, search)`` and its proof."""
