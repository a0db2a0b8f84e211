"""Importance matrices of llama.cpp as counts."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moeopt import load_counts, load_trace
from tests.gguf_files import F16, F32, write_gguf
from tests.interop.refusals import refusal
from tests.rooms.cli import run
from tests.rooms.sim import format_of

TYPE = {"general.type": "imatrix", "imatrix.chunk_count": 3, "imatrix.datasets": ["wiki.txt"]}


def imatrix(path: Path, layers: dict[int, list[float]], **changes: Any) -> Path:
    """Write an importance matrix with the experts' counts, those of attention and sums."""
    tensors: dict[str, Any] = {"blk.0.attn_q.weight.counts": ((1, 1), F32)}
    data = {"blk.0.attn_q.weight.counts": np.array([1024.0])}
    for layer, counts in layers.items():
        for part in ("gate", "up", "down"):
            name = f"blk.{layer}.ffn_{part}_exps.weight"
            tensors[f"{name}.in_sum2"] = ((64, len(counts)), F32)
            tensors[f"{name}.counts"] = ((1, len(counts)), F32)
            data[f"{name}.counts"] = np.array(counts)
    return write_gguf(path, TYPE, tensors | changes, data)


def test_the_counts_of_the_experts_are_read(tmp_path: Path) -> None:
    """One step; the model's own numbers of the layers are kept."""
    path = imatrix(tmp_path / "m.gguf", {1: [512, 0, 1536, 0], 3: [2, 2**22, 0, 1]})
    found = load_counts(path)
    assert found.counts.tolist() == [[[512, 0, 1536, 0], [2, 2**22, 0, 1]]]
    assert (found.facts["format"], found.facts["layers"]) == ("imatrix-gguf", [1, 3])
    assert load_counts(path, experts=6).counts.shape == (1, 2, 6)


def test_the_format_is_told_by_name_and_by_content(tmp_path: Path) -> None:
    """A name without an end is no hindrance."""
    for name in ("m.gguf", "imatrix"):
        assert format_of(imatrix(tmp_path / name, {0: [1, 2]}), None) == "imatrix-gguf"


def test_trace_info_shows_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From the command line."""
    path = imatrix(tmp_path / "m.gguf", {0: [512, 0, 1536, 0]})
    assert run(["trace", "info", str(path)]) == 0
    assert "1 layers, 4 experts, 2048 accesses" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("counts", "says"),
    [
        ([1.5, 2], "must be whole numbers of tokens, not 1.5"),
        ([-1, 2], "must be whole numbers of tokens, not -1"),
        ([float("nan"), 2], "must be whole numbers of tokens, not nan"),
        ([1e20, 2], "must be whole numbers of tokens, not 1e+20"),
    ],
)
def test_counts_that_are_no_numbers_of_tokens_are_refused(
    counts: list[float], says: str, tmp_path: Path
) -> None:
    """The tensor is named."""
    path = imatrix(tmp_path / "m.gguf", {0: counts})
    assert refusal(path, load_counts) == f'"blk.0.ffn_gate_exps.weight.counts": {says}'


def test_files_without_counts_of_experts_are_refused(tmp_path: Path) -> None:
    """A model, a dense model's matrix, layers that differ, halves, zeros; and no trace is in it."""
    zeros = imatrix(tmp_path / "z.gguf", {0: [0, 0], 1: [0, 0]})
    assert refusal(zeros, load_counts) == "count: is zero for every expert"
    path = tmp_path / "m.gguf"
    write_gguf(path, {"general.type": "model"}, {})
    says = 'general.type: must be "imatrix", not "model"; a model is read with --model'
    assert refusal(path, load_counts) == says
    assert refusal(imatrix(path, {}), load_counts).startswith("has no counts of experts")
    uneven = imatrix(path, {0: [1, 2], 1: [1, 2, 3]})
    assert refusal(uneven, load_counts).startswith("2 layers of 2 to 3 experts: must be as many")
    halves = {"blk.0.ffn_up_exps.weight.counts": ((1, 2), F16)}
    assert "cannot be read: F16" in refusal(imatrix(path, {0: [1, 2]}, **halves), load_counts)
    others = {"blk.0.ffn_up_exps.weight.counts": ((1, 3), F32)}
    assert ": 3 experts, and 2 in " in refusal(imatrix(path, {0: [1, 2]}, **others), load_counts)
    says = "imatrix-gguf holds counts only, no tokens: `moeopt plan` and"
    assert refusal(imatrix(path, {0: [1, 2]}), load_trace).startswith(says)


def test_a_signalling_nan_is_one_line(tmp_path: Path) -> None:
    """Its cast is a warning of NumPy's, which would be a second one."""
    path = imatrix(tmp_path / "m.gguf", {0: [512, 0]})
    path.write_bytes(path.read_bytes().replace(struct.pack("<f", 512), b"\0\0\xa0\x7f"))
    assert "must be whole numbers of tokens, not nan" in refusal(path, load_counts)
