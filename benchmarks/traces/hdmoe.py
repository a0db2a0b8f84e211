"""HD-MoE's traces: a JSON object that gives for every layer the list of all tokens' experts."""

from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.rooms.core import kind_of, read_json, shown
from benchmarks.rooms.sim import (
    MAX_LAYER,
    MAX_TEXT_BYTES,
    Trace,
    checked_trace,
    expert_list,
    items,
    layer_facts,
    smallest,
)
from moeopt import InputError


def read_hdmoe(path: Path, top_k: int | None = None) -> Trace:
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


def expert_table(rows: object, where: str) -> NDArray[np.int64]:
    """Return a list of equally long lists of experts as an array of shape (rows, k)."""
    lists = items(rows, where, list, "a list")
    for number, row in enumerate(lists):
        if len(row) != len(lists[0]):
            lengths = f"{len(row)} long, and {len(lists[0])} in row 0"
            raise InputError(f"{where}[{number}]: {lengths}")
    flat = expert_list(list(chain.from_iterable(lists)), where)
    return flat.reshape(len(lists), -1)
