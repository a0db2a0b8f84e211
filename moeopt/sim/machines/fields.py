"""What every field of a file means: its unit, what its absence means, where to find the number."""

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from moeopt.core.errors import InputError
from moeopt.core.wording import faults, shortened

EXPLAINED, NAMED = 760, 900
"""Up to so many characters wrong fields have their reasons, then their names; then they count."""

KINDS = {
    dict: "object of numbers",
    float: "number",
    int: "integer",
    str: "text",
    bool: "true or false",
}

CURVE_KEYS = {"scale", "points"}
"""A model with these fields alone is a curve, which the page explains once for all."""


@dataclass(frozen=True)
class FieldFacts:
    """One field of a schema.

    Attributes
    ----------
    path
        As in a file, e.g. ``gpu.hbm_gb_s``; ``[]`` stands for the number in a list.
    kind
        What may stand there, in words.
    required
        Whether it must be there wherever the object around it is.
    text, unit, find, absent
        What it is, its unit, where to find it and what its absence means (`about`); empty where
        nothing is said.
    part
        Whether it is an object of further fields.
    """

    path: str
    kind: str
    required: bool
    text: str
    unit: str
    find: str
    absent: str
    part: bool

    @property
    def hint(self) -> str:
        """What would be right, in a few words."""
        return ", ".join(word for word in (self.kind, self.unit) if word) + f": {self.text}"


@cache
def fields_of(model: type[BaseModel]) -> dict[str, FieldFacts]:
    """Return every field of a schema by its path, those of nested objects after their object."""
    return {facts.path: facts for facts in _walk(model, "")}


def _walk(model: type[BaseModel], prefix: str) -> Iterator[FieldFacts]:
    for name, info in model.model_fields.items():
        key = info.alias or name
        extra = info.json_schema_extra
        meaning = extra if isinstance(extra, dict) else {}
        inner, listed = _inner(info.annotation)
        nested = isinstance(inner, type) and issubclass(inner, BaseModel)
        curve = nested and set(inner.model_fields) == CURVE_KEYS
        kind = "curve" if curve else "object" if nested else _kind(inner)
        path = f"{prefix}{key}"
        yield FieldFacts(
            path=path,
            kind=f"list, each {kind}" if listed else kind,
            required=info.is_required(),
            text=info.description or "",
            unit=str(meaning.get("unit", "")),
            find=str(meaning.get("find", "")),
            absent=str(meaning.get("absent", "")),
            part=nested and not curve,
        )
        if nested and not curve:
            yield from _walk(inner, f"{path}[]." if listed else f"{path}.")


def _inner(annotation: Any) -> tuple[Any, bool]:
    """Return the type in a list, in an optional or in ``Annotated``, and whether it is a list."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _inner(get_args(annotation)[0])
    if origin in (UnionType, Union):
        kept = [part for part in get_args(annotation) if part is not NoneType]
        return _inner(kept[0])
    if origin is dict:
        return dict, False
    if origin is tuple and get_args(annotation)[1:] == (Ellipsis,):
        inner, _ = _inner(get_args(annotation)[0])
        return inner, True
    return annotation, False


def _kind(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(f'"{value}"' for value in get_args(kind))
    if get_origin(kind) is tuple:
        return "pair of numbers"
    return KINDS.get(kind, "object")


def describe_fields(model: type[BaseModel], error: ValidationError) -> str:
    """Return everything that a failed validation found, on one line, with what would be right."""
    said, names, more, given = "", "", 0, set[str]()
    for path, kind, reason in faults(error):
        clause = helped(model, path, kind)
        told = kind == "extra_forbidden" and clause in given  # which keys there are
        part = f"{path}: {reason}{'' if told else clause}"
        if not said or (not names and len(said) + len(part) <= EXPLAINED):
            said += f"{'; ' if said else ''}{part}"
            given.add(clause)
        elif len(said) + len(names) + len(shortened(path)) <= NAMED:
            names += f"{', ' if names else '; likewise '}{shortened(path)}"
        else:
            more += 1
    return f"{said}{names}{f' and {more} more' if more else ''}"


def without_rows(path: str) -> str:
    """Return a path in a file as one of the schema: ``tables[3].model`` as ``tables[].model``."""
    return re.sub(r"\[\d+\]", "[]", path)


def fields_error(model: type[BaseModel], error: ValidationError, where: object) -> InputError:
    """Return a failed validation as an error of input, which names the first field."""
    path, _, _ = faults(error)[0]
    reason = describe_fields(model, error).removeprefix(f"{path}: ")
    return InputError(reason, where=where, field=path, suggestion=nearest_path(model, path))


def nearest_path(model: type[BaseModel], path: str) -> str | None:
    """Return the path that an unknown one is most like; None if it is known, or like none."""
    if without_rows(path) in fields_of(model):
        return None
    return next(iter(_close(model, path)), None)


def _close(model: type[BaseModel], path: str) -> list[str]:
    """Return the paths that an unknown one is most like, at most three: those beside it first."""
    above, dot, last = path.rpartition(".")
    beside = _beside(model, path)
    if near := difflib.get_close_matches(last, beside, n=3, cutoff=0.75):
        return [f"{above}{dot}{name}" for name in near]
    known = [*fields_of(model)]
    same = [name for name in known if name.rpartition(".")[2] == last]
    words = [name for name in known if last in name.rpartition(".")[2].split("_")]
    return (same or words)[:3]


def _beside(model: type[BaseModel], path: str) -> list[str]:
    """Return the names of what may stand in the same object."""
    here = without_rows(path).rpartition(".")[0]
    split = [name.rpartition(".") for name in fields_of(model)]
    return [name for above, _, name in split if above == here]


def nearest(model: type[BaseModel], path: str) -> str:
    """Return what an unknown path was perhaps meant to be, as a clause, or nothing."""
    if close := _close(model, path):
        return f"; did you mean {' or '.join(close)}?"
    beside = _beside(model, path)
    return f"; there are {', '.join(beside)}" if beside else ""


def helped(model: type[BaseModel], path: str, kind: str) -> str:
    """Return what would be right of a wrong field, as the end of a sentence; perhaps nothing."""
    if kind == "extra_forbidden":
        return nearest(model, path)
    facts = fields_of(model).get(without_rows(path))
    if facts is None or not facts.text:
        return ""
    find = f"; {facts.find}" if kind == "missing" and facts.find else ""
    return f" ({facts.hint}{find})"
