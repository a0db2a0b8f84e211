"""The published figures: facts, as the papers print them, in one table beside this file."""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from moeopt import InputError

TABLE = Path(__file__).with_name("published.csv")


@dataclass(frozen=True)
class Interval:
    """A range from `low` to `high`, both in it; a single published number has one value only."""

    low: float
    high: float

    @property
    def is_range(self) -> bool:
        """Whether the paper gives a range."""
        return self.low < self.high

    def error(self, value: float) -> float:
        """Return how far `value` is off, as a share: value / published - 1.

        Inside a range it is 0, outside it counts from the nearer end. Of a published 0 no share
        can be taken; there it is the difference itself.
        """
        if self.low <= value <= self.high:
            return 0.0
        end = self.low if value < self.low else self.high
        return value - end if end == 0 else value / end - 1

    def __str__(self) -> str:
        return f"{self.low:g}-{self.high:g}" if self.is_range else f"{self.low:g}"


@dataclass(frozen=True)
class Published:
    """One row of the table.

    Attributes
    ----------
    id
        A letter for the paper and a number, such as T5.
    paper, where
        The paper's short name, and the section, table or equation.
    quantity
        What the figure is; several values are told apart in its name or in `condition`.
    values
        Of several values in one figure, all.
    unit, condition
        Empty where there is none.
    beside
        Ids of published figures, with blanks between, if the row is not one itself but stands
        beside them: another system measured against the same value, or a product of several. Such
        rows are not counted.
    """

    id: str
    paper: str
    where: str
    quantity: str
    values: tuple[Interval, ...]
    unit: str
    condition: str
    beside: str = ""

    @property
    def text(self) -> str:
        """The published values, as in the table."""
        return " / ".join(map(str, self.values))


@cache
def published() -> dict[str, Published]:
    """Return all published figures by id, in the table's order."""
    with TABLE.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    figures = [
        Published(**{key: row[key] for key in TEXTS}, values=parse_values(row["value"]))
        for row in rows
    ]
    return {figure.id: figure for figure in figures}


TEXTS = ("id", "paper", "where", "quantity", "unit", "condition", "beside")
"""Columns of the table that are kept as they stand."""


def parse_values(text: str) -> tuple[Interval, ...]:
    """Return the values of a cell such as "1.5", "0.66/0.749" or "6.6-8.3/7".

    Raises
    ------
    InputError
        If a part is neither a number nor a range of two rising ones.
    """
    return tuple(_interval(part, text) for part in text.split("/"))


def _interval(part: str, text: str) -> Interval:
    try:
        ends = [float(end) for end in part.split("-")]
    except ValueError:
        ends = []
    if len(ends) not in (1, 2) or ends[0] > ends[-1]:
        raise InputError(f"published: {text!r}: {part!r} is neither a number nor a range")
    return Interval(ends[0], ends[-1])
