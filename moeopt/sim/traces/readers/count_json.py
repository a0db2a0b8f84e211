"""Counts as JSON: matrices of SGLang and others, vLLM's statistics of EPLB, usage by layer.

Matrices are lists [layer, expert] or [step, layer, expert], alone in the file or in an object under
a name such as ``logical_count``. Of lists alone it is told as of arrays which of the two, or
experts of tokens, they are (`moeopt.sim.traces.readers.arrays`).

Records are objects of one step each, in a list or one per line, as vLLM's
``vllm_eplb_load_stats.jsonl``: ``expert_load`` [layer, slot] is the load of slots (physical
experts), which ``p2l_map`` [layer, slot] turns into experts. Of the same step there may be a record
of each rank; they are summed.

Usage by layer is an object with an entry for each layer, ``layer_0`` or ``0``: a list of counts, or
an object of counts ``expert_0`` or ``0``, itself or under ``expert_counts``.
"""

import re
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.core.json_files import JsonObject, read_json
from moeopt.core.wording import kind_of, shown
from moeopt.sim.traces.readers.arrays import (
    COUNT_NAMES,
    counts_of,
    kind_of_array,
    of_slots,
    seen,
    whole_numbers,
)
from moeopt.sim.traces.readers.checked import (
    MAX_COUNT,
    MAX_ENTRIES,
    MAX_EXPERT,
    MAX_LAYER,
    MAX_TEXT_BYTES,
)
from moeopt.sim.traces.readers.route_jsonl import read_json_lines
from moeopt.sim.traces.trace import MAX_COUNTS, Counts

MAPS = ("p2l_map", "physical_to_logical_map", "last_physical_to_logical_map")
"""What the map from slots to experts is called."""

_LAYER = re.compile(r"(?:layers?[_.-]?)?([0-9]{1,4})")
_EXPERT = re.compile(r"(?:experts?[_.-]?)?([0-9]{1,5})")

ANSWER = ("choices", "meta_info", "routed_experts")
"""Keys of a runtime's answer."""

Form = Literal["routed-experts-json", "count-json", "usage-json"]


def json_form(path: Path, value: object) -> Form:
    """Return the format of a JSON file's content.

    Raises
    ------
    InputError
        If it is none; the message says what was seen.
    """
    one = value[0] if isinstance(value, list) and value else value
    if isinstance(one, list) and one is not value:
        return "count-json"
    if isinstance(one, dict):
        if "problem" in one:
            raise InputError(f"is of the problem {shown(one['problem'])}, not a trace", where=path)
        if any(key in one for key in ANSWER):
            return "routed-experts-json"
        if _count_name(one) is not None:
            return "count-json"
        if one is value and one and all(map(_LAYER.fullmatch, one)):
            return "usage-json"
    known = ", ".join((*ANSWER, "logical_count", "expert_load", "layer_0"))
    raise InputError(f"holds {in_words(value)}; known by keys such as {known}", where=path)


def in_words(value: object) -> str:
    """Return what a JSON value is, with the first keys of an object."""
    if isinstance(value, dict) and value:
        more = ", ..." if len(value) > 5 else ""
        return f"an object with {', '.join(map(shown, [*value][:5]))}{more}"
    if isinstance(value, list) and value:
        return f"a list of {len(value)}, first {in_words(value[0])}"
    empty = {"[]": "an empty list", "{}": "an empty object"}
    return empty.get(str(value), kind_of(value))


def read_count_json(path: Path) -> Counts:
    """Read a matrix of counts, alone or in an object, or a list of records of one step each."""
    value = read_json(path, MAX_TEXT_BYTES)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        records = [(f"{path}: record {number}", one) for number, one in enumerate(value)]
        return _of_records(path, records, "count-json")
    if isinstance(value, dict):
        if (name := _count_name(value)) is None:
            raise InputError(f"holds {in_words(value)}, no counts", where=path)
        found = matrix(value[name], f"{path}: {name}")
        if found.ndim == 2 and any(key in value for key in MAPS):
            return _of_records(path, [(str(path), value)], "count-json")
        return counts_of(path, found, "count-json")
    found = matrix(value, str(path))
    if kind_of_array(path, found) == "token-array":
        raise InputError(
            f"holds {seen(found)} with the experts of tokens, it seems: save them as topk_ids in an"
            " npz file; format count-json reads counts",
            where=path,
        )
    return counts_of(path, found, "count-json")


def read_count_jsonl(path: Path) -> Counts:
    """Read records of one step each, one per line; records of another type are left alone."""
    lines = [
        (where, line)
        for where, line in read_json_lines(path)
        if _count_name(line) is not None or not isinstance(line.get("record_type"), str)
    ]
    return _of_records(path, lines, "count-jsonl")


def _count_name(record: JsonObject) -> str | None:
    return next((name for name in COUNT_NAMES if isinstance(record.get(name), list)), None)


def _of_records(path: Path, records: list[tuple[str, Any]], form: str) -> Counts:
    steps: dict[object, NDArray[np.int64]] = {}
    ranks: set[tuple[object, object]] = set()
    total = 0
    for number, (where, record) in enumerate(records):
        name = _count_name(record) if isinstance(record, dict) else None
        if name is None:
            raise InputError(f"holds {in_words(record)}, no counts", where=where)
        counts = _of_experts(path, record, name, where)
        step, rank = _number(record, "step", where), _number(record, "rank", where)
        if (step, rank) in ranks and step is not None:
            raise InputError(f"step {step} stands twice", where=where, field="step")
        ranks.add((step, rank))
        key = (number,) if step is None else step
        before = steps.get(key)
        if before is not None and before.shape != counts.shape:
            shapes = f"{counts.shape} counts, and {before.shape} of another rank"
            raise InputError(shapes, where=where, field=name)
        steps[key] = counts if before is None else before + counts
        first = next(iter(steps.values()))
        if len(counts) != len(first):
            reason = f"{len(counts)} layers, and {len(first)} in the first record"
            raise InputError(reason, where=where, field=name)
        total = max(total, counts.shape[1])
        if len(steps) * len(first) * total > MAX_COUNTS // 8:
            raise InputError("has too many steps, layers and experts", where=path)
    if not steps:
        raise InputError("holds no counts", where=path)
    shape = (len(steps), len(next(iter(steps.values()))), total)
    found = np.zeros(shape, dtype=np.int64)
    for row, counts in enumerate(steps.values()):
        found[row, :, : counts.shape[1]] = counts
    return counts_of(path, found, form)


def _of_experts(path: Path, record: JsonObject, name: str, where: str) -> NDArray[np.int64]:
    """Return the counts [layer, expert] of a record, of experts where it counts slots."""
    loads = whole_numbers(path, matrix(record[name], f"{where}: {name}", axes=2))
    if int(loads.min()) < 0 or int(loads.max()) > MAX_COUNT:
        wrong = loads.min() if loads.min() < 0 else loads.max()
        raise InputError(f"must be from 0 to 2**42, not {wrong}", where=where, field=name)
    key = next((one for one in MAPS if record.get(one) is not None), None)
    if key is None:
        return loads.astype(np.int64)
    slots = matrix(record[key], f"{where}: {key}", axes=2)
    if slots.shape != loads.shape or slots.dtype.kind not in "iu":
        reason = f"is {seen(slots)}, and {name} of shape {loads.shape}"
        raise InputError(reason, where=where, field=key)
    empty = slots < 0
    if int(slots.max()) > MAX_EXPERT or int(slots.min()) < -1 or loads[empty].any():
        reason = f"must be experts from 0 to {MAX_EXPERT}, or -1 for a slot without load"
        raise InputError(reason, where=where, field=key)
    shape = len(loads), int(slots.max()) + 1
    if shape[0] * shape[1] > MAX_ENTRIES:
        raise InputError(f"{shape} counts are too many", where=where, field=key)
    return of_slots(loads, slots, shape[1])


def _number(record: JsonObject, name: str, where: str) -> int | None:
    value = record.get(name)
    if value is not None and type(value) is not int:
        raise InputError(f"must be an integer, not {shown(value)}", where=where, field=name)
    return value


def matrix(value: object, where: str, axes: int | None = None) -> NDArray[Any]:
    """Return lists of numbers as an array of two or three axes; all rows must be equally long."""
    if not isinstance(value, list) or not value:
        raise InputError(f"must be lists of numbers, not {in_words(value)}", where=where)
    deep = isinstance(value[0], list) and bool(value[0]) and isinstance(value[0][0], list)
    if axes == 2 and deep:
        raise InputError("must be [layer, expert], and has more axes", where=where)
    if deep:
        planes = [matrix(plane, f"{where}: [{at}]", 2) for at, plane in enumerate(value)]
        for at, plane in enumerate(planes):
            if plane.shape != planes[0].shape:
                reason = f"[{at}] has shape {plane.shape}, and [0] {planes[0].shape}"
                raise InputError(reason, where=where)
        return np.stack(planes)
    width = len(value[0]) if isinstance(value[0], list) else 0
    for at, row in enumerate(value):
        if not isinstance(row, list) or not row or not {*map(type, row)} <= {int, float}:
            raise InputError(f"[{at}] must be a list of numbers, not {_odd(row)}", where=where)
        if len(row) != width:
            raise InputError(f"[{at}] has {len(row)} numbers, and [0] {width}", where=where)
    try:
        return np.array(value, dtype=np.float64 if _has_floats(value) else np.int64)
    except OverflowError:
        raise InputError("has a number above 2**63", where=where) from None


def _odd(row: object) -> str:
    if not isinstance(row, list) or not row:
        return in_words(row)
    return f"one with {kind_of(next(x for x in row if type(x) not in (int, float)))}"


def _has_floats(rows: list[list[Any]]) -> bool:
    return any(float in {*map(type, row)} for row in rows)


def read_usage_json(path: Path) -> Counts:
    """Read counts by layer and expert; experts that are not named were never used."""
    value = read_json(path, MAX_TEXT_BYTES)
    if not isinstance(value, dict) or not value:
        raise InputError(f"holds {in_words(value)}, no object of layers", where=path)
    rows: dict[int, dict[int, int]] = {}
    for name, entry in value.items():
        layer = _index(_LAYER, name, MAX_LAYER, str(path))
        if layer in rows:
            raise InputError(f"layer {layer} stands twice", where=path, field=shown(name))
        rows[layer] = _row(entry, f"{path}: {shown(name)}")
    layers = sorted(rows)
    experts = max((expert for row in rows.values() for expert in row), default=-1) + 1
    if not experts or len(layers) * experts > MAX_ENTRIES:
        raise InputError(f"has counts of {len(layers)} layers, {experts} experts", where=path)
    counts = np.zeros((1, len(layers), experts), dtype=np.int64)
    for place, layer in enumerate(layers):
        for expert, count in rows[layer].items():
            counts[0, place, expert] = count
    return counts_of(path, counts, "usage-json", layers)


def _row(entry: object, where: str) -> dict[int, int]:
    if isinstance(entry, dict):
        name = next((one for one in COUNT_NAMES if isinstance(entry.get(one), dict | list)), None)
        entry = entry if name is None else entry[name]
    if isinstance(entry, list):
        entry = {str(expert): count for expert, count in enumerate(entry)}
    if not isinstance(entry, dict) or not entry:
        raise InputError(f"must be counts of experts, not {in_words(entry)}", where=where)
    row: dict[int, int] = {}
    for name, count in entry.items():
        expert = _index(_EXPERT, name, MAX_EXPERT, where)
        if expert in row:
            raise InputError(f"expert {expert} stands twice", where=where, field=shown(name))
        whole = type(count) is int or (type(count) is float and count.is_integer())
        if not whole or not 0 <= count <= MAX_COUNT:
            reason = f"must be a whole number from 0 to 2**42, not {shown(count)}"
            raise InputError(reason, where=where, field=shown(name))
        row[expert] = int(count)
    return row


def _index(pattern: re.Pattern[str], name: str, most: int, where: str) -> int:
    match = pattern.fullmatch(name)
    if match is None or int(match[1]) > most:
        what = "layer" if pattern is _LAYER else "expert"
        raise InputError(f"key {shown(name)} is no {what} up to {most}", where=where)
    return int(match[1])
