"""Expert scores published with ESFT: one text file per layer, one line per sequence.

A line gives the experts of all its tokens, one after the other, tabulators between them; then,
after two tabulators, the gate weights in the same way. How many experts a token has is not said. A
folder of ``expert_weights_<layer>.txt`` is a trace of those layers.
"""

import math
import re
from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.rooms.core import shown
from benchmarks.rooms.sim import (
    MAX_EXPERT,
    MAX_LAYER,
    Trace,
    checked_trace,
    files_in,
    layer_facts,
    read_lines,
    smallest,
)
from moeopt import InputError

PATTERN = "expert_weights_*.txt"
MAX_TOP_K = 64
"""Most experts per token that are guessed."""

_INTEGER = re.compile(r"[0-9]{1,9}")


def read_esft(path: Path, top_k: int | None = None) -> Trace:
    """Read one layer, or all layers of a folder.

    Where `top_k` is not given, it is the largest number that divides every line and gives no token
    the same expert twice.
    """
    files = _layer_files(path)
    layers = sorted(files)
    tables = {layer: _Table(files[layer]) for layer in layers}
    lengths = tables[layers[0]].lengths
    for layer in layers:
        if tables[layer].lengths != lengths:
            raise InputError(f"{files[layer]}: its sequences are not those of layer {layers[0]}")
    if top_k is None:
        top_k = _guessed(path, [table.ids for table in tables.values()], lengths)
    elif top_k < 1 or any(length % top_k for length in lengths):
        raise InputError(f"{path}: top_k: {top_k} does not divide the length of every line")
    ids, weights = (
        np.stack([part.reshape(-1, top_k) for part in parts], axis=1)
        for parts in ([t.ids for t in tables.values()], [t.weights for t in tables.values()])
    )
    facts = {"format": "esft-txt"} | layer_facts(layers)
    return checked_trace(path, smallest(ids), weights, np.array(lengths) // top_k, None, facts)


class _Table:
    """One layer: ids and weights of all tokens in a row, and how many entries a sequence has."""

    def __init__(self, path: Path) -> None:
        ids, weights = array("i"), array("d")
        self.lengths: list[int] = []
        for number, line in read_lines(path):
            where = f"{path}: line {number}"
            left, found, right = line.partition("\t\t")
            if not found:
                raise InputError(f"{where}: has no two tabulators between experts and weights")
            before = len(ids)
            ids.extend(_experts(left, where))
            weights.extend(_weights(right.strip("\t"), where))
            if len(ids) != len(weights):
                counts = f"{len(ids) - before} experts and {len(weights) - before} weights"
                raise InputError(f"{where}: has {counts}")
            self.lengths.append(len(ids) - before)
        if not self.lengths:
            raise InputError(f"{path}: holds no sequences")
        self.ids, self.weights = np.array(ids), np.array(weights)


def _layer_files(path: Path) -> dict[int, Path]:
    if not path.is_dir():
        return {0: path}
    files = {}
    for file in files_in(path, PATTERN):
        number = file.stem.rpartition("_")[2]
        if not _INTEGER.fullmatch(number) or int(number) > MAX_LAYER or int(number) in files:
            raise InputError(f"{file}: its name does not end in the number of a layer")
        files[int(number)] = file
    return files


def _fields(text: str) -> Iterator[str]:
    """Yield what stands between tabulators, not all at once: a line may have millions."""
    begin = 0
    while (end := text.find("\t", begin)) >= 0:
        yield text[begin:end]
        begin = end + 1
    yield text[begin:]


def _experts(text: str, where: str) -> Iterator[int]:
    for field in _fields(text):
        if not _INTEGER.fullmatch(field) or int(field) > MAX_EXPERT:
            raise InputError(f"{where}: expert must be from 0 to {MAX_EXPERT}, not {shown(field)}")
        yield int(field)


def _weights(text: str, where: str) -> Iterator[float]:
    for field in _fields(text):
        try:
            value = float(field)
        except ValueError:
            raise InputError(f"{where}: weights must be numbers") from None
        if not math.isfinite(value):
            raise InputError(f"{where}: weights must be finite")
        yield value


def _guessed(path: Path, tables: list[NDArray[np.int64]], lengths: list[int]) -> int:
    common = math.gcd(*lengths)
    for width in range(min(common, MAX_TOP_K), 1, -1):
        if common % width == 0 and all(_distinct(ids.reshape(-1, width)) for ids in tables):
            return width
    if common >= 1 and all(len(ids) for ids in tables):
        return 1
    raise InputError(f"{path}: top_k: cannot be told from the file")


def _distinct(rows: NDArray[np.int64]) -> bool:
    ordered = np.sort(rows, axis=1)
    return bool((ordered[:, 1:] != ordered[:, :-1]).all())
