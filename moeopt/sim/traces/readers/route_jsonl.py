"""Routing as one JSON object per token and layer.

``{"type": "route", "req_id": .., "token_idx": .., "layer": .., "topk_ids": [..], "topk_weights":
[..]}``; objects of another type are left alone. A ``phase`` of "prefill" or "decode" is understood.

``token_idx`` numbers a request's tokens, or begins anew with each forward pass. It does the latter
where a request has an index twice: then lines stand in the order of the passes, and a pass has
consecutive indices in each layer.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.core.json_files import JsonObject, parse
from moeopt.core.wording import kind_of, shown
from moeopt.sim.traces.readers.checked import (
    MAX_EXPERT,
    MAX_LAYER,
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


def expert_list(values: object, where: str) -> NDArray[np.int64]:
    """Return a list of experts, -1 among them for none, as an array."""
    experts = items(values, where, int, "an integer")
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


def items(values: object, where: str, kind: type, word: str) -> list[Any]:
    """Return a list that is not empty and whose items are all of one type."""
    if not isinstance(values, list) or not values:
        found = "an empty list" if values == [] else kind_of(values)
        raise InputError(f"{where}: must be a list, not {found}")
    if {type(item) for item in values} != {kind}:
        number, wrong = next(pair for pair in enumerate(values) if type(pair[1]) is not kind)
        raise InputError(f"{where}[{number}]: must be {word}, not {kind_of(wrong)}")
    return values


ROUTE = frozenset({"token_idx", "layer", "topk_ids"})
"""What a line must say of a token; one that says nothing of it is no route."""

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
    keys = _numbered_on(path, np.array(rows.keys, dtype=np.int64))
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
    if not ROUTE & line.keys():
        there = ", ".join(map(shown, [*line][:5])) or "none"
        raise InputError(f"{where}: has the keys {there}; a route has {', '.join(sorted(ROUTE))}")
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


def _numbered_on(path: Path, keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return keys in which each request's tokens are numbered from its first pass to its last.

    They stay as they are where no request has a token of a layer twice.
    """
    ordered = keys[np.lexsort(keys.T[::-1])]
    if not (ordered[1:] == ordered[:-1]).all(axis=1).any():
        return keys
    by_layer = np.lexsort((np.arange(len(keys)), keys[:, 2], keys[:, 0]))  # in the file's order
    request, token, layer = keys[by_layer].T
    begins = np.append(True, (np.diff(request) != 0) | (np.diff(layer) != 0))
    odd = ~begins & (np.append(1, np.diff(token)) > 1)  # an index that does not rise: a new pass
    if odd.any():
        at = int(np.flatnonzero(odd)[0])
        which = f"token {token[at]} of layer {layer[at]}"
        reason = f"stands after token {token[at - 1]}, and some token stands twice"
        raise InputError(f"{path}: token_idx: {which} {reason}")
    first = np.flatnonzero(begins)
    place = np.arange(len(keys)) - np.repeat(first, np.diff(np.append(first, len(keys))))
    numbered = keys.copy()
    numbered[by_layer, 1] = place
    return numbered


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
