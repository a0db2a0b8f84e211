"""Counts as CSV: ``layer,expert,count`` with an optional share, as llama.cpp's tools write them.

Or wide, with a row for each layer and a column for each expert: ``layer,expert_0,expert_1,...``, or
``,0,1,...`` as pandas writes a frame.

SGLang's old recorder wrote ``layer_id,expert_id,count``, one file per rank: a folder is summed.
Lines that begin with ``#`` are comments, the header may be absent, rows that occur again add up,
and expert -1 stands for the shared experts, which are not part of the counts. Further columns with
names are labels: the rows that are read must agree in them.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import numpy as np

from moeopt.core.errors import InputError
from moeopt.core.wording import shown
from moeopt.sim.traces.readers.checked import (
    MAX_COUNT,
    MAX_ENTRIES,
    MAX_EXPERT,
    MAX_LAYER,
    WHOLE,
    checked_counts,
    files_in,
    layer_facts,
    table_rows,
    whole_cell,
)
from moeopt.sim.traces.trace import Counts

SHARES = ("frac_of_layer", "frac")
"""What a fourth column may be called; it is not needed."""

SHARED = -1

ROW = MAX_EXPERT + 2
"""Experts that a layer may have, the shared ones among them."""

_COLUMN = re.compile(r"(?:e|experts?)?[ _.-]?([0-9]{1,5})")
"""What the column of an expert is called in a wide table."""


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
    for place, fields in table_rows(path):
        if first and not WHOLE.fullmatch(fields[0]):
            header = _header(path, fields)
        else:
            labels = header.labels_of(place, fields)
            if all(labels.get(name) == value for name, value in where.items()):
                if chosen is not None and labels != chosen:
                    raise InputError(f"{place}: {_choice(chosen, labels)}")
                chosen = labels
                yield from _counts_of_row(place, header, fields)
        first = False
    for name in where:
        if name not in header.labels:
            known = ", ".join(header.labels) or "none"
            raise InputError(f"{path}: where: {shown(name)} is no column of labels; there: {known}")


@dataclass(frozen=True)
class Header:
    """What the columns are: the names of the first known ones, and label -> column of the others.

    Without a header line the first three columns are layer, expert and count. `experts` has expert
    -> column in a wide table, where there is none for expert and count.
    """

    columns: tuple[str, ...]
    labels: dict[str, int]
    experts: dict[int, int] = field(default_factory=dict)

    def labels_of(self, place: str, fields: list[str]) -> dict[str, str]:
        """Return a row's labels, after checking how many fields it has."""
        least = len(self.columns)
        most = least if self.labels or self.experts else max(least, 4)
        if not least <= len(fields) <= most:
            wanted = str(least) if least == most else f"{least} or {most}"
            hint = "" if len(fields) <= most else "; a header line says what columns are"
            raise InputError(f"{place}: must have {wanted} fields, not {len(fields)}{hint}")
        return {name: fields[column] for name, column in self.labels.items()}


def _header(path: Path, fields: list[str]) -> Header:
    named = tuple(name.lower() for name in fields)
    plain = tuple(name.removesuffix("_id") for name in named)
    needed = ("layer", "expert", "count")
    if len(set(plain)) == len(plain) and set(needed) <= set(plain):
        used = (*needed, *SHARES)
        return Header(plain, {name: at for at, name in enumerate(plain) if name not in used})
    wide = _wide_header(plain)
    if wide is None:
        known = "layer,expert,count[,frac_of_layer] or layer,expert_0,expert_1,..."
        raise InputError(f"{path}: header: is {shown(','.join(fields))}; known: {known}")
    return wide


def _wide_header(plain: tuple[str, ...]) -> Header | None:
    """Return the header of a table with a column for each expert; None if it is none."""
    columns = ("layer", *plain[1:]) if plain[:1] == ("",) else plain
    found = {at: match for at, name in enumerate(columns) if (match := _COLUMN.fullmatch(name))}
    experts = {int(match[1]): at for at, match in found.items()}
    distinct = len(set(columns)) == len(columns) and len(experts) == len(found)
    if not experts or not distinct or "layer" not in columns or max(experts) > MAX_EXPERT:
        return None
    labels = {name: at for at, name in enumerate(columns) if name != "layer" and at not in found}
    return Header(columns, labels, experts)


def _choice(one: Mapping[str, str], other: Mapping[str, str]) -> str:
    name = next(name for name in one if one[name] != other[name])
    values = f"{shown(one[name])} and {shown(other[name])}"
    return f"{name}: has {values}, which do not add up; choose with where, e.g. {name}=..."


def _counts_of_row(place: str, header: Header, fields: list[str]) -> Iterator[tuple[int, int, int]]:
    """Yield (layer, expert, count) of a row, of which a wide table has many."""
    at = header.columns.index
    layer = whole_cell(place, "layer", fields[at("layer")], 0, MAX_LAYER)
    if not header.experts:
        expert = whole_cell(place, "expert", fields[at("expert")], SHARED, MAX_EXPERT)
        yield layer, expert, whole_cell(place, "count", fields[at("count")], 0, MAX_COUNT)
    for expert, column in header.experts.items():
        name = header.columns[column]
        yield layer, expert, whole_cell(place, name, fields[column], 0, MAX_COUNT)
