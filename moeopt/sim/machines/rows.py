"""A machine as a table: every field that it has, with its unit and source."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from moeopt.core.json_files import JsonObject

from .edit import every_path, plain_machine
from .fields import fields_of, without_rows
from .machine import Machine
from .paths import full_paths, named

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
    rows = list(_rows(data, data, "", machine.sources))
    if not machine.gpus:
        source = machine.sources.get("devices", "a machine without a GPU: the CPU computes alone")
        rows.insert(1, Row("gpu", None, "none", "", source))
    return rows


def absent_fields(machine: Machine) -> list[str]:
    """Return the full paths of what a machine could have and has not; parts that lack aside."""
    there = {row.field for row in machine_rows(machine)}
    every = [path for name in every_path(machine) for path in full_paths(machine, name)]
    return [
        path
        for path in dict.fromkeys(every)
        if not path.endswith(".tflops")
        and not any(field == path or field.startswith((f"{path}.", f"{path}[")) for field in there)
    ]


def _rows(
    data: JsonObject, at: JsonObject, prefix: str, sources: Mapping[str, str]
) -> Iterator[Row]:
    for name, value in at.items():
        path = f"{prefix}{name}"
        if name in ("id", "kind", "ends") or path in ("sources", "schema_version"):
            continue
        if path == "tables":
            yield from _tables(value)
        elif name == "reserve_mib":
            text = ", ".join(f"{runtime}: {mib:g}" for runtime, mib in value.items())
            field = named(data, path)
            yield Row(field, value, text, "MiB", source_of(field, sources))
        elif name == "kernels":
            field = named(data, path)
            text = "; ".join(map(_kernel, value))
            yield Row(field, value, text, "TFLOPS", source_of(field, sources))
        elif isinstance(value, dict):
            yield from _rows(data, value, f"{path}.", sources)
        elif isinstance(value, list):
            for row, item in enumerate(value):
                yield from _rows(data, item, f"{path}[{row}].", sources)
        else:
            field = named(data, path)
            facts = fields_of(Machine).get(without_rows(path))
            text = f"{value:g}" if isinstance(value, float) else str(value)
            unit = facts.unit if facts is not None else ""
            yield Row(field, value, text, unit, source_of(field, sources))


def _tables(tables: list[JsonObject]) -> Iterator[Row]:
    for row, table in enumerate(tables):
        between = "." if table["at"][1] in ("gpu", "cpu", "ndp") else "-"
        text = f"{table['model']} on {between.join(table['at'])}: {len(table['points'])} points"
        yield Row(f"tables[{row}]", table, text, "tokens, ns", table["source"])


def _kernel(kernel: JsonObject) -> str:
    points = kernel["tflops"]["points"]
    rates = ", ".join(f"{x:g}: {y:g}" for x, y in points)
    rate = f"{points[0][1]:g}" if len(points) == 1 else f"{rates} ({kernel['tflops']['scale']})"
    upto = kernel.get("max_tokens")
    return f"{kernel['name']}{'' if upto is None else f' up to {upto} tokens'} {rate}"


def source_of(path: str, sources: Mapping[str, str]) -> str:
    """Return where a field's number stands, or the part that it belongs to."""
    while path:
        if path in sources:
            return sources[path]
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return UNSTATED
