"""Traces of moe-balance: one JSON object per layer and batch.

``{"layer": .., "batch_id": .., "origin_rows": [..], "topk_experts": [[..], ..], "topk_weights":
[[..], ..]}``, with a list of experts per token. ``origin_rows`` says from which device a token came
and is not needed here; objects with the same layer and batch are parts of one batch.
"""

from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.rooms.core import kind_of, shown
from benchmarks.rooms.sim import (
    MAX_LAYER,
    Trace,
    checked_trace,
    integer,
    layer_facts,
    read_json_lines,
    smallest,
    weight_list,
)
from benchmarks.traces.hdmoe import expert_table
from moeopt import InputError

Parts = dict[tuple[str | int, int], list[NDArray[np.generic]]]
"""(batch, layer) -> arrays of shape (tokens, k)."""


def read_moe_balance(path: Path, top_k: int | None = None) -> Trace:
    """Read such a file; batches follow one another in the order in which they appear."""
    ids: Parts = {}
    weights: Parts = {}
    for where, line in read_json_lines(path):
        batch = line.get("batch_id", 0)
        if isinstance(batch, bool) or not isinstance(batch, str | int):
            raise InputError(f"{where}: batch_id: must be text or an integer, not {shown(batch)}")
        layer = integer(line.get("layer"), f"{where}: layer", MAX_LAYER)
        if line.get("topk_experts") == []:
            continue
        table = expert_table(line.get("topk_experts"), f"{where}: topk_experts")
        ids.setdefault((batch, layer), []).append(table)
        if line.get("topk_weights") is not None:
            found = _weight_table(line["topk_weights"], table.shape, f"{where}: topk_weights")
            weights.setdefault((batch, layer), []).append(found)
    if not ids:
        raise InputError(f"{path}: holds no tokens")
    batches = list(dict.fromkeys(batch for batch, _ in ids))
    layers = sorted({layer for _, layer in ids})
    facts = {"format": "moe-balance-jsonl", "batches": len(batches)} | layer_facts(layers)
    experts = smallest(_assembled(path, ids, batches, layers))
    if weights and [len(weights.get(key, ())) for key in ids] != [len(p) for p in ids.values()]:
        raise InputError(f"{path}: topk_weights: is missing in some lines")
    gates = _assembled(path, weights, batches, layers) if weights else None
    return checked_trace(path, experts, gates, facts=facts)


def _weight_table(rows: object, shape: tuple[int, ...], where: str) -> NDArray[np.float64]:
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise InputError(f"{where}: must be a list of lists, not {kind_of(rows)}")
    if len(rows) != shape[0] or any(len(row) != shape[1] for row in rows):
        raise InputError(f"{where}: must be {shape[0]} lists of {shape[1]} numbers")
    return weight_list(list(chain.from_iterable(rows)), where).reshape(shape)


def _assembled(
    path: Path, parts: Parts, batches: list[str | int], layers: list[int]
) -> NDArray[np.generic]:
    """Return the arrays of all batches and layers as one of shape (tokens, layers, k)."""
    pieces = []
    for batch in batches:
        columns = []
        for layer in layers:
            if (batch, layer) not in parts:
                raise InputError(f"{path}: layer: {layer} is missing in batch {shown(batch)}")
            columns += [_joined(path, parts[batch, layer])]
            if columns[-1].shape != columns[0].shape:
                found = f"{columns[-1].shape}, and {columns[0].shape} in layer {layers[0]}"
                raise InputError(f"{path}: layer {layer}: batch {shown(batch)} has shape {found}")
        pieces.append(np.stack(columns, axis=1))
    return _joined(path, pieces)


def _joined(path: Path, pieces: list[NDArray[np.generic]]) -> NDArray[np.generic]:
    if len({piece.shape[1:] for piece in pieces}) > 1:
        raise InputError(f"{path}: topk_experts: has a different width in some lines")
    return np.concatenate(pieces)
