"""Every number of a study as CSV or Parquet."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

from moeopt.core.errors import InputError
from moeopt.core.json_files import write_bytes
from moeopt.core.objective import relative
from moeopt.core.wording import csv_text, package
from moeopt.study.frame import differing
from moeopt.study.record import entries_or_none
from moeopt.study.table import facts_of

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
    "options": "json",
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
    "trace": "json",
    "facts": "json",
    "versions": "json",
    "machine": "json",
    "source_sha256": "string",
}
"""Column -> type. An objective is a list of integers, with one entry where it is a single number.

"json" is an object in JSON, and its text in tables.
"""


def export_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write solves as CSV; unknown is empty, an objective's entries stand between blanks."""
    lines = [
        [" ".join(map(str, cell)) if isinstance(cell, list) else cell for cell in one.values()]
        for one in flat(frame)
    ]
    write_bytes(csv_text([list(COLUMNS), *lines]).encode(), path)


def export_parquet(frame: pd.DataFrame, path: Path) -> None:
    """Write solves as Parquet; unknown is null.

    Raises
    ------
    InputError
        If pyarrow is not installed, or the file cannot be written.
    """
    try:
        pa, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ModuleNotFoundError:
        raise InputError(f"Parquet needs {package('pyarrow')}", where=path) from None
    types = {"objective": pa.list_(pa.int64()), "json": pa.string()}
    types |= {name: getattr(pa, name)() for name in ("string", "int64", "float64")}
    schema = pa.schema([(name, types[kind]) for name, kind in COLUMNS.items()])
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.Table.from_pylist(flat(frame), schema), sink)
    write_bytes(sink.getvalue().to_pybytes(), path)


def to_csv(frame: pd.DataFrame) -> str:
    """Return every solve as CSV with full precision; unknown is an empty cell.

    After the columns above come those of the question that differ between solves, such as the time
    limit, and the facts.
    """
    asked = differing(frame)
    facts = facts_of(frame)
    extra = sorted({name for of in facts for name in of})
    lines: list[list[object]] = [[*SHORT_COLUMNS, *asked, *extra]]
    for row, of in zip(frame.to_dict("records"), facts, strict=True):
        cells = [_blank(row[name]) for name in (*SHORT_COLUMNS, *asked)]
        lines.append([*cells, *(of.get(name) for name in extra)])
    return csv_text(lines)


def _blank(value: Any) -> Any:
    return None if value != value else value


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return solves as values of JSON, by `COLUMNS`; `facts` has an instance's tags as well."""
    found = []
    for row, facts in zip(frame.to_dict("records"), facts_of(frame), strict=True):
        own: dict[str, Any] = {"facts": facts}
        known, bound = row["objective"], row["bound"]
        own["gap"] = None if known is None or bound is None else relative(known, bound, known)
        values = row | own
        for name, kind in COLUMNS.items():
            value = values[name]
            own[name] = entries_or_none(value) if kind == "objective" else _blank(value)
        found.append({name: own[name] for name in COLUMNS})
    return found


def flat(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return solves as values of a table: objects as JSON."""
    return [
        {
            name: json.dumps(value) if COLUMNS[name] == "json" else value
            for name, value in one.items()
        }
        for one in records(frame)
    ]
