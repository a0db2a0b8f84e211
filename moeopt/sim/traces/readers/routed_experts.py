"""Routed experts that vLLM and SGLang return with an answer: which experts each token went to.

Three forms. JSON answers of vLLM: ``choices[].routed_experts``, an npy file in base64. JSON answers
of SGLang: ``meta_info.routed_experts``, int32 numbers in base64 without a shape, so that the
experts per token must be told. npz archives of one request: ``routed_experts`` with
``prompt_token_ids`` and ``output_token_ids``. All have shape [token, layer, k]; the last generated
token is missing in most, as it never went through the model.
"""

import base64
import binascii
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from moeopt.core.errors import InputError
from moeopt.core.json_files import JsonObject, parse, read_json
from moeopt.core.wording import kind_of, shown
from moeopt.sim.traces.readers.checked import (
    MAX_TEXT_BYTES,
    MAX_TOKENS,
    checked_trace,
    files_in,
    layer_facts,
    read_lines,
    smallest,
    without_empty_layers,
)
from moeopt.sim.traces.readers.topk_npz import npy_from_bytes, read_npz
from moeopt.sim.traces.trace import Ids, Trace

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
