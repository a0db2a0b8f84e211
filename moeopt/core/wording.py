"""Errors in plain words: which field, what is wrong, what would be right, on one line.

Texts from strangers are turned into what may stand in a terminal, a CSV file and Markdown.
Names of files and folders, exceptions of users' rules and rows of stores may hold anything. HTML is
escaped by jinja2's templates.
"""

import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from io import StringIO
from types import GeneratorType
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from pydantic import ValidationError


LONGEST = 60
"""Most characters of an untrusted value in a message."""

MOST_FAULTS = 20
"""Most errors of one file that are listed together."""

_PLAIN_REASONS = {
    "missing": "is missing",
    "extra_forbidden": "is not a known key",
    "int_type": "must be an integer",
    "int_from_float": "must be an integer",
    "bool_type": "must be true or false",
    "string_type": "must be a string",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "string_pattern_mismatch": "must have no control characters",
}


def describe(error: "ValidationError") -> str:
    """Return the first error of a failed validation as ``field: reason``, and how many more."""
    errors = error.errors(include_url=False)
    first = errors[0]
    like = ""
    if first["type"] == "missing":  # under another name?
        where = first["loc"][:-1]
        others = [one for one in errors if one["type"] == "extra_forbidden"]
        beside = [str(one["loc"][-1]) for one in others if one["loc"][:-1] == where]
        like = meant(first["loc"][-1], beside).replace("did you mean", "is it")
    field = field_path([*first["loc"], *first.get("ctx", {}).get("at", ())])
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{field}: {_reason(first)}{like}{more}"


def faults(error: "ValidationError") -> list[tuple[str, str, str]]:
    """Return (field, kind of the error, reason) for the first that a failed validation found."""
    return [
        (
            field_path([*found["loc"], *found.get("ctx", {}).get("at", ())]),
            found["type"],
            _reason(found),
        )
        for found in error.errors(include_url=False)[:MOST_FAULTS]
    ]


def _reason(error: Mapping[str, Any]) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind == "field":
        return str(context["reason"])
    reason = _PLAIN_REASONS.get(kind)
    if reason is None:
        bounds = {"greater_than_equal": ("ge", "at least"), "less_than_equal": ("le", "at most")}
        bounds |= {"greater_than": ("gt", "more than"), "less_than": ("lt", "less than")}
        if kind in bounds:
            key, words = bounds[kind]
            reason = f"must be {words} {context[key]}"
        elif kind == "literal_error":
            reason = f"must be {context['expected']}"
        elif kind == "union_tag_invalid":
            reason = f"{context['discriminator'].strip(chr(39))} must be {context['expected_tags']}"
        else:
            text = error["msg"].removesuffix(", not more")  # of a list whose length is not known
            reason = shortened(text[:1].lower() + text[1:])
    if kind in ("missing", "extra_forbidden", "too_short", "too_long", "union_tag_invalid"):
        return reason
    return f"{reason}, not {shown(error['input'])}"


def shown(value: object) -> str:
    """Return a value as it would stand in the file, shortened, on one line."""
    if isinstance(value, dict | list | GeneratorType):  # which gives a long list's items
        return kind_of(value)
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        text = repr(value)
    return shortened(text)


def shortened(text: str) -> str:
    """Return at most `LONGEST` characters of a text, with unprintable ones escaped."""
    short = text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in short)


def kind_of(value: object) -> str:
    """Return what kind of JSON value this is, or the value itself if it is a scalar."""
    names = {dict: "an object", list: "a list", str: "a string", type(None): "null"}
    names[GeneratorType] = "a list"
    return names.get(type(value)) or f"the value {shown(value)}"


def field_path(parts: Sequence[str | int]) -> str:
    """Return a path such as ``experts[3].dimm``."""
    path = ""
    for part in parts:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            plain = part.isidentifier() and len(part) <= LONGEST
            name = part if plain else shown(part)
            path += f".{name}" if path else name
    return path or "the object"


def meant(name: object, known: Iterable[str]) -> str:
    """Return "; did you mean ...?" with the known names that are most like a name, or nothing."""
    plain = {re.sub(r"[\W_]", "", one.lower()): one for one in known}
    asked = re.sub(r"[\W_]", "", str(name)[:LONGEST].lower())
    close = get_close_matches(asked, plain, n=3, cutoff=0.6)
    if asked in plain:
        close = [asked]
    elif not close and len(asked) > 2:
        close = [one for one in plain if one.startswith(asked)][:3]
    words = " or ".join(shortened(plain[one]) for one in close)
    return f"; did you mean {words}?" if close else ""


def unknown(name: str, known: Iterable[str], words: str = "known", whose: str = "") -> str:
    """Return that a name is unknown, what was meant, and which names there are."""
    there = list(known)
    said = shortened(name)
    return f"{said!r} is unknown{whose}{meant(name, there) or ';'} {words}: {', '.join(there)}"


_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""With what a spreadsheet begins a formula."""


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
