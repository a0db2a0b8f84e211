"""Where a paper does not agree with itself, with the arithmetic that shows it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Contradiction:
    """Something a paper leaves open, or states in two ways that cannot both be.

    Attributes
    ----------
    where
        Sections, tables or equations.
    statement
        What is stated, or missing.
    arithmetic
        What follows, with numbers; empty where words suffice.
    assumption
        What is done here.
    """

    where: str
    statement: str
    arithmetic: str
    assumption: str
