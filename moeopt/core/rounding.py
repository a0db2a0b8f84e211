"""The one rule by which floats decide: rounded to 40 bits where they arise; ties by index.

Elementary arithmetic, number by number, gives the same last digit everywhere. Exponentials,
logarithms, powers, interpolation, matrix products and the order of equal keys after a sort do not:
they depend on the processor's vector units, the compiler and the threads of BLAS. So what comes
from any of these is rounded here, at once, before it becomes an integer, is compared, is sorted or
goes on into elementary arithmetic. 40 bits, 12 decimal digits, are a thousand times coarser than
such differences, and finer than any measurement.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

BITS = 40


def rounded(values: ArrayLike, bits: int = BITS) -> NDArray[np.float64]:
    """Return the nearest floats with so many significant bits; exact, whatever the machine.

    Parameters
    ----------
    values
        Any shape.
    bits
        20 where the digits come from an optimizer that stops at a tolerance.

    Examples
    --------
    >>> rounded(0.1 + 0.2) == rounded(0.3)
    np.True_
    """
    mantissa, exponent = np.frexp(np.asarray(values, dtype=np.float64))
    return np.asarray(np.ldexp(np.rint(np.ldexp(mantissa, bits)), exponent - bits))


def least(values: ArrayLike, number: int) -> NDArray[np.int64]:
    """Return where the least so many values stand, at ties the first, by rising place.

    Parameters
    ----------
    values
        Integers or rounded floats, shape (n,).
    number
        At least 1; at most n are returned.
    """
    keys = np.asarray(values)
    if len(keys) <= number:
        return np.arange(len(keys))
    limit = np.partition(keys, number - 1)[number - 1]
    below = np.flatnonzero(keys < limit)
    return np.sort(np.append(below, np.flatnonzero(keys == limit)[: number - len(below)]))
