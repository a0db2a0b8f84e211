"""Measured loss tables from CSV, npz or JSON: what experts lose at each width.

- CSV with a header ``layer,expert,bits,loss``, one row per expert and width, in any order, or
  ``layer,expert,loss_1bit,loss_2bit,...``, one row per expert; other columns are not read, and
  lines that begin with ``#`` are comments.
- npz with ``loss`` of shape (layers, experts, widths) and ``bits`` of shape (widths,).
- JSON in the project's own form, see `moeopt.sim.models.loss_table`.
"""

import math
import re
from pathlib import Path

import numpy as np

from moeopt.core.envelope import MAX_ALL_EXPERTS, MAX_BITS, MAX_WIDTHS
from moeopt.core.errors import InputError
from moeopt.core.wording import shown
from moeopt.sim.models.loss_table import LossTable, checked_table, read_loss_table
from moeopt.sim.traces.readers.checked import (
    MAX_EXPERT,
    MAX_LAYER,
    check_size,
    digest,
    name_of,
    read_lines,
)
from moeopt.sim.traces.readers.topk_npz import read_npz

WIDE = re.compile(r"loss_([0-9]{1,2})bits?")
"""A column with the losses at one width."""

COLUMNS = ("layer", "expert", "bits", "loss")


def load_loss_table(path: str | Path) -> LossTable:
    """Read a loss table; the form is told from the name's ending.

    Layers and experts are numbered from 0 in the order of their numbers in the file; every expert
    must have a loss at every width. Pass the table to
    `moeopt.problems.bitwidth.generate.generate`, or save it with
    `moeopt.sim.models.loss_table.save_loss_table` for ``moeopt generate bitwidth``.

    Raises
    ------
    InputError
        If the file cannot be read or is no such table; one line with file, field and reason.
    """
    path = Path(path)
    ending = "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix
    readers = {".csv": _read_csv, ".csv.gz": _read_csv, ".npz": _read_npz}
    readers |= {".json": read_loss_table, ".json.gz": read_loss_table}
    if ending not in readers:
        raise InputError(f"{path}: must end in .csv, .npz or .json, the former two maybe in .gz")
    check_size(path)
    table = readers[ending](path)
    facts = {"sha256": digest(path)} | (table.facts or {})
    return LossTable(name_of(path), table.bits, table.losses, facts)


def _read_npz(path: Path) -> LossTable:
    arrays = read_npz(path, ("loss", "bits"))
    for key in ("loss", "bits"):
        if key not in arrays:
            raise InputError(f"{path}: {key}: is missing")
    bits = arrays["bits"]
    if bits.ndim != 1 or bits.dtype.kind not in "iu":
        raise InputError(f"{path}: bits: must be a list of integers")
    return checked_table(str(path), bits.tolist(), arrays["loss"])


def _read_csv(path: Path) -> LossTable:
    rows: dict[tuple[int, int, int], float] = {}
    columns: list[int] = []
    widths: dict[int, str] = {}
    for number, line in read_lines(path):
        if line.lstrip().startswith("#"):
            continue
        fields = [field.strip() for field in line.split(",")]
        place = f"{path}: line {number}"
        if not columns:
            columns, widths = _header(place, fields)
            continue
        last = max(*columns, *widths)
        if len(fields) <= last:
            raise InputError(f"{place}: must have {last + 1} fields, not {len(fields)}")
        who = [fields[column] for column in columns[:2]]
        of_width = [[width, fields[column]] for column, width in widths.items()]
        for pair in of_width or [[fields[column] for column in columns[2:]]]:
            key, loss = _row(place, [*who, *pair])
            if key in rows:
                twice = f"layer {key[0]} expert {key[1]} at {key[2]} stands twice"
                raise InputError(f"{place}: {twice}")
            rows[key] = loss
        if len(rows) > MAX_ALL_EXPERTS * MAX_WIDTHS:
            raise InputError(f"{place}: more than {MAX_ALL_EXPERTS * MAX_WIDTHS} rows")
    if not rows:
        raise InputError(f"{path}: holds no losses")
    layers, experts, bits = (sorted({key[axis] for key in rows}) for axis in range(3))
    if len(layers) * len(experts) * len(bits) != len(rows):
        layer, expert, width = next(
            (layer, expert, width)
            for layer in layers
            for expert in experts
            for width in bits
            if (layer, expert, width) not in rows
        )
        raise InputError(f"{path}: loss: layer {layer} expert {expert} has none at {width} bits")
    losses = np.array([rows[key] for key in sorted(rows)])
    return checked_table(str(path), bits, losses.reshape(len(layers), len(experts), len(bits)))


def _header(place: str, fields: list[str]) -> tuple[list[int], dict[int, str]]:
    """Return the places of `COLUMNS`, or of the first two and of each width's losses."""
    named = [field.lower() for field in fields]
    found = (WIDE.fullmatch(name) for name in named)
    wide = {place: match[1] for place, match in enumerate(found) if match}
    needed = COLUMNS[:2] if wide else COLUMNS
    if len(set(named)) < len(named) or not set(needed) <= set(named):
        raise InputError(f"{place}: must be layer,expert,bits,loss, not {shown(','.join(fields))}")
    return [named.index(name) for name in needed], wide


def _row(place: str, fields: list[str]) -> tuple[tuple[int, int, int], float]:
    whole = []
    limits = ((0, MAX_LAYER), (0, MAX_EXPERT), (1, MAX_BITS))
    for name, text, (low, high) in zip(COLUMNS, fields, limits, strict=False):
        plain = text.isascii() and text.isdigit() and len(text) < 10
        if not plain or not low <= int(text) <= high:
            reason = f"must be an integer from {low} to {high}, not {shown(text)}"
            raise InputError(f"{place}: {name}: {reason}")
        whole.append(int(text))
    try:
        loss = float(fields[3])
    except ValueError:
        loss = math.nan
    if not (math.isfinite(loss) and loss >= 0):
        reason = f"must be a finite number, not negative, not {shown(fields[3])}"
        raise InputError(f"{place}: loss: {reason}")
    return (whole[0], whole[1], whole[2]), loss
