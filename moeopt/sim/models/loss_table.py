"""Loss tables: what each expert of each layer loses at each width, as measured.

Measured tables are read from CSV, npz or JSON:

- CSV with a header ``layer,expert,bits,loss``, one row per expert and width, in any order, or
  ``layer,expert,loss_1bit,loss_2bit,...``, one row per expert; other columns are not read, and
  lines that begin with ``#`` are comments.
- npz with ``loss`` of shape (layers, experts, widths) and ``bits`` of shape (widths,).
- JSON: ``{"bits": [...], "loss": [[[...]]]}``, losses by layer, expert and width.

Where nobody has measured there is a law fitted to measured losses. The loss of expert e of layer l
of L at b bits is

    exp(depth x l / (L - 1) + spread x N_e - sum over j < b of (fall_j + scatter_j x N_ej))

with independent standard normal N: layers differ by depth, experts of a layer by a log-normal
factor, and each further bit divides a loss by exp(fall_j), not by the same for every expert. Bits
beyond those that were measured count as the last one.

`FITTED` is fitted to the losses that were measured of Mixtral-8x7B's 256 experts at 1, 2 and 3
bits (Mixture Compressor, arXiv:2410.06270; Euclidean error of a layer's output with one expert
quantised by GPTQ): within a layer the largest loss is 1.2 times the least, 3 bits lose 2.5 times
less than 2, and 2 bits 1.2 times less than 1. ``benchmarks/studies/loss_law.py FILE`` fits any
table. Other quantisers, models and errors have other numbers: these are an assumption.

Losses of a table as integers, and what their rounding can change.

A unit of loss is small against the largest loss that counts: the layer's where layers have nothing
in common, the model's where they share a budget or a width, so that their losses add up. A loss
above zero stays above zero, however small: a width that loses something is no tie with one that
loses nothing.

Lemma. Let r(e, b) be what expert e loses exactly at width b, in units, less its integer. For any
two choices of widths the exact difference of their losses and that of the integers are at most
sum over e of (max r(e, b) - min r(e, b)) apart: what a `bitwidth` layer states as `loss_error`.

Proof. The two differences differ by the sum over e of r(e, one width) - r(e, other width). qed

So the widths that are best for the integers lose at most `loss_error` units more than any others.
"""

import math
import re
from dataclasses import asdict, dataclass, replace
from math import log
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moeopt.core.envelope import MAX_ALL_EXPERTS, MAX_BITS, MAX_WIDTHS
from moeopt.core.errors import InputError
from moeopt.core.json_files import JsonObject, read_object
from moeopt.core.rounding import rounded
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


KEPT_BITS = 20
"""Significant bits of a drawn loss: the exponential's last ones depend on the processor."""


@dataclass(frozen=True)
class LossLaw:
    """The law's numbers, all of natural logarithms; `fall` and `scatter` by bit, from 1 on."""

    depth: float
    spread: float
    fall: tuple[float, ...]
    scatter: tuple[float, ...]

    def table(self, layers: int, experts: int, bits: tuple[int, ...], seed: int) -> LossTable:
        """Return drawn losses; more layers or wider widths leave the first ones as they are."""
        steps = bits[-1] - 1
        fall, scatter = (
            np.array([of[min(j, len(of) - 1)] for j in range(steps)])
            for of in (self.fall, self.scatter)
        )
        drawn = []
        for layer, stream in enumerate(np.random.default_rng(seed).spawn(layers)):
            expert = self.spread * stream.standard_normal(experts)
            falls = fall + scatter * stream.standard_normal((steps, experts)).T
            down = np.concatenate([np.zeros((experts, 1)), np.cumsum(falls, axis=1)], axis=1)
            above = self.depth * layer / max(1, layers - 1)
            drawn.append(above + expert[:, None] - down[:, [width - 1 for width in bits]])
        losses = rounded(np.exp(np.stack(drawn)), KEPT_BITS)
        return LossTable("fitted law", bits, losses, {"law": asdict(self)})


FITTED = LossLaw(depth=4.54, spread=0.076, fall=(0.163, 0.907), scatter=(0.026, 0.007))

LAWS = {
    "fitted": FITTED,
    "alike": replace(FITTED, spread=0.0, scatter=(0.0,)),
    "fourfold": replace(FITTED, fall=(log(4),)),
}
"""Option of a generator -> law."""


Ints = NDArray[np.int64]

LOSS_STEPS = 10**10
"""What the largest loss is as an integer. MILP solvers still prove a layer of such numbers."""

TABLE_STEPS = 10**7
"""What the largest entry of a table is as an integer in `by_table`."""

FLOAT_ERROR = 1e-3
"""Units: above the error of a loss below 2**40 units after a product and a quotient of floats."""


@dataclass(frozen=True)
class Rounded:
    """Losses as integers.

    Attributes
    ----------
    losses
        Shape (layers, experts, widths).
    scales
        What a unit stands for, by layer.
    one_unit
        Whether it is the same for all, so that losses of several layers add up.
    errors
        By layer, see the module's lemma; None if unknown.
    """

    losses: Ints
    scales: list[float]
    one_unit: bool
    errors: list[int] | None


def by_loss(losses: Floats, usage: Floats, most: Floats, one_unit: bool) -> Rounded:
    """Round losses that count by usage to units of the largest one.

    Parameters
    ----------
    losses
        Shape (layers, experts, widths), not negative.
    usage
        What each expert's loss counts, shape (layers, experts).
    most
        The most that it counts in any instance with the same units; not below `usage`.
    one_unit
        Whether all layers have the same unit.
    """
    largest = (losses * most[:, :, None]).max(axis=(1, 2))
    if one_unit:
        largest[:] = largest.max()
    # A quotient of denormal numbers may be 0.
    scales = np.maximum(largest / LOSS_STEPS, np.finfo(np.float64).tiny)
    scales[largest == 0] = 1.0
    exact = losses * usage[:, :, None] / scales[:, None, None]
    whole = np.maximum(np.rint(exact), exact > 0)
    spread = (np.ptp(exact - whole, axis=2) + 2 * FLOAT_ERROR).sum(axis=1)
    errors = np.where(largest > 0, np.ceil(spread), 0).astype(np.int64)
    return Rounded(whole.astype(np.int64), scales.tolist(), one_unit, errors.tolist())


def by_table(losses: Floats, usage: Floats, largest: float) -> Rounded:
    """Round in units of a table's largest entry, before anything counts, as instances once were.

    Losses that are small beside it become 0.
    """
    scale = largest / TABLE_STEPS or 1.0
    whole = np.rint(losses * usage[:, :, None] / scale).astype(np.int64)
    return Rounded(whole, [scale] * len(losses), True, None)
