"""Recordings of ``llama-moe-trace``, the tool of a fork of llama.cpp: ``pos,layer,id,id,...``.

One line per token and layer, no header. Positions of a prompt are negative, those of decoded tokens
count from 0; prompts of several batches have their first batch nearest to 0. Files of several runs
may stand one after the other. Of a prompt the last layer may be recorded for its last token only,
as the runtime computes no more of it: the other tokens then have no experts there.
"""

import re
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.rooms.core import shown
from benchmarks.rooms.sim import (
    MAX_ENTRIES,
    MAX_EXPERT,
    MAX_LAYER,
    MAX_TOKENS,
    NO_EXPERT,
    SHORT_LINE_BYTES,
    Trace,
    checked_trace,
    layer_facts,
    read_lines,
    smallest,
)
from moeopt import InputError

LINE = re.compile(r"-?[0-9]{1,9}(?:,[0-9]{1,9}){2,}")

MAX_IDS = 2**28
"""Most tokens x layers x experts of a token."""

MOST_EMPTY = 8
"""How many times its lines a recording's table may be, as a prompt's last layer has few of them."""

LINES_AT_ONCE = 2**14
"""Lines that are looked at together: one by one they take three times as long."""


def read_moe_trace(path: Path, top_k: int | None = None) -> Trace:
    """Read a recording."""
    table = _table(path)
    pos = table[:, 0].astype(np.int64)
    layers, columns = np.unique(table[:, 1], return_inverse=True)
    run = _runs(pos, columns, len(layers))
    _, first, rows = np.unique(run * 2 * MAX_TOKENS + pos, return_index=True, return_inverse=True)
    order = np.argsort(first)  # tokens stand as they come
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    first = first[order]
    cells, width = len(order) * len(layers), table.shape[1] - 2
    if cells * width > min(MAX_IDS, max(MAX_ENTRIES, MOST_EMPTY * len(table) * width)):
        raise InputError(f"{path}: {len(order)} tokens of {len(layers)} layers are too many")
    found = np.full((len(order), len(layers), width), NO_EXPERT, dtype=np.int32)
    found[place[rows], columns] = table[:, 2:]
    return checked_trace(
        path,
        smallest(found),
        seq_len=np.bincount(run[first]),
        decode=pos[first] >= 0,
        facts={"format": "moe-trace-csv"} | layer_facts(layers.tolist()),
    )


def _table(path: Path) -> NDArray[np.int32]:
    """Return position, layer and experts of every line, read by many lines at once."""
    lines = read_lines(path, SHORT_LINE_BYTES)
    parts: list[NDArray[np.int32]] = []
    width = 0
    while some := list(islice(lines, LINES_AT_ONCE)):
        width = width or len(_line(some[0][1], f"{path}: line {some[0][0]}", 0))
        text = "\n".join([line.strip() for _, line in some])
        plain = re.fullmatch(rf"(?:-?[0-9]{{1,9}}(?:,[0-9]{{1,9}}){{{width - 1}}}(?:\n|\Z))+", text)
        part = np.fromstring(text.replace("\n", ",") if plain else "0", np.int32, sep=",")
        part = part.reshape(-1, width if plain else 1)
        most = (abs(part[:, 0]).max(), part[:, 1:2].max(initial=0), part[:, 2:].max(initial=0))
        if not plain or any(np.greater(most, (MAX_TOKENS, MAX_LAYER, MAX_EXPERT))):
            for number, line in some:
                _line(line, f"{path}: line {number}", width)
        parts.append(part)
    if not parts:
        raise InputError(f"{path}: holds no tokens")
    return np.concatenate(parts)


def _runs(pos: NDArray[np.int64], columns: NDArray[np.int64], layers: int) -> NDArray[np.int64]:
    """Return the number of each line's run.

    A run ends where a token has a layer again, or a prompt comes after decoded tokens.
    """
    key = pos * layers + columns
    order = np.argsort(key, kind="stable")
    before = np.full(len(key), -1)
    same = np.flatnonzero(key[order[1:]] == key[order[:-1]])
    before[order[same + 1]] = order[same]
    prompt = np.append(False, (pos[1:] < 0) & (pos[:-1] >= 0))
    begins = np.zeros(len(key), dtype=np.int64)
    begin = 0
    for line in map(int, np.flatnonzero(prompt | (before >= 0))):
        if prompt[line] or before[line] >= begin:
            begins[line], begin = 1, line
    return np.cumsum(begins)


def _line(text: str, where: str, width: int) -> list[int]:
    """Return position, layer and experts of a line, as many as in the lines before if any."""
    if LINE.fullmatch(text.strip(" \t\r\n")) is None:  # int() takes no other white space
        raise InputError(f"{where}: must be pos,layer,id,id,..., not {shown(text)}")
    pos, layer, *ids = values = list(map(int, text.split(",")))
    if len(values) != (width or len(values)):
        raise InputError(f"{where}: {len(ids)} experts, and {width - 2} in the lines before")
    for name, value, high in (
        ("pos", abs(pos), MAX_TOKENS),
        ("layer", layer, MAX_LAYER),
        ("id", max(ids), MAX_EXPERT),
    ):
        if value > high:
            raise InputError(f"{where}: {name}: must be at most {high}, not {value}")
    return values
