"""A machine as a table: every field with its value, unit and source."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from moeopt.sim.machines.edit import plain_machine
from moeopt.sim.machines.fields import fields_of, without_rows
from moeopt.sim.machines.machine import Machine

UNSTATED = "not stated"


@dataclass(frozen=True)
class Row:
    """A field of a machine; `value` is as in the file, `text` as people read it."""

    field: str
    value: object
    text: str
    unit: str
    source: str


def machine_rows(machine: Machine) -> list[Row]:
    """Return every field that a machine has, and one for the GPU that it may not have."""
    data = plain_machine(machine)
    rows = [row for row in _rows(data, "", machine.sources) if row.field != "sources"]
    if machine.gpu is None:
        source = machine.sources.get("gpu", "a machine without a GPU: the CPU computes alone")
        rows.insert(1, Row("gpu", None, "none", "", source))
    return rows


def absent_fields(machine: Machine) -> list[str]:
    """Return the fields that a machine could have and has not, those of absent objects aside."""
    there = {row.field for row in machine_rows(machine)}
    parents = {""} | {field.rpartition(".")[0] for field in there}
    return [
        path
        for path in fields_of(Machine)
        if path.rpartition(".")[0] in parents
        and "[]" not in path
        and path != "sources"
        and not any(field == path or field.startswith((f"{path}.", f"{path}[")) for field in there)
    ]


def _rows(data: Mapping[str, Any], prefix: str, sources: Mapping[str, str]) -> Iterator[Row]:
    for name, value in data.items():
        path = f"{prefix}{name}"
        if path == "sources":
            continue
        if path == "time_tables":
            yield from _tables(value)
        elif path.endswith("reserve_mib"):
            text = ", ".join(f"{runtime}: {mib:g}" for runtime, mib in value.items())
            yield Row(path, value, text, "MiB", _source(path, sources))
        elif isinstance(value, dict) and "points" not in value:
            yield from _rows(value, f"{path}.", sources)
        elif isinstance(value, list):
            for row, item in enumerate(value):
                yield from _rows(item, f"{path}[{row}].", sources)
        else:
            schema = path.replace("links[", "links.between[")
            unit = fields_of(Machine)[without_rows(schema)].unit
            yield Row(path, value, _text(value), unit, _source(path, sources))


def _tables(tables: list[dict[str, Any]]) -> Iterator[Row]:
    for row, table in enumerate(tables):
        points = table["points"]
        text = f"{table['model']} on {table['device']}: {len(points)} points"
        yield Row(f"time_tables[{row}]", table, text, "tokens, ns", table["source"])


def _text(value: Any) -> str:
    if isinstance(value, dict):
        points = value["points"]
        if len(points) == 1:
            return f"{points[0][1]:g} (flat)"
        return f"{', '.join(f'{x:g}: {y:g}' for x, y in points)} ({value['scale']})"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _source(path: str, sources: Mapping[str, str]) -> str:
    while path:
        if path in sources:
            return sources[path]
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return UNSTATED
