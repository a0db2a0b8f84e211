"""Counts as CSV: ``layer,expert,count`` with an optional share, as llama.cpp's tools write them.

SGLang's old recorder wrote ``layer_id,expert_id,count``, one file per rank: a folder is summed.
Lines that begin with ``#`` are comments, the header may be absent, rows that occur again add up,
and expert -1 stands for the shared experts, which are not part of the counts.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from moeopt.errors import InputError
from moeopt.interop.checked import MAX_COUNT, checked_counts, layer_facts
from moeopt.interop.limits import MAX_EXPERT, MAX_LAYER, files_in, read_lines
from moeopt.problems.wording import shown
from moeopt.sim.trace import Counts

HEADERS = (("layer", "expert", "count"), ("layer_id", "expert_id", "count"))
SHARES = ("frac_of_layer", "frac")
"""What a fourth column may be called; it is not needed."""

SHARED = -1

_WHOLE = re.compile(r"-?[0-9]{1,18}")


def read_count_csv(path: Path) -> Counts:
    """Read one file, or all ``.csv`` files of a folder, as counts of one step."""
    tally: dict[tuple[int, int], int] = {}
    for file in files_in(path, "*.csv") if path.is_dir() else [path]:
        for layer, expert, count in _rows(file):
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
    facts: dict[str, Any] = {"format": "count-csv"} | layer_facts(layers)
    shared = {str(layer): count for (layer, expert), count in tally.items() if expert == SHARED}
    if shared:
        facts["shared_experts"] = shared
    return checked_counts(path, counts, facts)


def _rows(path: Path) -> Iterator[tuple[int, int, int]]:
    first = True
    for number, line in read_lines(path):
        if line.lstrip().startswith("#"):
            continue
        fields = [field.strip() for field in line.split(",")]
        if first and not _WHOLE.fullmatch(fields[0]):
            _check_header(path, fields)
        else:
            yield _row(f"{path}: line {number}", fields)
        first = False


def _check_header(path: Path, fields: list[str]) -> None:
    named = [field.lower() for field in fields]
    if tuple(named[:3]) not in HEADERS or named[3:] not in ([], *([share] for share in SHARES)):
        wanted = "layer,expert,count[,frac_of_layer]"
        raise InputError(f"{path}: header: must be {wanted}, not {shown(','.join(fields))}")


def _row(where: str, fields: list[str]) -> tuple[int, int, int]:
    if len(fields) not in (3, 4):
        raise InputError(f"{where}: must have 3 or 4 fields, not {len(fields)}")
    names = ("layer", "expert", "count")
    ranges = ((0, MAX_LAYER), (SHARED, MAX_EXPERT), (0, MAX_COUNT))
    values = []
    for name, text, (low, high) in zip(names, fields[:3], ranges, strict=True):
        if not _WHOLE.fullmatch(text) or not low <= int(text) <= high:
            reason = f"must be an integer from {low} to {high}, not {shown(text)}"
            raise InputError(f"{where}: {name}: {reason}")
        values.append(int(text))
    return values[0], values[1], values[2]
