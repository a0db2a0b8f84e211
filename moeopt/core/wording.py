"""Errors in plain words: which field, what is wrong, what would be right, on one line.

Texts from strangers are turned into what may stand in a terminal, a CSV file and Markdown.
Names of files and folders, exceptions of users' rules and rows of stores may hold anything. HTML is
escaped by jinja2's templates.
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from io import StringIO
from types import GeneratorType
from typing import TYPE_CHECKING, Any, TextIO, get_args

from moeopt.core.errors import InputError

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError


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


def input_error(
    error: "ValidationError",
    where: object = None,
    model: "type[BaseModel] | None" = None,
    before: str = "",
) -> InputError:
    """Return the first error of a failed validation as an error of input, and how many more.

    Parameters
    ----------
    where
        File or command.
    model
        Class that was validated, whose keys a misspelled one is compared with.
    before
        Path to what was validated, e.g. ``part[0].``.
    """
    found = _with_misspelled(error)
    first, suggestion = found[0]
    if first["type"] == "extra_forbidden" and suggestion is None and model is not None:
        suggestion = suggested(first["loc"][-1], _keys(model, first["loc"][:-1]))
    context = first.get("ctx", {})
    suggestion = suggestion or context.get("suggestion")
    field = before + field_path([*first["loc"], *context.get("at", ())])
    reason = _reason(first)
    if first["type"] == "extra_forbidden" and suggestion is not None:
        reason += f"; did you mean {shortened(suggestion)}?"
    reason += f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return InputError(reason, where=where, field=field, suggestion=suggestion)


def _with_misspelled(error: "ValidationError") -> list[tuple[Mapping[str, Any], str | None]]:
    """Return the errors of a failed validation; of misspelled keys with what was meant.

    Such a key is two errors, as it is not known and the right one is missing: the first stands for
    both, in the place of the second.
    """
    errors: list[Mapping[str, Any]] = [*error.errors(include_url=False)]
    errors = [one for one in errors if not _is_of_items(one, errors)]
    extra = [one for one in errors if one["type"] == "extra_forbidden"][:MOST_FAULTS]
    found: list[tuple[Mapping[str, Any], str | None]] = []
    for one in errors:
        pair = None
        if one["type"] == "missing":
            key, place = str(one["loc"][-1]), one["loc"][:-1]
            beside = [other for other in extra if other["loc"][:-1] == place]
            pair = next((other for other in beside if closest(other["loc"][-1], [key])), None)
        if pair is None:
            found.append((one, None))
        else:
            extra.remove(pair)
            found.append((pair, key))
    twice = [id(pair) for pair, key in found if key is not None]
    return [(one, key) for one, key in found if key is not None or id(one) not in twice]


def _is_of_items(error: Mapping[str, Any], errors: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a list is too short only because none of its items is right."""
    place = error["loc"]
    return error["type"] == "too_short" and any(
        len(one["loc"]) > len(place) and one["loc"][: len(place)] == place for one in errors
    )


def _keys(model: "type[BaseModel]", place: Sequence[str | int]) -> list[str]:
    """Return the keys that a model's data have at a place; none where that is not one object."""
    for part in place:
        if isinstance(part, int):
            continue
        if part not in model.model_fields:
            return []
        inner = [one for one in _parts(model.model_fields[part].annotation) if _is_model(one)]
        if len(inner) != 1:
            return []
        model = inner[0]
    return [info.alias or name for name, info in model.model_fields.items()]


def _parts(annotation: Any) -> Iterator[Any]:
    """Yield a type and the types that it is made of."""
    yield annotation
    for one in get_args(annotation):
        yield from _parts(one)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and hasattr(kind, "model_fields")


def faults(error: "ValidationError") -> list[tuple[str, str, str]]:
    """Return (field, kind of the error, reason) for the first that a failed validation found."""
    return [
        (
            field_path([*found["loc"], *found.get("ctx", {}).get("at", ())]),
            found["type"],
            _reason(found),
        )
        for found, _ in _with_misspelled(error)[:MOST_FAULTS]
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


def closest(name: object, known: Iterable[str]) -> list[str]:
    """Return the known names that are most like a name, the best one first; at most three."""
    plain = {re.sub(r"[\W_]", "", one.lower()): one for one in known}
    asked = re.sub(r"[\W_]", "", str(name)[:LONGEST].lower())
    close = get_close_matches(asked, plain, n=3, cutoff=0.65)
    if asked in plain:
        close = [asked]
    elif not close and len(asked) > 2:
        close = [one for one in plain if one.startswith(asked)][:3]
    return [plain[one] for one in close]


def package(name: str) -> str:
    """Return a package that is not installed, with the command that installs it anywhere."""
    return f"{name} (pip install {name})"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, which takes an s unless there is one."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def suggested(name: object, known: Iterable[str]) -> str | None:
    """Return the known name that is most like a name; None if none is."""
    return next(iter(closest(name, known)), None)


def meant(name: object, known: Iterable[str]) -> str:
    """Return "; did you mean ...?" with the known names that are most like a name, or nothing."""
    words = " or ".join(shortened(one) for one in closest(name, known))
    return f"; did you mean {words}?" if words else ""


def unknown(name: str, known: Iterable[str], words: str = "known", whose: str = "") -> str:
    """Return that a name is unknown, what was meant, and which names there are."""
    there = list(known)
    said = shortened(name)
    return f"{said!r} is unknown{whose}{meant(name, there) or ';'} {words}: {', '.join(there)}"


def unknown_name(
    field: str, name: str, known: Iterable[str], words: str = "known", whose: str = ""
) -> InputError:
    """Return the error of an unknown name in a field, with what was meant; see `unknown`."""
    there = list(known)
    reason = unknown(name, there, words, whose)
    return InputError(reason, field=field, suggestion=suggested(name, there))


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
