"""Open questions of the source, and how they are read; a textbook leaves none."""

from moeopt.core.settlements import Settlement

SETTLEMENTS: tuple[Settlement, ...] = ()
"""Each with its values and the default; heuristics take some of them as keyword arguments."""
