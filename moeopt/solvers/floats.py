"""What a solver that computes in floats may be believed."""

from math import ceil

CLAIM_TOLERANCE = 1e-5
"""How far a claimed objective may be off, relatively: integrality is only met to about 1e-6."""


def claim_tolerance(claim: int) -> int:
    """Return how far the judge's objective may be from a float solver's claim."""
    return round(CLAIM_TOLERANCE * abs(claim))


def believed_bound(bound: float, unit: int, relative_error: float) -> int:
    """Return what is left of a float solver's bound, in the objective's integers.

    Parameters
    ----------
    bound, unit
        The bound as the solver gives it, and how many of the objective's steps one unit is.
    relative_error
        How far off the solver may be, relatively; 1e-6 units are added for absolute tolerances.
    """
    error = 1e-6 * unit + relative_error * abs(bound * unit)
    return ceil(bound * unit - error)
