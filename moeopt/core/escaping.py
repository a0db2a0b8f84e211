"""Texts from strangers, as they may stand in a terminal, a CSV file, Markdown and LaTeX.

Names of files and folders, exceptions of users' rules and rows of stores may hold anything. HTML is
escaped by jinja2's templates.
"""

import csv
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import TextIO

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""With what a spreadsheet begins a formula."""

_LATEX = {
    "\\": r"\textbackslash{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def terminal_text(text: str) -> str:
    """Return a text without control characters but for ends of lines and tabs."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text
    )


class TerminalStream:
    """A stream on which no text can steer the terminal; everything but `write` is the stream's."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write a text with its control characters escaped."""
        self.stream.write(terminal_text(text))
        return len(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Return rows as CSV; a text that a spreadsheet would take for a formula begins with '."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: object) -> object:
    """Return a cell; numbers keep their sign."""
    is_formula = isinstance(value, str) and value.startswith(_FORMULA)
    return f"'{value}" if is_formula else value


def markdown_text(text: str) -> str:
    """Return a text for a cell of a table: no HTML, no end of the cell, one line."""
    for sign, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("|", "\\|")):
        text = text.replace(sign, entity)
    return " ".join(terminal_text(text).split())


def markdown_code(text: str) -> str:
    """Return a text as code in a cell of a table."""
    inner = " ".join(terminal_text(text).replace("`", "'").replace("|", "\\|").split())
    return f"`{inner}`"


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]], words: int) -> list[str]:
    """Return the lines of a table; its first columns have words, the others numbers."""
    sides = "---|" * words + "---:|" * (len(heads) - words)
    lines = [f"| {' | '.join(cells)} |" for cells in (heads, *rows)]
    return [lines[0], f"|{sides}", *lines[1:]]


def latex_text(text: str) -> str:
    """Return a text that LaTeX prints as it is; a sign that cannot be printed becomes "?"."""
    return "".join(_LATEX.get(sign, sign if sign.isprintable() else "?") for sign in text)
