"""Routed experts in answers of vLLM and SGLang, and in archives of requests."""

import base64
import gzip
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from moeopt import load_trace
from tests.interop.refusals import MEBIBYTE, frugal_refusal, refusal
from tests.rooms.sim import routed_experts_module as limits

RNG = np.random.default_rng(5)
FIRST = RNG.permuted(np.tile(np.arange(8, dtype=np.int16), (6, 3, 1)), axis=2)[:, :, :2]
SECOND = RNG.permuted(np.tile(np.arange(8, dtype=np.int16), (4, 3, 1)), axis=2)[:, :, :2]
"""Two requests of 7 and 5 tokens, whose last one never went through the model; top-2, 3 layers."""


def npy64(array: NDArray[Any]) -> str:
    """Return an array as vLLM sends it."""
    stream = io.BytesIO()
    np.save(stream, array)
    return base64.b64encode(stream.getvalue()).decode()


def raw64(array: NDArray[Any]) -> str:
    """Return an array as SGLang sends it."""
    return base64.b64encode(array.astype("<i4").tobytes()).decode()


def written(folder: Path, value: Any, name: str = "answer.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(value))
    return path


def vllm(prompt: Any, *choices: Any) -> dict[str, Any]:
    answers = [{"index": n, "routed_experts": choice} for n, choice in enumerate(choices)]
    return {"id": "r1", "choices": answers} | prompt


def sglang(ids: NDArray[Any], prompt: int) -> dict[str, Any]:
    counts = {"prompt_tokens": prompt, "completion_tokens": len(ids) + 1 - prompt}
    return {"text": "..", "meta_info": {"routed_experts": raw64(ids)} | counts}


def test_answers_of_vllm_are_read(tmp_path: Path) -> None:
    """One sequence per choice; where the prompt ends is known from its tokens."""
    prompt = {"prompt_token_ids": [1, 2, 3]}
    trace = load_trace(written(tmp_path, vllm(prompt, npy64(FIRST), npy64(SECOND))))
    assert np.array_equal(trace.topk_ids, np.concatenate([FIRST, SECOND]))
    assert trace.seq_len.tolist() == [6, 4]
    assert trace.decode.tolist() == [False] * 3 + [True] * 3 + [False] * 3 + [True]


@pytest.mark.parametrize(
    ("prompt", "marks"),
    [
        ({"usage": {"prompt_tokens": 5}}, [False] * 5 + [True]),
        ({"usage": {"prompt_tokens": "5"}}, None),
        ({"usage": None}, None),
        ({}, None),
    ],
)
def test_where_the_prompt_ends_may_be_unknown(prompt: Any, marks: Any, tmp_path: Path) -> None:
    """Then there are no decode marks, rather than wrong ones."""
    decode = load_trace(written(tmp_path, vllm(prompt, npy64(FIRST)))).decode
    assert (None if decode is None else decode.tolist()) == marks


def test_answers_of_sglang_are_read(tmp_path: Path) -> None:
    """Several in a list; the numbers have no shape, so the experts per token must be told."""
    path = written(tmp_path, [sglang(FIRST, 4), sglang(SECOND, 2)])
    trace = load_trace(path, top_k=2)
    assert np.array_equal(trace.topk_ids, np.concatenate([FIRST, SECOND]))
    assert trace.decode.tolist() == [False] * 4 + [True] * 2 + [False] * 2 + [True] * 2
    assert "say how many experts a token has (top_k)" in refusal(path)
    assert "are not 6 tokens of top-4" in refusal(path, top_k=4)


def test_answers_may_stand_one_per_line(tmp_path: Path) -> None:
    """As a client logs them."""
    path = tmp_path / "log.jsonl"
    lines = [vllm({}, npy64(FIRST)), {"choices": [{"text": "no routing"}]}, sglang(SECOND, 2)]
    path.write_text("\n".join(json.dumps(line) for line in lines))
    trace = load_trace(path, top_k=2)
    assert np.array_equal(trace.topk_ids, np.concatenate([FIRST, SECOND]))


def test_layers_without_experts_are_left_out(tmp_path: Path) -> None:
    """Their rows are all 0, which no router of several experts says."""
    ids = FIRST.copy()
    ids[:, 0] = 0
    trace = load_trace(written(tmp_path, vllm({}, npy64(ids))))
    assert np.array_equal(trace.topk_ids, FIRST[:, 1:])
    assert trace.facts["layers"] == [1, 2]


def archived(path: Path, ids: NDArray[Any], prompt: int | None) -> Path:
    arrays: dict[str, Any] = {"request_id": np.array("r"), "routed_experts": ids}
    if prompt is not None:
        arrays["prompt_token_ids"] = np.arange(prompt)
        arrays["output_token_ids"] = np.arange(len(ids) + 1 - prompt)
    np.savez(path, **arrays)
    return path


def test_an_archive_of_a_request_is_read(tmp_path: Path) -> None:
    """Its prompt and output are told apart."""
    trace = load_trace(archived(tmp_path / "r.npz", FIRST, 4))
    assert np.array_equal(trace.topk_ids, FIRST)
    assert trace.decode.tolist() == [False] * 4 + [True] * 2


def test_a_folder_of_archives_is_one_trace(tmp_path: Path) -> None:
    """Sequences in the order of their names."""
    archived(tmp_path / "b.npz", SECOND, None)
    archived(tmp_path / "a.npz", FIRST, 4)
    trace = load_trace(tmp_path)
    assert trace.seq_len.tolist() == [6, 4]
    assert np.array_equal(trace.topk_ids, np.concatenate([FIRST, SECOND]))
    assert trace.decode is None


def header_only(shape: str) -> str:
    header = f"{{'descr': '<i2', 'fortran_order': False, 'shape': {shape}, }}".encode() + b"\n"
    payload = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(64)
    return base64.b64encode(payload).decode()


PICKLED = base64.b64encode(
    b"\x93NUMPY\x01\x00" + (59).to_bytes(2, "little")
    + b"{'descr': '|O', 'fortran_order': False, 'shape': (1, 1, 1)}".ljust(58) + b"\n" + bytes(9)
).decode()  # fmt: skip
BAD_CHOICES: dict[str, tuple[Any, str]] = {
    "a number": (7, "must be base64 text, not the value 7"),
    "no base64": ("x!", "is not base64"),
    "not ASCII": ("ä" * 8, "is not base64"),
    "no shape": ("AAAA", "has no shape"),
    "ten gigabytes": (header_only("(100000, 5000, 10)"), "declares 10000000000 bytes and holds"),
    "two axes": (npy64(FIRST[0]), "must be integers [token, layer, k], not int16 of shape (3, 2)"),
    "no tokens": (npy64(FIRST[:0]), "must be integers [token, layer, k], not int16 of shape (0,"),
    "objects": (PICKLED, "not a usable npy file"),
}


@pytest.mark.parametrize(("choice", "says"), BAD_CHOICES.values(), ids=BAD_CHOICES)
def test_a_bad_payload_is_named(choice: Any, says: str, tmp_path: Path) -> None:
    """The message says which answer and field, and reading costs little."""
    path = written(tmp_path, vllm({}, choice))
    message = frugal_refusal(path, 4 * MEBIBYTE)
    assert message.startswith("answer 0: choices[0].routed_experts: ")
    assert says in message


def test_ids_out_of_range_are_refused(tmp_path: Path) -> None:
    """Below -1, or more experts than any model has."""
    for value in (-2, 70_000):
        ids = FIRST.astype(np.int32)
        ids[-1, -1, -1] = value
        assert refusal(written(tmp_path, vllm({}, npy64(ids)))).startswith("topk_ids: must ")


BAD_ANSWERS: dict[str, tuple[str, str]] = {
    "no routing": ('{"choices": [{"text": "a"}]}', "routed_experts: is missing in every answer"),
    "choices in words": ('{"choices": "a"}', "routed_experts: is missing in every answer"),
    "a number": ("7", "holds the value 7; known by keys such as choices"),
    "an empty list": ("[]", "holds an empty list; known by keys such as choices"),
    "no JSON": ('{"choices": ', "not valid JSON at line 1 column 13"),
}


@pytest.mark.parametrize(("text", "says"), BAD_ANSWERS.values(), ids=BAD_ANSWERS)
def test_a_bad_answer_is_refused(text: str, says: str, tmp_path: Path) -> None:
    """Whatever is no answer with routed experts."""
    path = tmp_path / "answer.json"
    path.write_text(text)
    assert refusal(path).startswith(says)


def test_answers_of_different_models_are_refused(tmp_path: Path) -> None:
    """Layers and k must agree."""
    path = written(tmp_path, vllm({}, npy64(FIRST), npy64(SECOND[:, :2])))
    assert refusal(path) == "routed_experts: layers and k differ: [(2, 2), (3, 2)]"


def test_an_archive_without_routing_is_refused(tmp_path: Path) -> None:
    """Named in a folder as well."""
    archived(tmp_path / "a.npz", FIRST, 4)
    np.savez(tmp_path / "b.npz", x=FIRST)
    assert "b.npz: routed_experts: is missing" in refusal(tmp_path)


def test_an_answer_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In bytes of its text, after decompression."""
    path = tmp_path / "answer.json.gz"
    text = json.dumps(vllm({}, npy64(FIRST))).encode()
    path.write_bytes(gzip.compress(text + b" " * 100_000))
    monkeypatch.setattr(limits, "MAX_TEXT_BYTES", len(text) + 100_000)
    assert load_trace(path).tokens == 6
    monkeypatch.setattr(limits, "MAX_TEXT_BYTES", len(text) + 99_999)
    assert refusal(path).startswith("larger than")
