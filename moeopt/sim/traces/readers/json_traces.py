"""Traces as JSON: HD-MoE's layers, objects per token and layer, moe-balance's batches.

HD-MoE's traces: a JSON object that gives for every layer the list of all tokens' experts.

Routing as one JSON object per token and layer.

``{"type": "route", "req_id": .., "token_idx": .., "layer": .., "topk_ids": [..], "topk_weights":
[..]}``; objects of another type are left alone. A ``phase`` of "prefill" or "decode" is understood.

moe-balance's traces: one JSON object per layer and batch.

``{"layer": .., "batch_id": .., "origin_rows": [..], "topk_experts": [[..], ..], "topk_weights":
[[..], ..]}``, with a list of experts per token. ``origin_rows`` says from which device a token came
and is not needed here; objects with the same layer and batch are parts of one batch.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.core.json_files import JsonObject, parse, read_json
from moeopt.core.wording import kind_of, shown
from moeopt.sim.traces.readers.checked import (
    MAX_EXPERT,
    MAX_LAYER,
    MAX_TEXT_BYTES,
    MAX_TOKENS,
    checked_trace,
    layer_facts,
    read_lines,
    smallest,
)
from moeopt.sim.traces.trace import Trace


def read_json_lines(path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the objects of a file with one JSON object per line, each with "file: line n"."""
    for number, text in read_lines(path):
        where = f"{path}: line {number}"
        value = parse(text, where)
        if not isinstance(value, dict):
            raise InputError(f"{where}: must be an object, not {kind_of(value)}")
        yield where, value


def integer(value: object, where: str, high: int) -> int:
    """Return `value` if it is an integer from 0 to `high`."""
    if type(value) is not int:
        raise InputError(f"{where}: must be an integer, not {shown(value)}")
    if not 0 <= value <= high:
        raise InputError(f"{where}: must be from 0 to {high}, not {shown(value)}")
    return value


def expert_table(rows: object, where: str) -> NDArray[np.int64]:
    """Return a list of equally long lists of experts as an array of shape (rows, k)."""
    lists = _items(rows, where, list, "a list")
    for number, row in enumerate(lists):
        if len(row) != len(lists[0]):
            lengths = f"{len(row)} long, and {len(lists[0])} in row 0"
            raise InputError(f"{where}[{number}]: {lengths}")
    flat = expert_list(list(chain.from_iterable(lists)), where)
    return flat.reshape(len(lists), -1)


def expert_list(values: object, where: str) -> NDArray[np.int64]:
    """Return a list of experts, -1 among them for none, as an array."""
    experts = _items(values, where, int, "an integer")
    for number, value in enumerate(experts):
        if not -1 <= value <= MAX_EXPERT:
            reason = f"must be from -1 to {MAX_EXPERT}, not {shown(value)}"
            raise InputError(f"{where}[{number}]: {reason}")
    return np.array(experts, dtype=np.int64)


def weight_list(values: object, where: str) -> NDArray[np.float64]:
    """Return a list of gate weights as an array."""
    if not isinstance(values, list) or not {type(item) for item in values} <= {int, float}:
        raise InputError(f"{where}: must be a list of numbers")
    try:
        return np.array([float(item) for item in values], dtype=np.float64)
    except OverflowError:
        raise InputError(f"{where}: must be numbers of usable size") from None


def _items(values: object, where: str, kind: type, word: str) -> list[Any]:
    if not isinstance(values, list) or not values:
        found = "an empty list" if values == [] else kind_of(values)
        raise InputError(f"{where}: must be a list, not {found}")
    if {type(item) for item in values} != {kind}:
        number, wrong = next(pair for pair in enumerate(values) if type(pair[1]) is not kind)
        raise InputError(f"{where}[{number}]: must be {word}, not {kind_of(wrong)}")
    return values


def read_hdmoe_json(path: Path, top_k: int | None = None) -> Trace:
    """Read ``{"0": [[3, 5], ...], ...}``; the first expert of a token is the router's first."""
    data = read_json(path, MAX_TEXT_BYTES)
    if not isinstance(data, dict):
        raise InputError(f"{path}: must hold an object of layers, not {kind_of(data)}")
    if not data:
        raise InputError(f"{path}: holds no layers")
    tables = {}
    for key, rows in data.items():
        if not (key.isascii() and key.isdigit() and len(key) < 6 and int(key) <= MAX_LAYER):
            raise InputError(f"{path}: {shown(key)}: is not the number of a layer")
        if int(key) in tables:
            raise InputError(f"{path}: layer {int(key)}: stands twice")
        tables[int(key)] = expert_table(rows, f"{path}: layer {int(key)}")
    layers = sorted(tables)
    shape = tables[layers[0]].shape
    for layer in layers:
        if tables[layer].shape != shape:
            found = f"{tables[layer].shape} (tokens, experts), not {shape} as in layer {layers[0]}"
            raise InputError(f"{path}: layer {layer}: has {found}")
    ids = smallest(np.stack([tables[layer] for layer in layers], axis=1))
    return checked_trace(path, ids, facts={"format": "hdmoe-json"} | layer_facts(layers))


PHASES = {None: -1, "prefill": 0, "decode": 1}


@dataclass
class _Rows:
    """What was read so far, a list per column."""

    keys: list[tuple[int, int, int]] = field(default_factory=list)
    """Number of the request in order of appearance, token, layer."""
    ids: list[NDArray[np.generic]] = field(default_factory=list)
    weights: list[NDArray[np.generic]] = field(default_factory=list)
    phases: list[int] = field(default_factory=list)
    requests: dict[str | int, int] = field(default_factory=dict)


def read_route_jsonl(path: Path, top_k: int | None = None) -> Trace:
    """Read such a file; requests follow one another in the order in which they appear."""
    rows = _Rows()
    for where, line in read_json_lines(path):
        if line.get("type", "route") == "route":
            _add(rows, line, where)
    if not rows.keys:
        raise InputError(f"{path}: holds no routes")
    if rows.weights and len(rows.weights) != len(rows.ids):
        raise InputError(f"{path}: topk_weights: is missing in some lines")
    keys = np.array(rows.keys, dtype=np.int64)
    order = np.lexsort(keys.T[::-1])
    keys = keys[order]
    layers = np.unique(keys[:, 2])
    tokens = _check_complete(path, keys, layers)
    shape = (tokens, len(layers), -1)
    weights = np.stack(rows.weights)[order].reshape(shape) if rows.weights else None
    phases = np.array(rows.phases)[order].reshape(tokens, len(layers))
    known = (phases >= 0).all() and (phases == phases[:, :1]).all()
    return checked_trace(
        path,
        smallest(np.stack(rows.ids)[order].reshape(shape)),
        weights,
        np.bincount(keys[:: len(layers), 0]),
        phases[:, 0] == 1 if known else None,
        {"format": "route-jsonl"} | layer_facts(layers.tolist()),
    )


def _add(rows: _Rows, line: JsonObject, where: str) -> None:
    request = line.get("req_id", 0)
    if type(request) not in (str, int):
        raise InputError(f"{where}: req_id: must be a text or an integer, not {shown(request)}")
    token = integer(line.get("token_idx"), f"{where}: token_idx", MAX_TOKENS)
    layer = integer(line.get("layer"), f"{where}: layer", MAX_LAYER)
    ids = expert_list(line.get("topk_ids"), f"{where}: topk_ids")
    if rows.ids and len(ids) != len(rows.ids[0]):
        reason = f"{len(ids)} experts, and {len(rows.ids[0])} in the lines before"
        raise InputError(f"{where}: topk_ids: {reason}")
    phase = line.get("phase")
    if not (phase is None or isinstance(phase, str)) or phase not in PHASES:
        raise InputError(f"{where}: phase: must be prefill or decode, not {shown(phase)}")
    if line.get("topk_weights") is not None:
        weights = weight_list(line["topk_weights"], f"{where}: topk_weights")
        if len(weights) != len(ids):
            reason = f"{len(weights)} weights for {len(ids)} experts"
            raise InputError(f"{where}: topk_weights: {reason}")
        rows.weights.append(weights)
    rows.keys.append((rows.requests.setdefault(request, len(rows.requests)), token, layer))
    rows.ids.append(ids)
    rows.phases.append(PHASES[phase])


def _check_complete(path: Path, keys: NDArray[np.int64], layers: NDArray[np.int64]) -> int:
    """Return the number of tokens, if each has one line for each layer."""
    same = (keys[1:] == keys[:-1]).all(axis=1)
    if same.any():
        _, token, layer = keys[int(np.flatnonzero(same)[0])].tolist()
        raise InputError(f"{path}: token_idx: token {token} of layer {layer} stands twice")
    starts = np.flatnonzero(np.append(True, (keys[1:, :2] != keys[:-1, :2]).any(axis=1)))
    sizes = np.diff(np.append(starts, len(keys)))
    if (sizes != len(layers)).any():
        short = int(np.flatnonzero(sizes != len(layers))[0])
        token = int(keys[starts[short], 1])
        reason = f"token {token} has {sizes[short]} of {len(layers)} layers"
        raise InputError(f"{path}: layer: {reason}")
    return len(starts)


Parts = dict[tuple[str | int, int], list[NDArray[np.generic]]]
"""(batch, layer) -> arrays of shape (tokens, k)."""


def read_moe_balance_jsonl(path: Path, top_k: int | None = None) -> Trace:
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
