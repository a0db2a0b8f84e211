"""Loss tables: what each expert of each layer loses at each width, as measured."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.core.envelope import MAX_ALL_EXPERTS, MAX_BITS, MAX_WIDTHS
from moeopt.core.errors import InputError
from moeopt.core.json_files import read_object, save
from moeopt.core.wording import shown

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
    facts: dict[str, Any] | None = None

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
    where: str, bits: Any, losses: NDArray[np.generic], facts: dict[str, Any] | None = None
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
    if losses.shape[2] != len(bits):
        raise InputError(f"{where}: loss: {losses.shape[2]} widths, and {len(bits)} in bits")
    if losses.shape[0] * losses.shape[1] > MAX_ALL_EXPERTS:
        raise InputError(f"{where}: loss: more than {MAX_ALL_EXPERTS} experts")
    numbers = losses.astype(np.float64)
    if not np.isfinite(numbers).all() or (numbers < 0).any():
        layer, expert, column = np.argwhere(~(np.isfinite(numbers) & (numbers >= 0)))[0].tolist()
        reason = "must be finite and not negative"
        raise InputError(f"{where}: loss[{layer}][{expert}][{column}]: {reason}")
    return LossTable(where, widths, numbers, facts)


def checked_widths(where: str, bits: Any) -> tuple[int, ...]:
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


def read_loss_table(path: Path) -> LossTable:
    """Read a table in the project's own form, JSON: ``{"bits": [...], "loss": [[[...]]]}``.

    Raises
    ------
    InputError
        If the file cannot be read or is no such table. Other forms:
        `moeopt.sim.models.loss_tables`.
    """
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
    table = checked_table(str(path), data["bits"], _array(path, data["loss"]), facts)
    return LossTable(path.name, table.bits, table.losses, facts)


def save_loss_table(table: LossTable, path: str | Path) -> None:
    """Write a table in the project's own form, whole or not at all."""
    data: dict[str, Any] = {"bits": list(table.bits), "loss": table.losses.tolist()}
    save(data | ({"facts": table.facts} if table.facts else {}), path)


def _array(path: Path, losses: Any) -> NDArray[np.generic]:
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
