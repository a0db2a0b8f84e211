"""From arrays of unknown quality to a `Trace` or `Counts`: every importer ends here.

How much of an untrusted file is read, and the reading itself.

Sizes are bounded before anything is parsed, also those of compressed files.
"""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.core.untrusted import digest, opened, reading
from moeopt.core.wording import shown
from moeopt.sim.traces.trace import NO_EXPERT, Counts, Ids, Trace

MAX_FILE_BYTES = 2 * 2**30
"""Largest file that is opened at all."""

MAX_TEXT_BYTES = 512 * 2**20
"""Most bytes of a text file, after decompression."""

MAX_LINE_BYTES = 32 * 2**20
"""Longest line of a text file that is read line by line."""

SHORT_LINE_BYTES = 2**16
"""Longest line of a table of counts or losses, and of a token's experts in one layer."""

MAX_EXPERT = 2**16 - 1
MAX_LAYER = 2**12 - 1
MAX_TOKENS = 2**28
"""Highest numbers that are taken for an expert, a layer, and a number of tokens."""

MAX_ENTRIES = 2**22
"""Most experts of all layers together in a file of counts."""

MAX_FILES = 4096
"""Most files that are read from one folder."""


def check_size(path: Path) -> None:
    """Refuse a file that is larger than `MAX_FILE_BYTES`, or that is not there."""
    with reading(path):
        if path.stat().st_size > MAX_FILE_BYTES:
            raise InputError(f"{path}: larger than {MAX_FILE_BYTES // 2**20} MiB")


def read_head(path: Path, size: int = 4096) -> bytes:
    """Return the first bytes of a file, decompressed if its name ends in ``.gz``."""
    with reading(path), opened(path, MAX_TEXT_BYTES) as (stream, _):
        return stream.read(size)


def read_lines(path: Path, longest: int = MAX_LINE_BYTES) -> Iterator[tuple[int, str]]:
    """Yield number and text of every line that is not blank, without its end.

    A line of more than `longest` bytes is refused before it is split.
    """
    total = 0
    with reading(path), opened(path, MAX_TEXT_BYTES) as (stream, limit):
        number = 0
        while line := stream.readline(longest + 1):
            number += 1
            total += len(line)
            if len(line) > longest:
                raise InputError(f"{path}: line {number}: longer than {longest} bytes")
            if total > limit:
                raise InputError(f"{path}: larger than {limit // 2**20} MiB")
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            if text.strip():
                yield number, text


def table_rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield "file: line n" and the cells of each line of a CSV of numbers, comments left out."""
    for number, line in read_lines(path, SHORT_LINE_BYTES):
        if not line.lstrip().startswith("#"):
            try:
                cells = next(csv.reader([line])) if '"' in line else line.split(",")
            except csv.Error as error:
                raise InputError(f"{path}: line {number}: {error}") from None
            yield f"{path}: line {number}", [cell.strip() for cell in cells]


WHOLE = re.compile(r"(-?[0-9]{1,18})(?:\.0{1,9})?")
"""A whole number, also as it stands in a column of floats."""


def whole_cell(place: str, name: str, text: str, low: int, high: int) -> int:
    """Return the integer in a cell, within limits."""
    found = WHOLE.fullmatch(text)
    if found is None or not low <= int(found[1]) <= high:
        reason = f"must be an integer from {low} to {high}, not {shown(text)}"
        raise InputError(f"{place}: {name}: {reason}")
    return int(found[1])


def files_in(folder: Path, pattern: str) -> list[Path]:
    """Return the files of a folder whose names match, sorted by name.

    Raises
    ------
    InputError
        If there is none, or more than `MAX_FILES`.
    """
    found = sorted(path for path in folder.glob(pattern) if path.is_file())
    if not found:
        raise InputError(f"{folder}: holds no file called {pattern}")
    if len(found) > MAX_FILES:
        raise InputError(f"{folder}: holds more than {MAX_FILES} files called {pattern}")
    return found


MOST_LAYERS = 256
"""More layers than that, and than tokens, are tokens: axes in another order."""

ROWS_AT_ONCE = 2**20
"""Looked at together for experts that a token has twice, to save memory."""

MAX_COUNT = 2**42
"""Largest number of tokens that an expert may have got."""


class CountsOnlyError(InputError):
    """A file with counts was read as a trace."""


def name_of(path: Path) -> str:
    """Return what a trace is called: folder and file, nothing else of where it lies."""
    full = path.absolute()
    return f"{full.parent.name}/{full.name}"


def checked_trace(
    path: Path,
    ids: Ids,
    weights: Ids | None = None,
    seq_len: Ids | None = None,
    decode: Ids | None = None,
    facts: dict[str, object] | None = None,
) -> Trace:
    """Return a trace, or say which of its arrays cannot be one.

    Parameters
    ----------
    path
        Names the trace and begins every error message.
    ids, weights, seq_len, decode
        As in `Trace`.
    facts
        Added to the digest of the file and the number of tokens.

    Raises
    ------
    InputError
        With file, field and reason, on one line.
    """
    _check_ids(path, ids)
    if weights is not None:
        _check_weights(path, weights, ids)
    if seq_len is not None:
        _check_lengths(path, seq_len, ids.shape[0])
    if decode is not None and (decode.shape != ids.shape[:1] or decode.dtype.kind != "b"):
        found = f"{decode.dtype} of shape {decode.shape}"
        raise InputError(f"{path}: decode: must be a truth value for each token, not {found}")
    known: dict[str, object] = {} if path.is_dir() else {"sha256": digest(path, MAX_FILE_BYTES)}
    known["tokens"] = int(ids.shape[0])
    return Trace(name_of(path), ids, weights, seq_len, known | (facts or {}), decode)


def checked_counts(path: Path, counts: NDArray[np.generic], facts: dict[str, object]) -> Counts:
    """Return counts of shape (steps, layers, experts), or say why they are none."""
    if counts.ndim != 3 or counts.dtype.kind not in "iu":
        found = f"{counts.dtype} of shape {counts.shape}"
        raise InputError(f"{path}: count: must be integers [step, layer, expert], not {found}")
    if 0 in counts.shape:
        raise InputError(f"{path}: count: is empty, shape {counts.shape}")
    for wrong, what in ((int(counts.min()), "negative"), (int(counts.max()), "above 2**42")):
        if not 0 <= wrong <= MAX_COUNT:
            raise InputError(f"{path}: count: must not be {what}, not {wrong}")
    if not counts.any():
        raise InputError(f"{path}: count: is zero for every expert")
    known: dict[str, object] = {} if path.is_dir() else {"sha256": digest(path, MAX_FILE_BYTES)}
    return Counts(name_of(path), counts.astype(np.int64), known | facts)


def smallest(ids: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return the same numbers as the smallest kind of integer that holds them."""
    low, high = int(ids.min(initial=0)), int(ids.max(initial=0))
    kinds = (np.uint8, np.int16, np.uint16, np.int32, np.int64)
    for kind in kinds:
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return ids.astype(kind)
    return ids


def without_empty_layers(ids: NDArray[np.generic]) -> tuple[NDArray[np.generic], list[int]]:
    """Drop layers in which no token has experts, and return the numbers of those that stay.

    Runtimes write rows for dense layers as well, all -1, or all 0 where nothing was recorded (no
    router picks expert 0 several times for one token).
    """
    empty = (ids == NO_EXPERT).all(axis=(0, 2))
    if ids.shape[2] > 1:
        empty |= (ids == 0).all(axis=(0, 2))
    stay = np.flatnonzero(~empty)
    return (ids if len(stay) == ids.shape[1] else ids[:, stay]), stay.tolist()


def layer_facts(layers: list[int]) -> dict[str, object]:
    """Return the model's numbers of the layers as facts, unless they simply count from 0."""
    return {} if layers == list(range(len(layers))) else {"layers": layers}


def _check_ids(path: Path, ids: NDArray[np.generic]) -> None:
    if ids.ndim != 3 or ids.dtype.kind not in "iu":
        found = f"{ids.dtype} of shape {ids.shape}"
        raise InputError(f"{path}: topk_ids: must be integers [token, layer, k], not {found}")
    if 0 in ids.shape:
        raise InputError(f"{path}: topk_ids: is empty, shape {ids.shape}")
    tokens, layers = ids.shape[:2]
    if layers > max(tokens, MOST_LAYERS):
        where = f"{path}: topk_ids: {tokens} tokens in {layers} layers"
        raise InputError(f"{where}: the axes are [token, layer, k], not [layer, token, k]")
    low, high = int(ids.min()), int(ids.max())
    if low < NO_EXPERT:
        raise InputError(f"{path}: topk_ids: must not be negative, except -1 for none, not {low}")
    if high > MAX_EXPERT:
        raise InputError(f"{path}: topk_ids: must be at most {MAX_EXPERT}, not {high}")
    if (tie := first_tie(ids.reshape(tokens * layers, -1))) is not None:
        token, layer = divmod(tie[0], layers)
        where = f"token {token}, layer {layer}"
        raise InputError(f"{path}: topk_ids: {where}: has expert {tie[1]} twice")


def first_tie(rows: NDArray[np.generic]) -> tuple[int, int] | None:
    """Return the first row that has a number other than -1 twice, and the number; None if none."""
    for first in range(0, len(rows), ROWS_AT_ONCE):
        ordered = np.sort(rows[first : first + ROWS_AT_ONCE], axis=1)
        twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != NO_EXPERT)
        if twice.any():
            row, place = (int(at) for at in np.argwhere(twice)[0])
            return first + row, int(ordered[row, place])
    return None


def _check_weights(path: Path, weights: NDArray[np.generic], ids: NDArray[np.generic]) -> None:
    if weights.shape != ids.shape:
        raise InputError(f"{path}: topk_weights: shape {weights.shape} is not that of topk_ids")
    if not (np.issubdtype(weights.dtype, np.floating) and np.isfinite(weights).all()):
        raise InputError(f"{path}: topk_weights: must be finite floats")


def _check_lengths(path: Path, lengths: NDArray[np.generic], tokens: int) -> None:
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or not lengths.size:
        raise InputError(f"{path}: seq_len: must be a list of integers")
    if int(lengths.min()) < 0 or int(lengths.max()) > tokens:
        raise InputError(f"{path}: seq_len: must be from 0 to {tokens}, the tokens")
    if int(lengths.sum()) != tokens:
        raise InputError(f"{path}: seq_len: sums to {lengths.sum()}, not {tokens} tokens")
