"""Traces and counts as text, line by line: counts in columns, llama-moe-trace, ESFT.

Counts as CSV: ``layer,expert,count`` with an optional share, as llama.cpp's tools write them.

SGLang's old recorder wrote ``layer_id,expert_id,count``, one file per rank: a folder is summed.
Lines that begin with ``#`` are comments, the header may be absent, rows that occur again add up,
and expert -1 stands for the shared experts, which are not part of the counts. Further columns with
names are labels: the rows that are read must agree in them.

What ``llama-moe-trace`` records, the tool of a fork of llama.cpp: ``pos,layer,id,id,...``.

One line per token and layer, no header. Positions of a prompt are negative, those of decoded tokens
count from 0; prompts of several batches have their first batch nearest to 0. Files of several runs
may stand one after the other. Of a prompt the last layer may be recorded for its last token only,
as the runtime computes no more of it: the other tokens then have no experts there.

ESFT's text files of expert scores: one file per layer, one line per sequence.

A line gives the experts of all its tokens, one after the other, tabulators between them; then,
after two tabulators, the gate weights in the same way. How many experts a token has is not said. A
folder of ``expert_weights_<layer>.txt`` is a trace of those layers.
"""

import math
import re
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.core.wording import shown
from moeopt.sim.traces.readers.checked import (
    MAX_COUNT,
    MAX_EXPERT,
    MAX_LAYER,
    MAX_TOKENS,
    checked_counts,
    checked_trace,
    files_in,
    layer_facts,
    read_lines,
    smallest,
)
from moeopt.sim.traces.trace import NO_EXPERT, Counts, Trace

SHARES = ("frac_of_layer", "frac")
"""What a fourth column may be called; it is not needed."""

SHARED = -1

_WHOLE = re.compile(r"-?[0-9]{1,18}")


def read_count_csv(path: Path, where: Mapping[str, str] = MappingProxyType({})) -> Counts:
    """Read one file, or all ``.csv`` files of a folder, as counts of one step.

    `where` chooses rows by their labels, in files with further columns such as model or domain.
    """
    tally: dict[tuple[int, int], int] = {}
    for file in files_in(path, "*.csv") if path.is_dir() else [path]:
        seen: set[tuple[int, int]] = set()
        for layer, expert, count in _rows(file, where):
            if (layer, expert) in seen:
                raise InputError(f"{file}: layer {layer} expert {expert}: stands twice")
            seen.add((layer, expert))
            total = tally.get((layer, expert), 0) + count
            if total > MAX_COUNT:
                raise InputError(f"{file}: count: layer {layer} expert {expert}: above 2**42")
            tally[layer, expert] = total
    routed = {key: count for key, count in tally.items() if key[1] != SHARED}
    if not routed:
        raise InputError(f"{path}: holds no counts")
    layers = sorted({layer for layer, _ in routed})
    row_of = {layer: row for row, layer in enumerate(layers)}
    experts = max(expert for _, expert in routed) + 1
    counts = np.zeros((1, len(layers), experts), dtype=np.int64)
    for (layer, expert), count in routed.items():
        counts[0, row_of[layer], expert] = count
    facts: dict[str, object] = {"format": "count-csv"} | layer_facts(layers)
    facts |= {"where": dict(where)} if where else {}
    shared = {str(layer): count for (layer, expert), count in tally.items() if expert == SHARED}
    if shared:
        facts["shared_experts"] = shared
    return checked_counts(path, counts, facts)


def _rows(path: Path, where: Mapping[str, str]) -> Iterator[tuple[int, int, int]]:
    """Yield (layer, expert, count) of the rows whose labels are those of `where`."""
    header = Header(("layer", "expert", "count"), {})
    chosen: dict[str, str] | None = None
    first = True
    for number, line in read_lines(path, SHORT_LINE_BYTES):
        if line.lstrip().startswith("#"):
            continue
        fields = [field.strip() for field in line.split(",")]
        if first and not _WHOLE.fullmatch(fields[0]):
            header = _header(path, fields)
        else:
            place = f"{path}: line {number}"
            labels = header.labels_of(place, fields)
            if all(labels.get(name) == value for name, value in where.items()):
                if chosen is not None and labels != chosen:
                    raise InputError(f"{place}: {_choice(chosen, labels)}")
                chosen = labels
                yield _row(place, header, fields)
        first = False
    for name in where:
        if name not in header.labels:
            known = ", ".join(header.labels) or "none"
            raise InputError(f"{path}: where: {shown(name)} is no column of labels; there: {known}")


@dataclass(frozen=True)
class Header:
    """What the columns are: the names of the first known ones, and label -> column of the others.

    Without a header line the first three columns are layer, expert and count.
    """

    columns: tuple[str, ...]
    labels: dict[str, int]

    def labels_of(self, place: str, fields: list[str]) -> dict[str, str]:
        """Return a row's labels, after checking how many fields it has."""
        least = len(self.columns)
        most = least if self.labels else max(least, 4)
        if not least <= len(fields) <= most:
            wanted = str(least) if least == most else f"{least} or {most}"
            raise InputError(f"{place}: must have {wanted} fields, not {len(fields)}")
        return {name: fields[column] for name, column in self.labels.items()}


def _header(path: Path, fields: list[str]) -> Header:
    named = tuple(field.lower() for field in fields)
    plain = tuple(name.removesuffix("_id") for name in named)
    needed = ("layer", "expert", "count")
    if len(set(plain)) < len(plain) or not set(needed) <= set(plain):
        wanted = "layer,expert,count[,frac_of_layer]"
        raise InputError(f"{path}: header: must be {wanted}, not {shown(','.join(fields))}")
    others = {name: column for column, name in enumerate(plain) if name not in (*needed, *SHARES)}
    return Header(plain, others)


def _choice(one: Mapping[str, str], other: Mapping[str, str]) -> str:
    name = next(name for name in one if one[name] != other[name])
    values = f"{shown(one[name])} and {shown(other[name])}"
    return f"{name}: has {values}, which do not add up; choose with where, e.g. {name}=..."


def _row(place: str, header: Header, fields: list[str]) -> tuple[int, int, int]:
    ranges = {"layer": (0, MAX_LAYER), "expert": (SHARED, MAX_EXPERT), "count": (0, MAX_COUNT)}
    values = []
    for name, (low, high) in ranges.items():
        text = fields[header.columns.index(name)]
        if not _WHOLE.fullmatch(text) or not low <= int(text) <= high:
            reason = f"must be an integer from {low} to {high}, not {shown(text)}"
            raise InputError(f"{place}: {name}: {reason}")
        values.append(int(text))
    return values[0], values[1], values[2]


LINE = re.compile(r"-?[0-9]{1,9}(?:,[0-9]{1,9}){2,}")

SHORT_LINE_BYTES = 2**16
"""Longest line of a table of counts, and of a token's experts in one layer."""

MAX_IDS = 2**28
"""Most tokens x layers x experts of a token."""


def is_moe_trace(head: bytes) -> bool:
    """Tell by a file's first bytes whether it is such a recording, not a table of counts.

    Either the first line is of a prompt and has two experts or more, or it has four or more, which
    are more columns than any table of counts. Others are read where the format is named.
    """
    first = head.split(b"\n", 1)[0].decode("ascii", "replace").strip()
    columns = first.count(",") + 1
    return LINE.fullmatch(first) is not None and columns > (3 if first.startswith("-") else 5)


def read_moe_trace(path: Path, top_k: int | None = None) -> Trace:
    """Read a recording; see `moeopt.load_trace`."""
    rows, of_layer, flat = array("q"), array("i"), array("i")
    decoded: list[bool] = []
    lengths: list[int] = []
    token_of: dict[int, int] = {}  # of the sequence's positions
    seen: set[int] = set()  # token and layer in one number
    before, width = 0, None
    for number, text in read_lines(path, SHORT_LINE_BYTES):
        where = f"{path}: line {number}"
        pos, layer, ids = _line(text, where)
        width = len(ids) if width is None else width
        if len(ids) != width:
            raise InputError(f"{where}: {len(ids)} experts, and {width} in the lines before")
        again = token_of.get(pos, -1) * (MAX_LAYER + 1) + layer in seen
        if not lengths or again or (pos < 0 <= before):
            token_of, seen = {}, set()
            lengths.append(0)
        if (token := token_of.setdefault(pos, len(decoded))) == len(decoded):
            decoded.append(pos >= 0)
            lengths[-1] += 1
        seen.add(token * (MAX_LAYER + 1) + layer)
        rows.append(token)
        of_layer.append(layer)
        flat.extend(ids)
        before = pos
    if width is None:
        raise InputError(f"{path}: holds no tokens")
    layers, columns = np.unique(np.array(of_layer), return_inverse=True)
    if len(decoded) * len(layers) * width > MAX_IDS:
        raise InputError(f"{path}: {len(decoded)} tokens of {len(layers)} layers are too many")
    found = np.full((len(decoded), len(layers), width), NO_EXPERT, dtype=np.int32)
    found[np.array(rows), columns] = np.array(flat).reshape(-1, width)
    return checked_trace(
        path,
        smallest(found),
        seq_len=np.array(lengths),
        decode=np.array(decoded),
        facts={"format": "moe-trace-csv"} | layer_facts(layers.tolist()),
    )


def _line(text: str, where: str) -> tuple[int, int, list[int]]:
    """Return position, layer and experts of a line."""
    if LINE.fullmatch(text.strip()) is None:
        raise InputError(f"{where}: must be pos,layer,id,id,..., not {shown(text)}")
    pos, layer, *ids = map(int, text.split(","))
    for name, value, high in (
        ("pos", abs(pos), MAX_TOKENS),
        ("layer", layer, MAX_LAYER),
        ("id", max(ids), MAX_EXPERT),
    ):
        if value > high:
            raise InputError(f"{where}: {name}: must be at most {high}, not {value}")
    return pos, layer, ids


PATTERN = "expert_weights_*.txt"
MAX_TOP_K = 64
"""Most experts per token that are guessed."""

_INTEGER = re.compile(r"[0-9]{1,9}")


def read_esft_txt(path: Path, top_k: int | None = None) -> Trace:
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
        ids: list[NDArray[np.generic]] = []
        weights: list[NDArray[np.generic]] = []
        for number, line in read_lines(path):
            where = f"{path}: line {number}"
            left, found, right = line.partition("\t\t")
            if not found:
                raise InputError(f"{where}: has no two tabulators between experts and weights")
            ids.append(_experts(left.split("\t"), where))
            weights.append(_weights(right.strip("\t").split("\t"), where))
            if len(ids[-1]) != len(weights[-1]):
                counts = f"{len(ids[-1])} experts and {len(weights[-1])} weights"
                raise InputError(f"{where}: has {counts}")
        if not ids:
            raise InputError(f"{path}: holds no sequences")
        self.lengths = [len(row) for row in ids]
        self.ids, self.weights = np.concatenate(ids), np.concatenate(weights)


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


def _experts(fields: list[str], where: str) -> NDArray[np.int64]:
    for field in fields:
        if not _INTEGER.fullmatch(field) or int(field) > MAX_EXPERT:
            raise InputError(f"{where}: expert must be from 0 to {MAX_EXPERT}, not {shown(field)}")
    return np.array([int(field) for field in fields], dtype=np.int64)


def _weights(fields: list[str], where: str) -> NDArray[np.float64]:
    try:
        values = np.array([float(field) for field in fields], dtype=np.float64)
    except ValueError:
        raise InputError(f"{where}: weights must be numbers") from None
    if not np.isfinite(values).all():
        raise InputError(f"{where}: weights must be finite")
    return values


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
