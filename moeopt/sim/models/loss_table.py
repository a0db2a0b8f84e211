"""Loss tables: what each expert of each layer loses at each width, as measured.

Measured tables are read from CSV, npz or JSON:

- CSV with a header ``layer,expert,bits,loss``, one row per expert and width, in any order, or
  ``layer,expert,loss_1bit,loss_2bit,...``, one row per expert; other columns are not read, and
  lines that begin with ``#`` are comments.
- npz with ``loss`` of shape (layers, experts, widths) and ``bits`` of shape (widths,).
- JSON: ``{"bits": [...], "loss": [[[...]]]}``, losses by layer, expert and width.
"""

import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moeopt.core.envelope import MAX_ALL_EXPERTS, MAX_BITS, MAX_WIDTHS
from moeopt.core.errors import InputError
from moeopt.core.json_files import JsonObject, read_object
from moeopt.core.untrusted import digest
from moeopt.core.wording import shown
from moeopt.sim.traces.readers.checked import (
    MAX_EXPERT,
    MAX_FILE_BYTES,
    MAX_LAYER,
    check_size,
    name_of,
    table_rows,
    whole_cell,
)
from moeopt.sim.traces.readers.topk_npz import read_npz

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LossTable:
    """Losses of quantised experts, in the unit of whoever measured them.

    Attributes
    ----------
    name
        Where it comes from, for provenance.
    bits
        The widths, rising.
    losses
        Shape (layers, experts, widths), finite, not negative.
    facts
        Anything else that belongs into an instance's provenance.
    """

    name: str
    bits: tuple[int, ...]
    losses: Floats
    facts: JsonObject | None = None

    def restricted(self, bits: tuple[int, ...]) -> "LossTable":
        """Return the columns of some of the widths.

        Raises
        ------
        InputError
            If the table lacks one of them.
        """
        missing = [width for width in bits if width not in self.bits]
        if missing:
            known = ", ".join(map(str, self.bits))
            raise InputError(f"{self.name}: bits: {missing[0]} is missing; there: {known}")
        columns = [self.bits.index(width) for width in bits]
        return LossTable(self.name, bits, self.losses[:, :, columns], self.facts)


def checked_table(
    where: str, bits: object, losses: NDArray[np.generic], facts: JsonObject | None = None
) -> LossTable:
    """Return a loss table, or say what is wrong with its numbers.

    Parameters
    ----------
    where
        Names the table, and begins every error message.

    Raises
    ------
    InputError
        With table, field and reason.
    """
    widths = checked_widths(f"{where}: bits", bits)
    if losses.ndim != 3 or losses.dtype.kind not in "iuf" or 0 in losses.shape:
        found = f"{losses.dtype} of shape {losses.shape}"
        raise InputError(f"{where}: loss: must be numbers [layer, expert, width], not {found}")
    if losses.shape[2] != len(widths):
        raise InputError(f"{where}: loss: {losses.shape[2]} widths, and {len(widths)} in bits")
    if losses.shape[0] * losses.shape[1] > MAX_ALL_EXPERTS:
        raise InputError(f"{where}: loss: more than {MAX_ALL_EXPERTS} experts")
    with np.errstate(over="ignore", invalid="ignore"):
        numbers = losses.astype(np.float64)
    if not np.isfinite(numbers).all() or (numbers < 0).any():
        layer, expert, column = np.argwhere(~(np.isfinite(numbers) & (numbers >= 0)))[0].tolist()
        reason = "must be finite and not negative"
        raise InputError(f"{where}: loss[{layer}][{expert}][{column}]: {reason}")
    return LossTable(where, widths, numbers, facts)


def checked_widths(where: str, bits: object) -> tuple[int, ...]:
    """Return widths as a tuple; one line with place and reason if they are none.

    Raises
    ------
    InputError
        If they are not 1 to 16 rising integers from 1 to 64.
    """
    if not isinstance(bits, list) or not 1 <= len(bits) <= MAX_WIDTHS:
        raise InputError(f"{where}: must be a list of 1 to {MAX_WIDTHS} widths")
    for row, width in enumerate(bits):
        if type(width) is not int or not 1 <= width <= MAX_BITS:
            reason = f"must be an integer from 1 to {MAX_BITS}, not {shown(width)}"
            raise InputError(f"{where}[{row}]: {reason}")
        if row and width <= bits[row - 1]:
            raise InputError(f"{where}[{row}]: must rise")
    return tuple(bits)


def _read_json(path: Path) -> LossTable:
    data = read_object(path)
    for key in ("bits", "loss"):
        if key not in data:
            raise InputError(f"{path}: {key}: is missing")
    for key in data:
        if key not in ("bits", "loss", "facts"):
            raise InputError(f"{path}: {shown(key)}: is not a known key")
    facts = data.get("facts")
    if facts is not None and not isinstance(facts, dict):
        raise InputError(f"{path}: facts: must be an object")
    return checked_table(str(path), data["bits"], _array(path, data["loss"]), facts)


def _array(path: Path, losses: object) -> NDArray[np.generic]:
    """Return nested lists of numbers as an array."""
    if not isinstance(losses, list) or not all(
        isinstance(layer, list)
        and all(
            isinstance(expert, list) and all(type(x) in (int, float) for x in expert)
            for expert in layer
        )
        for layer in losses
    ):
        raise InputError(f"{path}: loss: must be numbers [layer, expert, width]")
    try:
        return np.array(losses, dtype=np.float64)
    except (ValueError, OverflowError):
        reason = "layers and experts must be of equal length, and numbers of usable size"
        raise InputError(f"{path}: loss: {reason}") from None


WIDE = re.compile(r"loss_([0-9]{1,2})bits?")
"""A column with the losses at one width."""

COLUMNS = ("layer", "expert", "bits", "loss")


def load_loss_table(path: str | Path) -> LossTable:
    """Read a loss table; the form is told from the name's ending.

    Layers and experts are numbered from 0 in the order of their numbers in the file; every expert
    must have a loss at every width. Generators and planner read their option `loss_table` with it.

    Raises
    ------
    InputError
        If the file cannot be read or is no such table; one line with file, field and reason.
    """
    path = Path(path)
    ending = "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix
    readers = {".csv": _read_csv, ".csv.gz": _read_csv, ".npz": _read_npz}
    readers |= {".json": _read_json, ".json.gz": _read_json}
    if ending not in readers:
        raise InputError(f"{path}: must end in .csv, .npz or .json (or .csv.gz, .json.gz)")
    check_size(path)
    table = readers[ending](path)
    facts = {"sha256": digest(path, MAX_FILE_BYTES)} | (table.facts or {})
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
    for place, fields in table_rows(path):
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
    limits = ((0, MAX_LAYER), (0, MAX_EXPERT), (1, MAX_BITS))
    layer, expert, bits = (
        whole_cell(place, name, text, low, high)
        for name, text, (low, high) in zip(COLUMNS, fields, limits, strict=False)
    )
    try:
        loss = float(fields[3])
    except ValueError:
        loss = math.nan
    if not (math.isfinite(loss) and loss >= 0):
        reason = f"must be a finite number, not negative, not {shown(fields[3])}"
        raise InputError(f"{place}: loss: {reason}")
    return (layer, expert, bits), loss
