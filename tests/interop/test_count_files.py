"""Counts and tokens as arrays, JSON and wide CSV: right sums, refusals that say what was seen."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt import InputError, load_counts, load_trace
from tests.interop.refusals import refusal
from tests.rooms.sim import format_of, kind_of_array

LE = [[10, 1, 5, 2], [2, 8, 1, 3]]
RNG = np.random.default_rng(3)


def tokens(count: int, layers: int, top_k: int, experts: int = 64) -> Any:
    """Return the experts of tokens, each once per layer."""
    every = np.tile(np.arange(experts, dtype=np.int16), (count, layers, 1))
    return RNG.permuted(every, axis=2)[:, :, :top_k]


def npy(folder: Path, array: Any) -> Path:
    np.save(folder / "x.npy", array)
    return folder / "x.npy"


def text(folder: Path, name: str, content: Any) -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.parametrize("key", [None, "counts", "logical_count", "whatever"])
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.float32, ">u4"])
def test_a_matrix_of_counts_is_read(key: str | None, dtype: Any, tmp_path: Path) -> None:
    """Npy and npz, under any name, also where its numbers are stored as floats."""
    matrix = np.array(LE, dtype=dtype)
    path = npy(tmp_path, matrix) if key is None else tmp_path / "x.npz"
    if key is not None:
        np.savez(path, **{key: matrix, "note": np.array("by hand")})
    counts = load_counts(path)
    assert counts.counts.tolist() == [LE]
    assert format_of(path, None) == "count-array"
    assert refusal(path).startswith("count-array holds counts only")


def test_layers_without_tokens_keep_the_numbers_of_the_others(tmp_path: Path) -> None:
    """The dense layer of a model stands as a row of zeros."""
    counts = load_counts(npy(tmp_path, np.array([[0, 0, 0, 0], *LE])))
    assert counts.counts.tolist() == [LE]
    assert counts.facts["layers"] == [1, 2]


@pytest.mark.parametrize(("count", "layers", "top_k"), [(40, 26, 8), (800, 1, 2), (64, 48, 1)])
def test_experts_of_tokens_are_read(count: int, layers: int, top_k: int, tmp_path: Path) -> None:
    """As vLLM keeps them, and under another name."""
    ids = tokens(count, layers, top_k)
    assert np.array_equal(load_trace(npy(tmp_path, ids)).topk_ids, ids)
    np.savez(tmp_path / "y.npz", indices=ids)
    assert np.array_equal(load_trace(tmp_path / "y.npz").topk_ids, ids)
    counted = load_counts(tmp_path / "x.npy").counts[0]
    for layer in range(layers):
        expected = np.bincount(ids[:, layer].ravel(), minlength=counted.shape[1])
        assert counted[layer].tolist() == expected.tolist()


def test_dense_layers_and_missing_experts_do_not_hide_tokens(tmp_path: Path) -> None:
    """Rows of zeros and -1."""
    ids = tokens(40, 4, 4)
    ids[:, 0] = 0
    trace = load_trace(npy(tmp_path, ids))
    assert np.array_equal(trace.topk_ids, ids[:, 1:])
    assert trace.facts["layers"] == [1, 2, 3]
    few = tokens(3, 2, 2)
    few[0, 0, 1] = -1
    assert np.array_equal(load_trace(npy(tmp_path, few)).topk_ids, few)


@given(st.integers(1, 60), st.integers(1, 20), st.integers(2, 80), st.integers(1, 10**6))
def test_a_matrix_is_never_taken_for_tokens(
    layers: int, experts: int, tokens: int, seed: int
) -> None:
    """It is read as counts or refused, whatever stands in it."""
    array = np.random.default_rng(seed).integers(1, tokens + 1, (layers, experts))
    assert kind_or_refusal(array) in ("count-array", "refused")


@given(st.integers(2, 12), st.integers(2, 12), st.integers(1, 500), st.integers(1, 10**6))
def test_steps_of_a_run_are_counts(steps: int, layers: int, batch: int, seed: int) -> None:
    """Each layer of a step has the same tokens: that tells counts from tokens, or none is told."""
    array = np.random.default_rng(seed).multinomial(batch * 2, [1 / 8] * 8, (steps, layers))
    assert kind_or_refusal(array) in ("count-array", "refused")


def kind_or_refusal(array: Any) -> str:
    """Return what an array is taken for, or that both readings are named."""
    try:
        return kind_of_array(Path("x.npy"), array)
    except InputError as error:
        return "refused" if "may be experts of tokens" in str(error) else str(error)


EITHER: dict[str, tuple[Any, str]] = {
    "tokens of one layer": (tokens(200, 1, 8)[:, 0], "int16 of shape (200, 8): may be experts"),
    "a long matrix": (np.tile([3, 4], (300, 1)), "int64 of shape (300, 2)"),
    "none in a matrix": (np.array([[-1, 2], [3, 4]]), "(2, 2), least -1: may be"),
    "few tokens": (tokens(2, 2, 2), "(2, 2, 2): may be experts of tokens [token, layer, k] or"),
    "damaged": (np.tile([3, 4, 3], (40, 2, 1)) + np.arange(2)[:, None], "a number twice: may be"),
}


@pytest.mark.parametrize(("array", "says"), EITHER.values(), ids=EITHER)
def test_what_may_be_either_is_refused_with_both_readings(
    array: Any, says: str, tmp_path: Path
) -> None:
    """And the option that decides."""
    path = npy(tmp_path, array)
    for load in (load_trace, load_counts):
        message = refusal(path, load)
        assert message.startswith("format: holds an array of ")
        assert says in message
        assert "counts [" in message
        assert "format token-array or count-array decides" in message


def test_the_format_decides(tmp_path: Path) -> None:
    """For arrays of two and of three axes, and so does the name in an npz file."""
    ids = tokens(2, 2, 2)
    path = npy(tmp_path, ids)
    assert load_trace(path, format="token-array").topk_ids.tolist() == ids.tolist()
    assert load_counts(path, format="count-array").counts.tolist() == ids.tolist()
    np.savez(tmp_path / "c.npz", counts=ids)
    assert load_counts(tmp_path / "c.npz").counts.tolist() == ids.tolist()
    flat = npy(tmp_path, tokens(200, 1, 8)[:, 0])
    assert load_trace(flat, "token-array", top_k=8).topk_ids.shape == (200, 1, 8)
    assert load_trace(flat, "token-array", top_k=1).topk_ids.shape == (200, 8, 1)
    assert "(top_k 1) or 8 in one layer (top_k 8)" in refusal(flat, format="token-array")


BAD_ARRAYS: dict[str, tuple[Any, str]] = {
    "one axis": (np.arange(3), "an array of int64 of shape (3,): neither"),
    "nothing": (np.zeros((0, 4), int), "shape (0, 4): neither"),
    "zeros": (np.zeros((2, 4), int), "an array of int64 of shape (2, 4), all of it zeros"),
    "words": (np.array([["a"]]), "an array of <U1 of shape (1, 1): neither"),
    "parts of tokens": (np.array([[0.5, 1]]), "whole numbers of tokens, not 0.5"),
    "not a number": (np.array([[np.nan, 1]]), "whole numbers of tokens, not nan"),
    "too many": (np.array([[2**50, 1]]), "must not be above 2**42"),
}


@pytest.mark.parametrize(("array", "says"), BAD_ARRAYS.values(), ids=BAD_ARRAYS)
def test_an_array_that_is_neither_is_refused(array: Any, says: str, tmp_path: Path) -> None:
    """With its type and shape, or the number at fault."""
    assert says in refusal(npy(tmp_path, array), load_counts)


def test_several_arrays_are_listed(tmp_path: Path) -> None:
    """None of which has a known name."""
    np.savez(tmp_path / "x.npz", a=np.array(LE), b=np.array(LE))
    message = refusal(tmp_path / "x.npz", load_counts)
    assert message.startswith('holds "a" (int64 of shape (2, 4)), "b" (int64 of shape (2, 4)): wh')


def test_an_npy_file_that_is_cut_is_refused(tmp_path: Path) -> None:
    """Before memory is taken for what it declares."""
    path = npy(tmp_path, np.array(LE))
    path.write_bytes(path.read_bytes()[:-8])
    assert refusal(path) == "declares 64 bytes and holds 56"
    path.write_bytes(b"no array")
    assert refusal(path).startswith("not a usable npy file: ")


STEP = {"record_type": "eplb_load_stats", "step": 7, "expert_load": LE}
USAGE = {
    f"layer_{layer}": {
        "expert_counts": {f"expert_{e}": n for e, n in enumerate(row)},
        "total_tokens": 9,
    }
    for layer, row in enumerate(LE)
}
JSON: dict[str, tuple[str, Any, str]] = {
    "lists": ("x.json", LE, "count-json"),
    "logical_count": ("x.json", {"rank": 0, "logical_count": LE}, "count-json"),
    "steps": ("x.json", {"logical_count": [LE]}, "count-json"),
    "records": ("x.json", [STEP], "count-json"),
    "lines": ("x.jsonl", STEP, "count-jsonl"),
    "usage": ("x.json", USAGE, "usage-json"),
    "rows by layer": ("x.json", {"0": LE[0], "1": LE[1]}, "usage-json"),
    "experts by layer": ("x.json", {f"layer.{n}": {"0": n + 1} for n in (0, 1)}, "usage-json"),
}


@pytest.mark.parametrize(("name", "content", "form"), JSON.values(), ids=JSON)
def test_counts_in_json_are_read(name: str, content: Any, form: str, tmp_path: Path) -> None:
    """Whatever of the forms it is."""
    path = text(tmp_path, name, content)
    assert format_of(path, None) == form
    expected = [[[1], [2]]] if "layer.0" in content else [LE]
    assert load_counts(path).counts.tolist() == expected
    assert "holds counts only, no tokens" in refusal(path)


def test_steps_and_slots_of_vllm(tmp_path: Path) -> None:
    """Two steps; copies of an expert count together, an empty slot not at all; ranks add up."""
    maps = {"p2l_map": [[0, 1, 2, 0, -1], [2, 1, 0, 2, 2]]}
    loads = ([[5, 1, 2, 7, 0], [1, 2, 3, 4, 5]], [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0]])
    lines = [{"step": n, "expert_load": load} | maps for n, load in enumerate(loads)]
    lines.append(lines[1] | {"rank": 1})
    path = text(tmp_path, "s.jsonl", "\n".join(map(json.dumps, lines)))
    counts = load_counts(path).counts
    assert counts.tolist() == [[[12, 1, 2], [3, 2, 10]], [[2, 0, 0], [0, 2, 0]]]
    again = text(tmp_path, "t.jsonl", "\n".join(map(json.dumps, [lines[0]] * 2)))
    assert refusal(again, load_counts) == "line 2: step: step 0 stands twice"


def test_usage_may_leave_out_experts_and_layers(tmp_path: Path) -> None:
    """Layers keep their numbers."""
    path = text(tmp_path, "u.json", {"layer_3": {"expert_2": 4}, "layer_1": {"expert_0": 1}})
    counts = load_counts(path)
    assert counts.counts.tolist() == [[[1, 0, 0], [0, 0, 4]]]
    assert counts.facts["layers"] == [1, 3]


BAD_JSON: dict[str, tuple[Any, str]] = {
    "unknown keys": ({"a": 1, "b": 2}, 'holds an object with "a", "b"; known by keys such as'),
    "nothing": ({}, "holds an empty object; known"),
    "numbers": ([1, 2], "holds a list of 2, first the value 1; known"),
    "unequal rows": ([[1, 2], [3]], "[1] has 1 numbers, and [0] 2"),
    "words": ([[1, 2], [3, "4"]], "[1] must be a list of numbers, not one with a string"),
    "truth": ({"counts": [[True, 2]]}, "counts: [0] must be a list of numbers, not one with"),
    "too large": ([[10**30, 2]], "has a number above 2**63"),
    "negative": ({"counts": [[-1, 2]]}, "count: must not be negative, not -1"),
    "half tokens": ({"counts": [[0.5, 2]]}, "count: must be whole numbers of tokens, not 0.5"),
    "half by layer": ({"0": [0.5]}, '"0": "0": must be a whole number from 0 to 2**42, not 0.5'),
    "an odd expert": ({"0": {"x": 1}}, '"0": key "x" is no expert up to 65535'),
    "tokens by layer": ({"0": [[0, 1]]}, '"0": "0": must be a whole number from 0 to 2**42, not a'),
    "a layer twice": ({"0": [1], "layer_0": [2]}, '"layer_0": layer 0 stands twice'),
    "deep": ({"expert_load": [[[1]]], "p2l_map": [[0]]}, "count: "),
    "a short map": ({"counts": LE, "p2l_map": [[0]]}, "p2l_map: is an array of int64 of shape (1,"),
    "load without expert": (
        {"counts": [[1, 2]], "p2l_map": [[0, -1]]},
        "p2l_map: must be experts from 0 to 65535, or -1 for a slot without load",
    ),
}


@pytest.mark.parametrize(("content", "says"), BAD_JSON.values(), ids=BAD_JSON)
def test_json_that_holds_no_counts_is_refused(content: Any, says: str, tmp_path: Path) -> None:
    """With what was seen in it."""
    if says == "count: ":
        assert load_counts(text(tmp_path, "x.json", content)).counts.tolist() == [[[1]]]
        return
    assert refusal(text(tmp_path, "x.json", content), load_counts).startswith(says)


WIDE = {
    "layer,expert_0,expert_1,expert_2,expert_3\n1,10,1,5,2\n2,2,8,1,3\n": [1, 2],
    "layer_id,0,1,2,3\n1,10,1,5,2\n2,2,8,1,3\n": [1, 2],
    ",0,1,2,3\n0,10,1,5,2\n1,2,8,1,3\n": None,
    "e0,e1,e2,e3,Layer\n10,1,5,2,0\n2,8,1,3,1\n": None,
    "expert_3,expert_1,expert_2,expert_0,layer\n2,1,5,10,4\n3,8,1,2,7\n": [4, 7],
}


@pytest.mark.parametrize("content", WIDE, ids=range(len(WIDE)))
def test_a_column_for_each_expert(content: str, tmp_path: Path) -> None:
    """In any order, layers in rows."""
    counts = load_counts(text(tmp_path, "w.csv", content))
    assert counts.counts.tolist() == [LE]
    assert counts.facts.get("layers") == WIDE[content]


def test_cells_as_frames_write_them(tmp_path: Path) -> None:
    """With quotes, and whole numbers in a column of floats; a broken line is one line."""
    path = tmp_path / "x.csv"
    path.write_text('"","E0","E1"\n"0",10.0,5\n"1",2.00,8\n')
    assert load_counts(path).counts.tolist() == [[[10, 5], [2, 8]]]
    for cell, words in (("2.5", "must be an integer"), ('"a\rb"c\rd', "line 3: ")):
        path.write_text(f"layer,expert,count\n0,0,10.0\n0,1,{cell}\n")
        with pytest.raises(InputError, match=words):
            load_counts(path)


def test_rows_of_a_wide_table_are_chosen_by_labels(tmp_path: Path) -> None:
    """As those of a long one."""
    content = "layer,domain,e0,e1\n0,law,3,1\n0,code,5,0\n"
    path = text(tmp_path, "w.csv", content)
    assert load_counts(path, where={"domain": "law"}).counts.tolist() == [[[3, 1]]]
    assert 'domain: has "law" and "code"' in refusal(path, load_counts)


BAD_WIDE = {
    "layer,e0,e1\n0,1\n": "line 2: must have 3 fields, not 2",
    "layer,e0,e1\n0,1,x\n": 'line 2: e1: must be an integer from 0 to 4398046511104, not "x"',
    "layer,e0,e1\n0,1,2\n0,1,2\n": "layer 0 expert 0: stands twice",
    "layer,e0,expert_0\n0,1,2\n": 'header: is "layer,e0,expert_0"; known: ',
    "layer,a,b\n0,1,2\n": 'header: is "layer,a,b"; known: ',
    "0,1,2,3,4\n": "line 1: must have 3 or 4 fields, not 5; a header line says what columns are",
}


@pytest.mark.parametrize("content", BAD_WIDE, ids=range(len(BAD_WIDE)))
def test_a_bad_wide_table_is_refused(content: str, tmp_path: Path) -> None:
    """With line and column."""
    assert refusal(text(tmp_path, "w.csv", content), load_counts).startswith(BAD_WIDE[content])


def passes(layers: int, lengths: dict[str, list[int]], first: int = 0) -> tuple[list[Any], Any]:
    """Return lines in which the index begins anew with each pass, and the experts by request."""
    lines, ids = [], {name: tokens(sum(of), layers, 2) for name, of in lengths.items()}
    done = dict.fromkeys(lengths, 0)
    for turn in range(max(map(len, lengths.values()))):
        index = first
        for name, of in lengths.items():
            for _ in range(of[turn] if turn < len(of) else 0):
                for layer in range(layers):
                    line = {"req_id": name, "token_idx": index, "layer": layer}
                    lines.append(line | {"topk_ids": ids[name][done[name], layer].tolist()})
                done[name] += 1
                index += 1
    return lines, np.concatenate(list(ids.values()))


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("order", ["tokens", "layers"])
def test_an_index_that_begins_anew_with_each_pass(layers: int, order: str, tmp_path: Path) -> None:
    """A prompt in two chunks, then single tokens; two requests side by side in each pass."""
    lines, ids = passes(layers, {"a": [4, 3, 1, 1, 1], "b": [2, 1, 1]})
    if order == "layers":
        lines.sort(key=lambda line: line["layer"])
    path = text(tmp_path, "r.jsonl", "\n".join(map(json.dumps, lines)))
    trace = load_trace(path)
    assert trace.seq_len.tolist() == [10, 4]
    assert np.array_equal(trace.topk_ids, ids)


def test_an_index_in_no_order_is_refused(tmp_path: Path) -> None:
    """Where it stands twice, so that the order of the lines must tell the passes."""
    lines = [{"token_idx": n, "layer": 0, "topk_ids": [n]} for n in (0, 1, 3, 1)]
    message = refusal(text(tmp_path, "r.jsonl", "\n".join(map(json.dumps, lines))))
    assert (
        message == "token_idx: token 3 of layer 0 stands after token 1, and some token stands twice"
    )


def test_a_line_of_another_kind_says_its_keys(tmp_path: Path) -> None:
    """Not what a route lacks alone."""
    message = refusal(text(tmp_path, "r.jsonl", '{"time": 3, "user": "x"}\n'))
    assert message == 'line 1: has the keys "time", "user"; a route has layer, token_idx, topk_ids'
