"""What runtimes record: routed experts of answers, SGLang's recorder, llama.cpp's imatrix.

Routed experts that vLLM and SGLang return with an answer: which experts each token went to.

Three forms. JSON answers of vLLM: ``choices[].routed_experts``, an npy file in base64. JSON answers
of SGLang: ``meta_info.routed_experts``, int32 numbers in base64 without a shape, so that the
experts per token must be told. npz archives of one request: ``routed_experts`` with
``prompt_token_ids`` and ``output_token_ids``. All have shape [token, layer, k]; the last generated
token is missing in most, as it never went through the model.

SGLang's expert distribution recorder: its ``.pt`` files, of one rank or a folder of all ranks.

Mode "stat" counts: ``logical_count`` [step, layer, expert], over all ranks. Modes "per_pass" and
"per_token" list ``records``, one per forward pass and rank, with ``global_physical_count`` [layer,
slot] and, per token, ``topk_ids_of_layer`` [layer, token, place]. There, numbers are those of slots
(physical experts), which ``last_physical_to_logical_map`` [layer, slot] turns into experts. Places
that a model with a smaller top-k does not use, and layers without experts, hold -1.

Counts of llama.cpp's ``llama-imatrix``: a GGUF file with how often each expert was used.

The file has two tensors for each matrix of the model: sums of squared activations, which are not
read, and ``<matrix>.counts``, one number per expert: the tokens that it got.
"""

import base64
import binascii
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.core.json_files import JsonObject, parse, read_json
from moeopt.core.untrusted import reading
from moeopt.core.wording import kind_of, shown
from moeopt.sim.models.gguf.file import Tensor, read_gguf
from moeopt.sim.traces.readers.arrays import counts_of, of_slots
from moeopt.sim.traces.readers.checked import (
    MAX_COUNT,
    MAX_ENTRIES,
    MAX_EXPERT,
    MAX_LAYER,
    MAX_TEXT_BYTES,
    MAX_TOKENS,
    CountsOnlyError,
    checked_counts,
    checked_trace,
    files_in,
    layer_facts,
    read_lines,
    smallest,
    without_empty_layers,
)
from moeopt.sim.traces.readers.topk_npz import npy_from_bytes, read_npz
from moeopt.sim.traces.readers.torch_zip import read_torch
from moeopt.sim.traces.trace import NO_EXPERT, Counts, Ids, Trace

NPY_MAGIC = b"\x93NUMPY"
NPZ_KEYS = ("routed_experts", "prompt_token_ids", "output_token_ids", "request_id")


@dataclass(frozen=True)
class _Request:
    """One sequence: shape (tokens, layers, k), and how many of its tokens are prompt if known."""

    ids: Ids
    prompt: int | None


def read_routed_npz(path: Path, top_k: int | None = None) -> Trace:
    """Read the archive of one request, or those of a folder, one sequence each."""
    requests = []
    for file in files_in(path, "*.npz") if path.is_dir() else [path]:
        arrays = read_npz(file, NPZ_KEYS)
        if "routed_experts" not in arrays:
            raise InputError(f"{file}: routed_experts: is missing")
        prompt = arrays.get("prompt_token_ids")
        length = None if prompt is None else int(prompt.size)
        requests.append(_request(arrays["routed_experts"], length, str(file)))
    return _trace(path, requests, "routed-experts-npz")


def read_routed_json(path: Path, top_k: int | None = None) -> Trace:
    """Read one answer, a list of answers, or one answer per line (``.jsonl``)."""
    if path.name.removesuffix(".gz").endswith(".jsonl"):
        answers = [parse(text, f"{path}: line {number}") for number, text in read_lines(path)]
    else:
        value = read_json(path, MAX_TEXT_BYTES)
        answers = value if isinstance(value, list) else [value]
        if isinstance(value, dict) and "problem" in value:
            raise InputError(f"{path}: is of the problem {shown(value['problem'])}, not a trace")
    requests: list[_Request] = []
    for number, answer in enumerate(answers):
        where = f"{path}: answer {number}"
        if not isinstance(answer, dict):
            raise InputError(f"{where}: must be an object, not {kind_of(answer)}")
        requests += _requests_of(answer, where, top_k)
    if not requests:
        raise InputError(f"{path}: routed_experts: is missing in every answer")
    return _trace(path, requests, "routed-experts-json")


def _requests_of(answer: dict[str, object], where: str, top_k: int | None) -> list[_Request]:
    meta = answer.get("meta_info")
    if isinstance(meta, dict) and meta.get("routed_experts") is not None:
        prompt, output = (_length(meta.get(f"{w}_tokens")) for w in ("prompt", "completion"))
        tokens = None if prompt is None or output is None else prompt + output - 1
        field = f"{where}: meta_info.routed_experts"
        return [_request(_decoded(meta["routed_experts"], field, tokens, top_k), prompt, field)]
    choices = answer.get("choices")
    found = []
    for number, choice in enumerate(choices if isinstance(choices, list) else []):
        if not isinstance(choice, dict):
            raise InputError(f"{where}: choices[{number}]: must be an object, not {shown(choice)}")
        if choice.get("routed_experts") is not None:
            field = f"{where}: choices[{number}].routed_experts"
            ids = _decoded(choice["routed_experts"], field, None, top_k)
            found.append(_request(ids, _prompt_length(answer, choice), field))
    return found


def _prompt_length(answer: JsonObject, choice: JsonObject) -> int | None:
    for holder in (choice, answer):
        if isinstance(holder.get("prompt_token_ids"), list):
            return len(holder["prompt_token_ids"])
    usage = answer.get("usage")
    return _length(usage.get("prompt_tokens")) if isinstance(usage, dict) else None


def _length(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= MAX_TOKENS else None


def _decoded(text: object, field: str, tokens: int | None, top_k: int | None) -> Ids:
    if not isinstance(text, str):
        raise InputError(f"{field}: must be base64 text, not {kind_of(text)}")
    try:
        payload = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InputError(f"{field}: is not base64") from None
    if payload.startswith(NPY_MAGIC):
        return npy_from_bytes(payload, field)
    if top_k is None or tokens is None:
        raise InputError(f"{field}: has no shape: say how many experts a token has (top_k)")
    if not tokens or not payload or len(payload) % (4 * tokens * top_k):
        raise InputError(f"{field}: {len(payload)} bytes are not {tokens} tokens of top-{top_k}")
    return np.frombuffer(payload, dtype="<i4").reshape(tokens, -1, top_k)


def _request(ids: Ids, prompt: int | None, where: str) -> _Request:
    if ids.ndim != 3 or ids.dtype.kind not in "iu" or 0 in ids.shape:
        found = f"{ids.dtype} of shape {ids.shape}"
        raise InputError(f"{where}: must be integers [token, layer, k], not {found}")
    return _Request(ids, prompt)


def _trace(path: Path, requests: list[_Request], form: str) -> Trace:
    shapes = {request.ids.shape[1:] for request in requests}
    if len(shapes) > 1:
        raise InputError(f"{path}: routed_experts: layers and k differ: {sorted(shapes)[:2]}")
    ids, layers = without_empty_layers(np.concatenate([request.ids for request in requests]))
    lengths = [len(request.ids) for request in requests]
    marks = [np.arange(len(r.ids)) >= r.prompt for r in requests if r.prompt is not None]
    decode = np.concatenate(marks) if len(marks) == len(requests) else None
    facts = {"format": form} | layer_facts(layers)
    return checked_trace(path, smallest(ids), None, np.array(lengths), decode, facts)


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


COUNTS = re.compile(r"blk\.([0-9]{1,5})\.ffn_(gate|up|down|gate_up)_exps\.weight\.counts")


def read_imatrix(path: Path) -> Counts:
    """Read an importance matrix as counts of one step.

    All matrices of an expert get the same tokens, so the first one of a layer is read, and the
    others must agree with it in the number of experts.

    Raises
    ------
    InputError
        If the file is no importance matrix, has no counts of experts, or they are no numbers of
        tokens.
    """
    gguf = read_gguf(path)
    kind = gguf.metadata.get("general.type")
    if kind != "imatrix":
        hint = "; a model is read with --model" if kind in (None, "model") else ""
        raise InputError(f'{path}: general.type: must be "imatrix", not {shown(kind)}{hint}')
    by_layer: dict[int, Tensor] = {}
    for tensor in gguf.tensors:
        if (match := COUNTS.fullmatch(tensor.name)) is None:
            continue
        layer = int(match[1])
        if layer > MAX_LAYER or tensor.weights > MAX_EXPERT + 1 or tensor.type.name != "F32":
            reason = f"{tensor.type.name} of {tensor.weights} experts in layer {layer}"
            raise InputError(f"{path}: {shown(tensor.name)}: cannot be read: {reason}")
        first = by_layer.setdefault(layer, tensor)
        if tensor.weights != first.weights:
            reason = f"{tensor.weights} experts, and {first.weights} in {shown(first.name)}"
            raise InputError(f"{path}: {shown(tensor.name)}: {reason}")
    if not by_layer:
        raise InputError(f"{path}: has no counts of experts; was the model one with experts?")
    sizes = {tensor.weights for tensor in by_layer.values()}
    experts = max(sizes)
    if len(sizes) > 1 or experts * len(by_layer) > MAX_ENTRIES:
        reason = f"{len(by_layer)} layers of {min(sizes)} to {experts} experts"
        raise InputError(f"{path}: {reason}: must be as many in all, {MAX_ENTRIES} in sum at most")
    layers = sorted(by_layer)
    counts = np.zeros((1, len(layers), experts), dtype=np.int64)
    for row, layer in enumerate(layers):
        counts[0, row] = _numbers(by_layer[layer])
    facts: dict[str, object] = {"format": "imatrix-gguf"} | layer_facts(layers)
    return checked_counts(path, counts, facts)


def _numbers(tensor: Tensor) -> NDArray[np.int64]:
    """Return a tensor of counts, which are whole numbers although stored as floats."""
    with reading(tensor.path), tensor.path.open("rb") as stream, np.errstate(invalid="ignore"):
        stream.seek(tensor.begin)
        found = np.frombuffer(stream.read(tensor.size), dtype="<f4").astype(np.float64)
    whole = np.isfinite(found) & (found >= 0) & (found <= MAX_COUNT) & (found == np.floor(found))
    if not whole.all():
        wrong = float(found[~whole][0])
        where = f"{tensor.path}: {shown(tensor.name)}"
        raise InputError(f"{where}: must be whole numbers of tokens, not {wrong:g}")
    return found.astype(np.int64)
