"""Packings that nothing can decide: many pieces without a common divisor worth the name.

With times measured to the nanosecond a proof would be number partitioning. What can be had in short
time is a small gap, and nothing else is asked for.
"""

import numpy as np

from .scenario import Times

PARTS = 100_000
"""A packing is too fine where loads may be any multiple of less than such a part of the makespan.

Not if it has few pieces.
"""

MANY = 40
"""Pieces from which on such a packing cannot be decided."""

SMALL_GAP = 200
"""The search ends as soon as less than such a part of the makespan, 0.5 %, is open."""

RESOLUTION = 1000
"""A bisection may leave such a part of the makespan open."""

PATIENCE = 0.25
"""Part of the time left that one question about such a packing may take."""

GLANCE = 0.05
"""The same of a question with the DIMMs taken together, mostly done in less."""

PACKINGS = 8
"""Attempts to pack it; one in three ends far off."""


def too_fine(sizes: Times, upper: int) -> bool:
    """Tell whether a packing of these sizes, within a makespan below `upper`, is beyond proof."""
    return len(sizes) > MANY and has_no_grid(sizes, upper)


def has_no_grid(sizes: Times, upper: int) -> bool:
    """Tell whether the sizes, however many, have no common divisor worth the name."""
    return int(np.gcd.reduce(sizes)) * PARTS < upper


def goal(upper: int) -> int:
    """Return the latest makespan that is better than `upper` by the small gap."""
    return upper - -(-upper // SMALL_GAP)
