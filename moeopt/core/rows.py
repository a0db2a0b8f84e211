"""Rows of whole numbers without a common divisor of their coefficients, exactly.

Sums are multiples of the divisor: a side that is none can be moved to the next multiple inside, and
every solution stays. Solvers' numbers stay small so, and one that works in floats meets the side.
"""

from math import gcd
from typing import Any

OPEN = 2**63 - 1
"""CP-SAT's side of a row that has none, with either sign, or one more below."""


def divided(terms: dict[int, int], side: int, sign: int) -> tuple[dict[int, int], int]:
    """Return a row whose sum is at least (sign 1), at most (-1) or exactly (0) a number.

    An equation that no sum meets stays as it is.
    """
    step = gcd(*terms.values())
    if step <= 1 or (not sign and side % step):
        return terms, side
    return {v: c // step for v, c in terms.items()}, _inside(side, step, sign)


def take_out_divisor(row: Any) -> None:
    """Divide a row of CP-SAT's, as ``CpModel.add`` returns it, by its coefficients' divisor."""
    if not row.proto.has_linear():  # of no variables: CP-SAT keeps it as a constant
        return
    linear = row.proto.linear
    coefficients, (least, most) = list(linear.coeffs), linear.domain
    step = gcd(*coefficients)
    if step <= 1 or (least == most and least % step):
        return
    for place, coefficient in enumerate(coefficients):
        linear.coeffs[place] = coefficient // step
    for place, side, sign in ((0, least, 1), (1, most, -1)):
        if abs(side) < OPEN:
            linear.domain[place] = _inside(side, step, sign)


def _inside(side: int, step: int, sign: int) -> int:
    return -(-side // step) if sign > 0 else side // step
