"""Published traces in five forms: what is read, what is refused, and the command that converts."""

import gzip
import json
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.traces.__main__ import run
from benchmarks.traces.formats import FORMATS, read_published
from moeopt import InputError, load_trace
from tests.interop.refusals import MEBIBYTE, frugal_refusal, refusal

RNG = np.random.default_rng(8)
IDS = RNG.permuted(np.tile(np.arange(9), (10, 3, 1)), axis=2)[:, :, :2]
WEIGHTS = RNG.random((10, 3, 2)).round(4)
LENGTHS = [6, 4]

read_hdmoe, read_balance, read_esft, read_exflow, read_moe_trace = (
    partial(read_published, format=name)
    for name in ("hdmoe-json", "moe-balance-jsonl", "esft-txt", "exflow-npy", "moe-trace-csv")
)


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def lined(folder: Path, lines: list[Any]) -> Path:
    return written(folder, "x.jsonl", "\n".join(json.dumps(line) for line in lines) + "\n")


def test_a_trace_is_converted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From a published form to npz, and said in one line; refusals are one line, too."""
    source, out = (
        written(tmp_path, "x.dat", tabulated(IDS[:, 0], WEIGHTS[:, 0])),
        tmp_path / "x.npz",
    )
    assert run(["convert", "esft-txt", str(source), str(out), "--top-k", "2"]) == 0
    assert capsys.readouterr().out == f"{out}: 10 tokens, 1 layers, top-2\n"
    trace = load_trace(out)
    assert np.array_equal(trace.topk_ids, IDS[:, :1])
    assert trace.facts["converted"]["format"] == "esft-txt"
    for words, says in (
        (["excel", source, out], f"format: 'excel' is unknown; known: {', '.join(FORMATS)}"),
        (["esft-txt", source, tmp_path / "x.json"], "x.json: must end in .npz"),
        (["esft-txt", source, out, "--top-k", "0"], "top_k: must be at least 1, not 0"),
        (["hdmoe-json", source, out], "not valid JSON"),
        (["exflow-npy", tmp_path / "none.npy", out], "cannot be read: No such file or directory"),
    ):
        assert run(["convert", *map(str, words)]) == 2
        told = capsys.readouterr()
        assert (told.out, told.err.count("\n")) == ("", 1)
        assert says in told.err


def test_a_compressed_text_is_bounded(tmp_path: Path) -> None:
    """What expands to much more than its size is refused early."""
    path = tmp_path / "x.json.gz"
    path.write_bytes(gzip.compress(b" " * 64 * MEBIBYTE))
    assert "MiB" in frugal_refusal(path, 40 * MEBIBYTE, read_hdmoe)


# HD-MoE


def hdmoe(folder: Path, **layers: Any) -> Path:
    whole = {str(layer): IDS[:, layer].tolist() for layer in range(3)}
    return written(folder, "experts.json", json.dumps(whole | layers))


def test_lists_per_layer_are_read(tmp_path: Path) -> None:
    """Layers by their number, whatever their order in the file."""
    path = written(tmp_path, "x.json", json.dumps({"10": [[1, 0]], "9": [[2, 3]]}))
    assert np.array_equal(read_hdmoe(hdmoe(tmp_path)).topk_ids, IDS)
    trace = read_hdmoe(path)
    assert trace.topk_ids.tolist() == [[[2, 3], [1, 0]]]
    assert trace.facts["layers"] == [9, 10]


BAD_LAYERS: dict[str, tuple[dict[str, Any], str]] = {
    "ragged layers": ({"2": IDS[:9, 2].tolist()}, "layer 2: has (9, 2) (tokens, experts), not (10"),
    "ragged tokens": ({"2": [[1, 2]] * 9 + [[1]]}, "layer 2[9]: 1 long, and 2 in row 0"),
    "a word": ({"2": [[1, "2"]]}, "layer 2[1]: must be an integer, not a string"),
    "a truth value": ({"2": [[1, True]]}, "layer 2[1]: must be an integer, not the value true"),
    "null": ({"2": None}, "layer 2: must be a list, not null"),
    "a flat list": ({"2": [1, 2]}, "layer 2[0]: must be a list, not the value 1"),
    "no tokens": ({"2": []}, "layer 2: must be a list, not an empty list"),
    "below -1": ({"2": [[1, -2]]}, "layer 2[1]: must be from -1 to 65535, not -2"),
    "endless": ({"2": [[1, 10**39]]}, "layer 2[1]: must be from -1 to 65535"),
    "a layer in words": ({"two": [[1, 2]]}, '"two": is not the number of a layer'),
    "a layer twice": ({"02": IDS[:, 2].tolist()}, "layer 2: stands twice"),
}


@pytest.mark.parametrize(("layers", "says"), BAD_LAYERS.values(), ids=BAD_LAYERS)
def test_a_bad_layer_is_named(layers: dict[str, Any], says: str, tmp_path: Path) -> None:
    """Layer, place and reason."""
    assert refusal(hdmoe(tmp_path, **layers), read_hdmoe).startswith(says)


@pytest.mark.parametrize("text", ["[1]", "{}", '"a"', "", "{", "[" * 100_000])
def test_what_is_no_object_of_layers_is_refused(text: str, tmp_path: Path) -> None:
    """Lists, texts, nothing, and lists without end."""
    assert refusal(written(tmp_path, "x.json", text), read_hdmoe)


# One object per batch and layer


def balance(**every: Any) -> list[dict[str, Any]]:
    """Return the lines of `IDS` as two batches."""
    lines = []
    for batch, start, stop in ((0, 0, 6), (1, 6, 10)):
        for layer in (2, 0, 1):
            line = {"layer": layer, "batch_id": batch, "origin_rows": [0] * (stop - start)}
            line["topk_experts"] = IDS[start:stop, layer].tolist()
            line["topk_weights"] = WEIGHTS[start:stop, layer].tolist()
            lines.append(line | every)
    return lines


def test_a_line_per_batch_and_layer_is_read(tmp_path: Path) -> None:
    """Batch after batch, layers in the order of their numbers."""
    trace = read_balance(lined(tmp_path, balance()))
    assert np.array_equal(trace.topk_ids, IDS)
    assert np.array_equal(trace.topk_weights, WEIGHTS)
    assert read_balance(lined(tmp_path, balance(topk_weights=None))).topk_weights is None


def test_parts_of_a_batch_are_put_together(tmp_path: Path) -> None:
    """One line per origin, as some tools write them; empty parts add nothing."""
    lines = [
        {"layer": layer, "batch_id": "b", "topk_experts": IDS[start : start + 5, layer].tolist()}
        for start in (0, 5)
        for layer in range(3)
    ]
    empty = {"layer": 0, "batch_id": "b", "topk_experts": []}
    assert np.array_equal(read_balance(lined(tmp_path, [*lines, empty])).topk_ids, IDS)


BAD_BATCHES: dict[str, tuple[dict[str, Any], str]] = {
    "ragged tokens": ({"topk_experts": [[1, 2], [1]]}, "line 4: topk_experts[1]: 1 long, and 2"),
    "fewer tokens": (
        {"topk_experts": [[1, 2]], "topk_weights": None},
        "layer 2: batch 1 has shape (1, 2), and (4, 2) in layer 0",
    ),
    "weights in some lines": ({"topk_weights": None}, "topk_weights: is missing in some lines"),
    "weights too short": ({"topk_weights": [[1, 1]]}, "line 4: topk_weights: must be 4 lists of 2"),
    "weights in words": ({"topk_weights": "x"}, "line 4: topk_weights: must be a list of lists"),
    "a weight in words": ({"topk_weights": [["x", 1]] * 4}, "line 4: topk_weights: must be a list"),
    "experts in words": ({"topk_experts": "x"}, "line 4: topk_experts: must be a list"),
    "a batch that is a list": ({"batch_id": [1]}, "line 4: batch_id: must be text or an integer"),
    "a layer that is none": ({"layer": -1}, "line 4: layer: must be from 0 to 4095, not -1"),
    "another batch": ({"batch_id": 7}, "layer: "),
}


@pytest.mark.parametrize(("change", "says"), BAD_BATCHES.values(), ids=BAD_BATCHES)
def test_a_bad_batch_is_named(change: dict[str, Any], says: str, tmp_path: Path) -> None:
    """Line or layer, field, reason."""
    lines = balance()
    lines[3] |= change
    assert refusal(lined(tmp_path, lines), read_balance).startswith(says)


def test_a_batch_with_a_wider_layer_is_refused(tmp_path: Path) -> None:
    """In another batch all layers may agree, but not with this one."""
    lines = balance(topk_weights=None)
    for line in lines[3:]:
        line["topk_experts"] = [row[:1] for row in line["topk_experts"]]
    assert (
        refusal(lined(tmp_path, lines), read_balance)
        == "topk_experts: has a different width in some lines"
    )


# ESFT


def tabulated(ids: NDArray[Any], weights: NDArray[Any]) -> str:
    """Return one layer as text, a line per sequence."""
    lines, start = [], 0
    for length in LENGTHS:
        part = slice(start, start + length)
        start += length
        fields = ("\t".join(map(str, array[part].ravel().tolist())) for array in (ids, weights))
        lines.append("\t\t".join(fields))
    return "\n".join(lines) + "\n"


def esft(folder: Path) -> Path:
    for layer in range(3):
        text = tabulated(IDS[:, layer], WEIGHTS[:, layer])
        written(folder, f"expert_weights_{layer + 1}.txt", text)
    return folder


def test_a_folder_of_layers_is_read(tmp_path: Path) -> None:
    """Experts per token are found; layers are those of the file names."""
    trace = read_esft(esft(tmp_path))
    assert np.array_equal(trace.topk_ids, IDS)
    assert np.array_equal(trace.topk_weights, WEIGHTS)
    assert trace.seq_len.tolist() == LENGTHS
    assert trace.facts["layers"] == [1, 2, 3]


def test_one_layer_is_a_trace_as_well(tmp_path: Path) -> None:
    """With the experts per token as told."""
    path = esft(tmp_path) / "expert_weights_2.txt"
    assert np.array_equal(read_esft(path).topk_ids, IDS[:, 1:2])
    assert read_esft(path, top_k=1).tokens == 20
    assert refusal(path, read_esft, top_k=3) == "top_k: 3 does not divide the length of every line"


BAD_LINES = {
    "1\t2\t3\t4\n": "line 1: has no two tabulators between experts and weights",
    "1\t2\t\t0.5\n": "line 1: has 2 experts and 1 weights",
    "1\t-2\t\t0.5\t0.5\n": 'line 1: expert must be from 0 to 65535, not "-2"',
    "1\t70000\t\t0.5\t0.5\n": "line 1: expert must be from 0 to 65535",
    "1\t2\t\t0.5\tnan\n": "line 1: weights must be finite",
    "1\t2\t\t0.5\tx\n": "line 1: weights must be numbers",
    "\n": "holds no sequences",
}


@pytest.mark.parametrize("text", BAD_LINES, ids=range(len(BAD_LINES)))
def test_a_bad_line_is_named(text: str, tmp_path: Path) -> None:
    """Line and reason."""
    path = written(tmp_path, "x.txt", text)
    assert refusal(path, read_esft).startswith(BAD_LINES[text])


def test_layers_of_other_sequences_are_refused(tmp_path: Path) -> None:
    """A file of another run among them."""
    (esft(tmp_path) / "expert_weights_3.txt").write_text("1\t2\t\t0.5\t0.5\n")
    assert "expert_weights_3.txt: its sequences are not those of layer 1" in refusal(
        tmp_path, read_esft
    )


# ExFlow


def test_a_top_1_array_is_read(tmp_path: Path) -> None:
    """Two axes, one expert each."""
    path = tmp_path / "x.npy"
    np.save(path, IDS[:, :, 0])
    assert np.array_equal(read_exflow(path).topk_ids, IDS[:, :, :1])


def header(shape: str, descr: str = "'<i8'") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(64)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (header("(250000000, 5)"), "declares 10000000000 bytes and holds"),
        (header("(1, 8)", "'|O'"), "not a usable npy file: cannot create an OBJECT array"),
        (header("(8,)"), "topk_ids: must be integers [token, layer], not int64 of shape (8,)"),
        (header("(1, 8)", "'<f8'"), "topk_ids: must be integers [token, layer, k], not float64"),
        (header("(1, 8)").replace(b"\x01\x00", b"\x09\x00", 1), "its npy version is not 1.0"),
        (b"", "not a usable npy file: "),
    ],
)
def test_a_bad_array_is_refused(content: bytes, says: str, tmp_path: Path) -> None:
    """Headers that lie cost no memory."""
    path = tmp_path / "x.npy"
    path.write_bytes(content)
    assert says in frugal_refusal(path, 4 * MEBIBYTE, read_exflow)


def test_a_header_of_which_python_warns_is_refused_in_one_line(tmp_path: Path) -> None:
    """A header is a Python literal: "8and" is one with a SyntaxWarning, a second line on stderr."""
    path = tmp_path / "x.npy"
    path.write_bytes(header("(1, 8and 2)"))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with pytest.raises(InputError, match="Cannot parse header"):
            read_exflow(path)
    assert not said


# llama-moe-trace


def recorded(prompt: int, batch: int, decoded: int, layers: list[int], k: int = 2) -> str:
    """Return a recording as the tool writes one, by its description.

    Of a prompt, batch after batch, each layer's tokens; the last layer has the last token of a
    batch only. A prompt's positions: minus what went before, less what is left of the batch.
    """
    lines = []
    done = 0
    while done < prompt:
        size = min(batch, prompt - done)
        for layer in layers:
            tokens = range(size) if layer != layers[-1] else [size - 1]
            for token in tokens:
                pos = -(done + size - token)
                ids = [(done + token + layer + step) % 8 for step in range(k)]
                lines.append([pos, layer, *ids])
        done += size
    for pos in range(decoded):
        for layer in layers:
            lines.append([pos, layer, *((pos + layer + 2 * step + 1) % 8 for step in range(k))])
    return "".join(",".join(map(str, line)) + "\n" for line in lines)


def test_a_run_is_read(tmp_path: Path) -> None:
    """Tokens in the order of the text, layers by the model's numbers, what is missing as none."""
    path = tmp_path / "t.csv"
    path.write_text(recorded(5, 3, 4, [1, 2, 3]))
    trace = read_moe_trace(path)
    assert trace.topk_ids.shape == (9, 3, 2)
    assert trace.facts["layers"] == [1, 2, 3]
    assert trace.decode.tolist() == [False] * 5 + [True] * 4
    assert trace.seq_len.tolist() == [9]
    for token in range(5):
        assert trace.topk_ids[token, 0].tolist() == [(token + 1) % 8, (token + 2) % 8]
    last = trace.topk_ids[:, 2, 0].tolist()
    assert [ids >= 0 for ids in last] == [False, False, True, False, True, *[True] * 4]
    assert trace.topk_ids[5, 0].tolist() == [2, 4]


def test_runs_one_after_the_other_are_told_apart(tmp_path: Path) -> None:
    """`cat a.csv b.csv`: a longer prompt, a shorter one, and decoded tokens alone."""
    path = tmp_path / "t.csv"
    runs = [(4, 8, 3), (7, 8, 2), (2, 8, 5), (0, 8, 3), (0, 8, 2)]
    path.write_text("".join(recorded(*run, [0, 1], 4) for run in runs))
    trace = read_moe_trace(path)
    assert trace.seq_len.tolist() == [prompt + decoded for prompt, _, decoded in runs]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "holds no tokens"),
        ("0,1\n", "line 1: must be pos,layer,id,id,..."),
        ("0,1,3\x1e\n", "line 1: must be pos,layer,id,id,..."),
        ("0,1,2,3\n1,1,2\n", "line 2: 1 experts, and 2 in the lines before"),
        ("0,5000,2,3\n", "line 1: layer: must be at most 4095, not 5000"),
        ("0,1,2,70000\n", "line 1: id: must be at most 65535, not 70000"),
        ("999999999,1,2,3\n", "line 1: pos: must be at most"),
        ("0,1,99999999999999999999,3\n", "line 1: must be pos,layer,id,id,..."),
    ],
)
def test_what_is_no_recording_is_one_line(text: str, reason: str, tmp_path: Path) -> None:
    """With the file and the line."""
    path = tmp_path / "t.csv"
    path.write_text(text)
    assert reason in refusal(path, read_moe_trace)


def test_a_table_that_is_mostly_empty_is_refused(tmp_path: Path) -> None:
    """A few lines make no table of gigabytes."""
    path = written(tmp_path, "t.csv", "".join(f"{n},{n},1,2,3,4\n" for n in range(2000)))
    assert "are too many" in refusal(path, read_moe_trace)
