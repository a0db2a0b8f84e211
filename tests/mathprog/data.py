"""Data sections of instances for the algebraic models, in GNU MathProg."""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.rooms.core import InstanceEnvelope

DECLARATION = re.compile(r"^\s*(?:param|set)\s+(\w+)", re.MULTILINE)


def data_section(model: str, instance: InstanceEnvelope, output: Path) -> str:
    """Return the MathProg data section of an instance, for the names that `model` declares.

    A list of objects ``experts`` gives the set ``experts`` (0, 1, ...) and one parameter per field;
    nested lists give one more index each, and so do objects with numbers as keys; null leaves the
    entry to the parameter's default. A list of objects within the objects of another one gives a
    set of pairs, and parameters with both indices, called ``<list>_<field>`` where the model
    declares that. An object gives a parameter ``<object>_<field>`` for each field. The length of a
    list of plain values or lists is ``<name>_length``, where the model asks for it.
    `output` is the file the model prints its solution to.
    """
    declared = set(DECLARATION.findall(model))
    entries: dict[str, list[str]] = {"output": [_quoted(output.as_posix())]}
    members: dict[str, list[str]] = {}
    for name, value in instance.model_dump(mode="json").items():
        if isinstance(value, str):
            entries[name] = [_quoted(value)]
        elif _has_objects(value):
            _collect(name, value, (), entries, members, declared)
        elif isinstance(value, Mapping) and value and not all(map(str.isdigit, value)):
            for inner, item in value.items():
                entries.setdefault(f"{name}_{inner}", []).extend(_entries(item, ()))
        else:
            entries.setdefault(name, []).extend(_entries(value, ()))
            if isinstance(value, list):
                entries[f"{name}_length"] = [str(len(value))]
    lines = ["data;"]
    for kind, found in (("set", members), ("param", entries)):
        lines += [
            f"{kind} {name} := {' '.join(values)};"
            for name, values in found.items()
            if name in declared and values
        ]
    return "\n".join([*lines, "end;", ""])


def _collect(
    name: str,
    rows: Sequence[dict[str, Any]],
    index: tuple[int, ...],
    entries: dict[str, list[str]],
    members: dict[str, list[str]],
    declared: Container[str],
) -> None:
    """Add the fields of a list of objects as parameters, and their positions as a set."""
    for number, item in enumerate(rows):
        place = (*index, number)
        text = ",".join(map(str, place))
        members.setdefault(name, []).append(text if len(place) == 1 else f"({text})")
        for field, inner in item.items():
            if _has_objects(inner):
                _collect(field, inner, place, entries, members, declared)
            else:
                longer = f"{name}_{field}"
                known = longer if len(place) > 1 and longer in declared else field
                entries.setdefault(known, []).extend(_entries(inner, place))


def _has_objects(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _entries(value: Any, index: tuple[int, ...]) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key.isdigit():
                yield from _entries(inner, (*index, int(key)))
    elif type(value) is list and all(type(item) is int for item in value):
        head = "".join(f"{place} " for place in index)
        yield from (f"{head}{position} {item}" for position, item in enumerate(value))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for position, inner in enumerate(value):
            yield from _entries(inner, (*index, position))
    elif isinstance(value, int):  # a bool is 0 or 1
        yield " ".join(map(str, [*index, int(value)]))
