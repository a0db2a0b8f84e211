"""Every number of a study as CSV or Parquet."""

import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from moeopt.core.errors import InputError
from moeopt.core.json_files import write_bytes
from moeopt.core.objective import Objective, entries
from moeopt.core.wording import csv_text
from moeopt.study.rows import Row, differing

SHORT_COLUMNS = (
    "problem",
    "family",
    "instance",
    "method",
    "engine",
    "status",
    "termination",
    "objective",
    "bound",
    "proof",
    "optimum",
    "excess",
    "excess_at_most",
    "build_s",
    "solve_s",
    "compile_s",
    "seed",
    "workers",
)
"""Columns of gap.csv, which people read."""

COLUMNS = {
    "problem": "string",
    "family": "string",
    "instance": "string",
    "instance_hash": "string",
    "method": "string",
    "seed": "int64",
    "time_limit_s": "float64",
    "workers": "int64",
    "options": "string",
    "version": "string",
    "engine": "string",
    "status": "string",
    "termination": "string",
    "raw_status": "string",
    "objective": "objective",
    "bound": "objective",
    "proof": "string",
    "optimum": "objective",
    "best_bound": "objective",
    "gap": "float64",
    "excess": "float64",
    "excess_at_most": "float64",
    "build_s": "float64",
    "solve_s": "float64",
    "compile_s": "float64",
    "work_limit": "float64",
    "work": "float64",
    "trace": "string",
    "facts": "string",
    "versions": "string",
    "machine": "string",
    "source_sha256": "string",
}
"""Column -> type. An objective is a list of integers, with one entry where it is a single number.

`options`, `trace`, `facts`, `versions` and `machine` are JSON.
"""


def export_csv(rows: Sequence[Row], path: Path) -> None:
    """Write rows as CSV; unknown is an empty cell, an objective's entries stand between blanks."""
    records = (
        [" ".join(map(str, cell)) if isinstance(cell, list) else cell for cell in record.values()]
        for record in map(record, rows)
    )
    write_bytes(csv_text([list(COLUMNS), *records]).encode(), path)


def export_parquet(rows: Sequence[Row], path: Path) -> None:
    """Write rows as Parquet; unknown is null.

    Raises
    ------
    InputError
        If pyarrow is not installed, or the file cannot be written.
    """
    try:
        pa, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ModuleNotFoundError:
        raise InputError("Parquet needs pyarrow, the extra 'parquet'", where=path) from None
    types = {"objective": pa.list_(pa.int64())}
    types |= {name: getattr(pa, name)() for name in ("string", "int64", "float64")}
    schema = pa.schema([(name, types[kind]) for name, kind in COLUMNS.items()])
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.Table.from_pylist([record(row) for row in rows], schema), sink)
    write_bytes(sink.getvalue().to_pybytes(), path)


def to_csv(rows: Sequence[Row]) -> str:
    """Return every row as CSV with full precision; unknown is an empty cell.

    After the columns above come those of the key that differ between rows, such as the time limit,
    and the facts.
    """
    asked = differing(rows)
    extra = sorted({name for row in rows for name in row.facts})
    lines: list[list[object]] = [[*SHORT_COLUMNS, *asked, *extra]]
    for row in rows:
        names = ("family", "optimum", "excess", "excess_at_most")
        own = {name: getattr(row, name) for name in names}
        cells = [own[name] if name in own else getattr(row.result, name) for name in SHORT_COLUMNS]
        cells += [getattr(row.key, name) for name in asked]
        lines.append([*cells, *(row.facts.get(name) for name in extra)])
    return csv_text(lines)


def record(row: Row) -> dict[str, object]:
    """Return a row as values of JSON, by `COLUMNS`."""
    key, result = row.key._asdict(), row.result
    computed = {
        "family": row.family,
        "instance_hash": row.key.instance,
        "instance": result.instance,
        "objective": _entries(result.objective),
        "bound": _entries(result.bound),
        "optimum": _entries(row.optimum),
        "best_bound": _entries(row.best_bound),
        "excess": row.excess,
        "excess_at_most": row.excess_at_most,
        "trace": json.dumps(result.trace),
        "facts": json.dumps(row.facts),
        "versions": json.dumps(result.versions),
        "machine": json.dumps(row.machine),
    }
    known = key | computed
    return {name: known[name] if name in known else getattr(result, name) for name in COLUMNS}


def _entries(objective: Objective | None) -> list[int] | None:
    return None if objective is None else list(entries(objective))
