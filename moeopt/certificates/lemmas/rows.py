"""Integer programs row by row, for models that rest on a lemma."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import gcd
from typing import Any

Term = tuple[int, int]
"""Variable, coefficient."""


@dataclass
class LemmaModel:
    """A model of the solutions that cost less than what its form says.

    Attributes
    ----------
    lemma
        What it rests on, in a sentence; the specification proves it.
    variables, rows, objective
        As `moeopt.certificates.certificate` reads them.
    constant, denominator
        Of the objective, in its units; what it is divided by.
    first
        Variables worth branching on before others.
    tighten
        Whether bounds are to be tightened by rows at every node; None: if the model is small.
    choice
        The row to branch on first: which of its variables is 1.
    """

    lemma: str
    variables: list[list[Any]] = field(default_factory=list)
    rows: list[list[Any]] = field(default_factory=list)
    objective: list[list[int]] = field(default_factory=list)
    constant: int = 0
    denominator: int = 1
    first: list[int] = field(default_factory=list)
    tighten: bool | None = None
    choice: int | None = None

    def whole(self, least: int, most: int | None) -> int:
        """Add a variable of whole numbers; return its number."""
        self.variables.append([least, most, True])
        return len(self.variables) - 1

    def real(self, least: int | None, most: int | None) -> int:
        """Add a variable of any numbers; return its number."""
        self.variables.append([least, most, False])
        return len(self.variables) - 1

    def flags(self, count: int) -> list[int]:
        """Add variables that are 0 or 1."""
        return [self.whole(0, 1) for _ in range(count)]

    def row(self, terms: Iterable[Term], sense: str, side: int, name: str) -> None:
        """Add a row; a sum of whole numbers is divided by its divisor, and the side rounded."""
        total: dict[int, int] = {}
        for variable, factor in terms:
            total[variable] = total.get(variable, 0) + int(factor)
        pairs = [[variable, factor] for variable, factor in total.items() if factor]
        if not pairs:
            pairs = [[0, 0]]  # says what it says of no variable
        unit = gcd(*(factor for _, factor in pairs), side if sense == "=" else 0) or 1
        sides = {"=": side // unit, ">=": -(-side // unit), "<=": side // unit}
        self.rows.append([[[j, factor // unit] for j, factor in pairs], sense, sides[sense], name])

    def one(self, flags: Iterable[int], name: str) -> None:
        """Say that just one of them is 1."""
        self.row([(flag, 1) for flag in flags], "=", 1, name)
