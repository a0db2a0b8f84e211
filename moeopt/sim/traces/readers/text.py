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
from itertools import islice
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.core.wording import shown
from moeopt.sim.traces.readers.checked import (
    MAX_COUNT,
    MAX_ENTRIES,
    MAX_EXPERT,
    MAX_LAYER,
    MAX_TOKENS,
    SHORT_LINE_BYTES,
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

ROW = MAX_EXPERT + 2
"""Experts that a layer may have, the shared ones among them."""

_WHOLE = re.compile(r"-?[0-9]{1,18}")


def read_count_csv(path: Path, where: Mapping[str, str] = MappingProxyType({})) -> Counts:
    """Read one file, or all ``.csv`` files of a folder, as counts of one step.

    `where` chooses rows by their labels, in files with further columns such as model or domain.
    """
    tally: dict[int, int] = {}  # by layer and expert in one number
    for file in files_in(path, "*.csv") if path.is_dir() else [path]:
        own: dict[int, int] = {}
        for layer, expert, count in _rows(file, where):
            if (key := layer * ROW + expert - SHARED) in own:
                raise InputError(f"{file}: layer {layer} expert {expert}: stands twice")
            own[key] = count
            if tally.get(key, 0) + count > MAX_COUNT:
                raise InputError(f"{file}: count: layer {layer} expert {expert}: above 2**42")
        if not tally:
            tally = own
            continue
        for key, count in own.items():
            tally[key] = tally.get(key, 0) + count
    shared = {str(key // ROW): tally.pop(key) for key in sorted(tally) if key % ROW == 0}
    if not tally:
        raise InputError(f"{path}: holds no counts")
    keys = np.fromiter(tally, np.int64, len(tally))
    layers, rows = np.unique(keys // ROW, return_inverse=True)
    experts = int((keys % ROW).max())
    if len(layers) * experts > MAX_ENTRIES:
        raise InputError(f"{path}: {len(layers)} layers of {experts} experts are too many")
    counts = np.zeros((1, len(layers), experts), dtype=np.int64)
    counts[0, rows, keys % ROW - 1] = np.fromiter(tally.values(), np.int64, len(tally))
    facts: dict[str, object] = {"format": "count-csv"} | layer_facts(layers.tolist())
    facts |= {"where": dict(where)} if where else {}
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

MAX_IDS = 2**28
"""Most tokens x layers x experts of a token."""

MOST_EMPTY = 8
"""How many times its lines a recording's table may be, as a prompt's last layer has few of them."""

LINES_AT_ONCE = 2**14
"""Lines that are looked at together: one by one they take three times as long."""


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
