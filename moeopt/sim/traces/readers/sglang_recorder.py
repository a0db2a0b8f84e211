"""SGLang's expert distribution recorder: its ``.pt`` files, of one rank or a folder of all ranks.

Mode "stat" counts: ``logical_count`` [step, layer, expert], over all ranks. Modes "per_pass" and
"per_token" list ``records``, one per forward pass and rank, with ``global_physical_count`` [layer,
slot] and, per token, ``topk_ids_of_layer`` [layer, token, place]. There, numbers are those of slots
(physical experts), which ``last_physical_to_logical_map`` [layer, slot] turns into experts. Places
that a model with a smaller top-k does not use, and layers without experts, hold -1.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.core.wording import kind_of
from moeopt.sim.traces.readers.arrays import counts_of, of_slots
from moeopt.sim.traces.readers.checked import (
    MAX_EXPERT,
    CountsOnlyError,
    checked_trace,
    files_in,
    layer_facts,
    smallest,
    without_empty_layers,
)
from moeopt.sim.traces.readers.torch_zip import read_torch
from moeopt.sim.traces.trace import NO_EXPERT, Counts, Ids, Trace

EXTEND, DECODE, MIXED, IDLE = 1, 2, 3, 4
"""What a forward pass does: prompts, generation, both, nothing."""

Records = dict[tuple[int, int], dict[str, object]]
"""(forward pass, rank) -> record."""


def read_sglang_trace(path: Path, top_k: int | None = None) -> Trace:
    """Read a recording of mode "per_token": passes in order, in each the tokens of all ranks."""
    records, slots = _load(path)
    if slots is None:
        where = f"{path}: topk_ids_of_layer"
        raise CountsOnlyError(f"{where}: is missing: the file holds counts only, no tokens")
    parts, marks = [], []
    for record in records.values():
        ids = _array(path, record, "topk_ids_of_layer", 3)
        if ids.shape[1]:
            parts.append(_to_experts(path, ids, slots).swapaxes(0, 1))
            marks.append(_decode_marks(path, record, ids.shape[1]))
    if not parts:
        raise InputError(f"{path}: records: hold no tokens")
    if len({part.shape[2] for part in parts}) > 1:
        raise InputError(f"{path}: topk_ids_of_layer: has a different width in some records")
    ids, layers = without_empty_layers(np.concatenate(parts))
    used = (ids != NO_EXPERT).any(axis=(0, 1))
    width = int(np.flatnonzero(used).max(initial=0)) + 1
    facts = {"format": "sglang-pt", "passes": len(parts)} | layer_facts(layers)
    known = [mark for mark in marks if mark is not None]
    decode = np.concatenate(known) if len(known) == len(marks) else None
    return checked_trace(path, smallest(ids[:, :, :width]), decode=decode, facts=facts)


def read_sglang_counts(path: Path) -> Counts:
    """Read the counts of a recording of any mode; a step is a forward pass, summed over ranks."""
    if not path.is_dir():
        data = _dict(path, read_torch(path), "the file")
        if "logical_count" in data:
            return counts_of(path, _array(path, data, "logical_count", 3), "sglang-pt")
    records, slots = _load(path, "global_physical_count")
    if slots is None:
        raise InputError(f"{path}: logical_count: is missing, and there are no records")
    passes = sorted({number for number, _ in records})
    row_of = {number: row for row, number in enumerate(passes)}
    experts = int(slots.max()) + 1
    counts = np.zeros((len(passes), len(slots), experts), dtype=np.int64)
    for (number, _), record in records.items():
        slot_counts = _array(path, record, "global_physical_count", 2)
        if slot_counts.shape != slots.shape:
            raise InputError(f"{path}: global_physical_count: shape is not that of the map")
        counts[row_of[number]] += of_slots(slot_counts, slots, experts)
    return counts_of(path, counts, "sglang-pt")


def _load(path: Path, field: str = "topk_ids_of_layer") -> tuple[Records, Ids | None]:
    """Return all ranks' records by pass and rank, and the map; no map if they lack `field`."""
    records: Records = {}
    slots: Ids | None = None
    for file in files_in(path, "*.pt") if path.is_dir() else [path]:
        data = _dict(file, read_torch(file), "the file")
        listed = data.get("records")
        if not isinstance(listed, list) or not listed:
            return {}, None
        own = _array(file, data, "last_physical_to_logical_map", 2)
        if not own.size or own.min() < 0 or own.max() > MAX_EXPERT:
            raise InputError(f"{file}: last_physical_to_logical_map: holds no usable experts")
        if slots is not None and not np.array_equal(own, slots):
            raise InputError(f"{file}: last_physical_to_logical_map: differs between ranks")
        slots = own
        for number, item in enumerate(listed):
            record = _dict(file, item, f"records[{number}]")
            if field not in record:
                return {}, None
            key = tuple(_number(file, record, name) for name in ("forward_pass_id", "rank"))
            if key in records:
                raise InputError(f"{file}: records[{number}]: pass {key[0]} of rank {key[1]} again")
            records[key[0], key[1]] = record
    return dict(sorted(records.items())), slots


def _to_experts(path: Path, ids: Ids, slots: Ids) -> Ids:
    if len(ids) != len(slots):
        raise InputError(f"{path}: topk_ids_of_layer: {len(ids)} layers, the map has {len(slots)}")
    if ids.size and not (ids.min() >= NO_EXPERT and ids.max() < slots.shape[1]):
        raise InputError(f"{path}: topk_ids_of_layer: must be from -1 to {slots.shape[1] - 1}")
    experts: Ids = slots[np.arange(len(slots))[:, None, None], ids]
    return np.where(ids == NO_EXPERT, NO_EXPERT, experts)


def _decode_marks(path: Path, record: dict[str, object], tokens: int) -> NDArray[np.bool_] | None:
    """Return which tokens of a pass were generated; in a mixed pass, those that came alone."""
    mode = record.get("forward_mode")
    if mode in (EXTEND, DECODE, IDLE):
        return np.full(tokens, mode == DECODE)
    lengths, positions = record.get("extend_seq_lens"), record.get("positions")
    if mode != MIXED or not isinstance(lengths, list) or not isinstance(positions, list):
        return None
    if not all(type(n) is int and 0 <= n <= tokens for n in [*lengths]) or sum(lengths) != tokens:
        raise InputError(f"{path}: extend_seq_lens: does not sum to {tokens} tokens")
    if len(positions) != tokens or not all(type(n) is int for n in positions):
        raise InputError(f"{path}: positions: must be {tokens} integers")
    alone = np.repeat(np.array(lengths) == 1, lengths)
    result: NDArray[np.bool_] = alone & (np.array([n > 0 for n in positions]))
    return result


def _array(path: Path, data: dict[str, object], field: str, axes: int) -> Ids:
    value = data.get(field)
    if not isinstance(value, np.ndarray) or value.ndim != axes or value.dtype.kind not in "iu":
        raise InputError(f"{path}: {field}: must be a tensor of integers with {axes} axes")
    return value


def _number(path: Path, record: dict[str, object], field: str) -> int:
    value = record.get(field)
    if type(value) is not int:
        raise InputError(f"{path}: {field}: must be an integer in every record")
    return value


def _dict(path: Path, value: object, what: str) -> dict[str, object]:
    if not isinstance(value, dict):
        kind = "a tensor" if isinstance(value, np.ndarray) else kind_of(value)
        raise InputError(f"{path}: {what}: must hold a dict, not {kind}")
    return value
