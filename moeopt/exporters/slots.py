"""Physical slots of experts: which expert each slot of a layer holds, those on the GPU first."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from moeopt.errors import InputError
from moeopt.problems.json_files import read_object

Row = list[int]


def redundant(experts: int, ep_size: int) -> int:
    """Return the fewest copies that make the slots of a layer divide evenly over the devices."""
    return -experts % ep_size


def slots_of(gpu: Sequence[int], experts: int, copies: int) -> Row:
    """Return the experts of a layer's slots: the GPU's, then the others, then copies.

    Both parts rise. Copies are of the first slots: what is on the GPU anyway.
    """
    first = sorted(gpu)
    row = first + sorted(set(range(experts)) - set(first))
    return row + [row[place % experts] for place in range(copies)]


def gpu_of(row: Sequence[int], count: int) -> tuple[int, ...]:
    """Return what `slots_of` was made from: the experts of the first `count` slots."""
    return tuple(sorted(row[:count]))


def read_rows(data: Any, where: str) -> list[Row]:
    """Return a list of equally long lists of integers as it stands in a file."""
    good = isinstance(data, list) and data and all(isinstance(row, list) and row for row in data)
    if not good or any(type(slot) is not int or slot < 0 for row in data for slot in row):
        raise InputError(f"{where}: must be lists of experts")
    if len({len(row) for row in data}) > 1:
        raise InputError(f"{where}: must have equally many slots in every layer")
    rows: list[Row] = data
    return rows


def read_counts(notes: Path, layers: int) -> list[int]:
    """Return how many slots of each of these layers are on the GPU, from the side file."""
    counts = read_object(notes).get("per_layer")
    if not isinstance(counts, list) or any(type(n) is not int or n < 0 for n in counts):
        raise InputError(f"{notes}: per_layer: must be a list of counts")
    if len(counts) != layers:
        raise InputError(f"{notes}: per_layer: has {len(counts)} entries, the map {layers} layers")
    return counts


def as_json(data: Any) -> bytes:
    """Return JSON, compact, on one line."""
    return (json.dumps(data) + "\n").encode()
