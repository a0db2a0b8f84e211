"""Open questions of the source, and how they are read; a textbook leaves none."""

from moeopt.core.assumptions import Assumption

ASSUMPTIONS: tuple[Assumption, ...] = ()
"""Each with its values and the default; heuristics take some of them as keyword arguments."""
