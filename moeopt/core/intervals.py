"""Confidence intervals that assume nothing about how values are distributed."""

from collections.abc import Sequence
from math import comb

CONFIDENCE = 0.95


def median_interval(
    values: Sequence[float], confidence: float = CONFIDENCE
) -> tuple[float, float] | None:
    """Return an interval that holds the median of what the values were drawn from.

    Parameters
    ----------
    values
        Drawn independently of each other.
    confidence
        Least probability that the interval holds the median, below 1.

    Returns
    -------
    tuple or None
        The narrowest two order statistics, equally far from both ends, that reach `confidence`;
        None if the least and the largest value do not, as with five values or fewer at 95 %.

    Notes
    -----
    The number of values below the median is binomial with probability 1/2, so that the k-th least
    and the k-th largest of n values enclose it with probability 1 - 2 P(B(n, 1/2) < k), or more
    where values tie (David and Nagaraja, "Order Statistics", 3rd ed. 2003, 7.1).

    Examples
    --------
    >>> median_interval([5, 1, 4, 2, 3, 6])
    (1, 6)
    >>> median_interval(range(20))
    (5, 14)
    """
    ordered, n = sorted(values), len(values)
    k, below = 0, 1
    while k < n / 2 and 2 * below / 2**n <= 1 - confidence:  # below / 2**n is P(B(n, 1/2) <= k)
        k += 1
        below += comb(n, k)
    return (ordered[k - 1], ordered[n - k]) if k else None
