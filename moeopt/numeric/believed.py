"""What is left of a float solver's lower bound once its errors are taken off."""

from math import ceil

RELATIVE_ERROR = 1e-5
"""Ten times the tolerances of 1e-6 to which a solver meets rows and integrality."""


def believed(bound: float, unit: float, grid: int) -> int:
    """Return the lower bound that may be claimed, in the objective's integers.

    Parameters
    ----------
    bound, unit
        The bound as the solver gives it, and how many of the objective's steps one unit is.
    grid
        A number that every objective is a multiple of.

    Returns
    -------
    int
        The bound less `RELATIVE_ERROR` of it and 1e-5 units, rounded up to the grid.
    """
    error = 1e-5 * unit + RELATIVE_ERROR * abs(bound * unit)
    return ceil(ceil(bound * unit - error) / grid) * grid
