"""HD-MoE's traces: a JSON object that gives for every layer the list of all tokens' experts."""

from pathlib import Path

import numpy as np

from moeopt.core.errors import InputError
from moeopt.core.wording import kind_of, shown
from moeopt.sim.traces.readers.checked import checked_trace, layer_facts, smallest
from moeopt.sim.traces.readers.json_values import expert_table, read_json
from moeopt.sim.traces.readers.limits import MAX_LAYER
from moeopt.sim.traces.trace import Trace


def read_hdmoe_json(path: Path, top_k: int | None = None) -> Trace:
    """Read ``{"0": [[3, 5], ...], ...}``; the first expert of a token is the router's first."""
    data = read_json(path)
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
