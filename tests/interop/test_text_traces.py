"""Traces as JSON, lines of JSON, tabulated text, and top-1 arrays."""

import gzip
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import moeopt
from moeopt import InputError, load_counts, load_trace
from tests.rooms.sim import checked as limits
from tests.rooms.sim import format_of
from tests.rooms.sim import text as text_limits

from .refusals import MEBIBYTE, frugal_refusal, refusal

RNG = np.random.default_rng(8)
IDS = RNG.permuted(np.tile(np.arange(9), (10, 3, 1)), axis=2)[:, :, :2]
WEIGHTS = RNG.random((10, 3, 2)).round(4)
LENGTHS = [6, 4]


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


# HD-MoE


def hdmoe(folder: Path, **layers: Any) -> Path:
    whole = {str(layer): IDS[:, layer].tolist() for layer in range(3)}
    return written(folder, "experts.json", json.dumps(whole | layers))


def test_lists_per_layer_are_read(tmp_path: Path) -> None:
    """Layers by their number, whatever their order in the file."""
    path = written(tmp_path, "x.json", json.dumps({"10": [[1, 0]], "9": [[2, 3]]}))
    assert np.array_equal(load_trace(hdmoe(tmp_path)).topk_ids, IDS)
    trace = load_trace(path)
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
    assert refusal(hdmoe(tmp_path, **layers)).startswith(says)


@pytest.mark.parametrize("text", ["[1]", "{}", '"a"', "", "{", "[" * 100_000])
def test_what_is_no_object_of_layers_is_refused(text: str, tmp_path: Path) -> None:
    """Also where the format is given."""
    assert refusal(written(tmp_path, "x.json", text), format="hdmoe-json")


# One object per token and layer


def routes(**every: Any) -> list[dict[str, Any]]:
    """Return the lines of `IDS` as two requests, mixed up."""
    lines = []
    for token in range(10):
        request, index = ("a", token) if token < 6 else ("b", token - 6)
        for layer in range(3):
            line = {"type": "route", "req_id": request, "token_idx": index, "layer": layer}
            line["topk_ids"] = IDS[token, layer].tolist()
            line["topk_weights"] = WEIGHTS[token, layer].tolist()
            line["phase"] = "decode" if index >= 4 else "prefill"
            lines.append(line | every)
    first, rest = lines[0], lines[1:]
    return [first, *(rest[i] for i in RNG.permutation(len(rest)))]


def lined(folder: Path, lines: list[Any]) -> Path:
    return written(folder, "x.jsonl", "\n".join(json.dumps(line) for line in lines) + "\n")


def test_a_line_per_token_and_layer_is_read(tmp_path: Path) -> None:
    """In any order, other lines between them."""
    lines = [{"type": "meta", "model": "x"}, *routes(), {"type": "end"}]
    trace = load_trace(lined(tmp_path, lines))
    assert np.array_equal(trace.topk_ids, IDS)
    assert np.array_equal(trace.topk_weights, WEIGHTS)
    assert trace.seq_len.tolist() == LENGTHS
    assert np.flatnonzero(trace.decode).tolist() == [4, 5]


def test_weights_and_phases_may_be_absent(tmp_path: Path) -> None:
    """Then the trace has none."""
    trace = load_trace(lined(tmp_path, routes(topk_weights=None, phase=None)))
    assert trace.topk_weights is None
    assert trace.decode is None


def test_bad_sets_of_routes_are_refused(tmp_path: Path) -> None:
    """A layer missing, a line twice, weights in some lines, nothing."""
    lines = routes()
    for wrong, says in (
        (lines[:-1], "layer: token "),
        ([*lines, lines[5]], "token_idx: token "),
        ([*lines[:-1], lines[-1] | {"topk_weights": None}], "topk_weights: is missing in some"),
        ([{"type": "meta"}], "holds no routes"),
    ):
        assert refusal(lined(tmp_path, wrong)).startswith(says)


BAD_ROUTES: dict[str, tuple[dict[str, Any], str]] = {
    "no layer": ({"layer": None}, "layer: must be an integer, not null"),
    "a far layer": ({"layer": 5000}, "layer: must be from 0 to 4095, not 5000"),
    "a negative token": ({"token_idx": -1}, "token_idx: must be from 0 to"),
    "a true token": ({"token_idx": True}, "token_idx: must be an integer, not true"),
    "ids in words": ({"topk_ids": "1,2"}, "topk_ids: must be a list, not a string"),
    "an id in words": ({"topk_ids": [1, "2"]}, "topk_ids[1]: must be an integer, not a string"),
    "three ids": ({"topk_ids": [1, 2, 3]}, "topk_ids: 3 experts, and 2 in the lines before"),
    "one weight": ({"topk_weights": [1.0]}, "topk_weights: 1 weights for 2 experts"),
    "a weight in words": ({"topk_weights": [1.0, "x"]}, "topk_weights: must be a list of numbers"),
    "a request that is a list": ({"req_id": [1]}, "req_id: must be a text or an integer"),
    "an unknown phase": ({"phase": "verify"}, "phase: must be prefill or decode"),
    "a phase that is a list": ({"phase": []}, "phase: must be prefill or decode"),
}


@pytest.mark.parametrize(("change", "says"), BAD_ROUTES.values(), ids=BAD_ROUTES)
def test_a_bad_route_is_named_with_its_line(
    change: dict[str, Any], says: str, tmp_path: Path
) -> None:
    """Line, field, reason."""
    lines = routes()
    lines[7] |= change
    assert refusal(lined(tmp_path, lines)).startswith(f"line 8: {says}")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            '{"topk_ids": [0, 1], "topk_weights": [NaN, 1]}',
            "topk_weights[0]: must be a number",
        ),
        ("[1]", "must be an object, not a list"),
    ],
)
def test_a_line_that_is_no_object_is_refused(line: str, says: str, tmp_path: Path) -> None:
    """NaN, other values, no JSON."""
    path = written(tmp_path, "x.jsonl", line + "\n")
    assert refusal(path).startswith(f"line 1: {says}")


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
    trace = load_trace(lined(tmp_path, balance()))
    assert np.array_equal(trace.topk_ids, IDS)
    assert np.array_equal(trace.topk_weights, WEIGHTS)
    assert load_trace(lined(tmp_path, balance(topk_weights=None))).topk_weights is None


def test_parts_of_a_batch_are_put_together(tmp_path: Path) -> None:
    """One line per origin, as some tools write them; empty parts add nothing."""
    lines = [
        {"layer": layer, "batch_id": "b", "topk_experts": IDS[start : start + 5, layer].tolist()}
        for start in (0, 5)
        for layer in range(3)
    ]
    empty = {"layer": 0, "batch_id": "b", "topk_experts": []}
    assert np.array_equal(load_trace(lined(tmp_path, [*lines, empty])).topk_ids, IDS)


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
    assert refusal(lined(tmp_path, lines)).startswith(says)


def test_a_batch_with_a_wider_layer_is_refused(tmp_path: Path) -> None:
    """In another batch all layers may agree, but not with this one."""
    lines = balance(topk_weights=None)
    for line in lines[3:]:
        line["topk_experts"] = [row[:1] for row in line["topk_experts"]]
    assert refusal(lined(tmp_path, lines)) == "topk_experts: has a different width in some lines"


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
    trace = load_trace(esft(tmp_path))
    assert np.array_equal(trace.topk_ids, IDS)
    assert np.array_equal(trace.topk_weights, WEIGHTS)
    assert trace.seq_len.tolist() == LENGTHS
    assert trace.facts["layers"] == [1, 2, 3]


def test_one_layer_is_a_trace_as_well(tmp_path: Path) -> None:
    """With the experts per token as told."""
    path = esft(tmp_path) / "expert_weights_2.txt"
    assert np.array_equal(load_trace(path).topk_ids, IDS[:, 1:2])
    assert load_trace(path, top_k=1).tokens == 20
    assert refusal(path, top_k=3) == "top_k: 3 does not divide the length of every line"


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
    assert refusal(path, format="esft-txt").startswith(BAD_LINES[text])


def test_layers_of_other_sequences_are_refused(tmp_path: Path) -> None:
    """A file of another run among them."""
    (esft(tmp_path) / "expert_weights_3.txt").write_text("1\t2\t\t0.5\t0.5\n")
    assert "expert_weights_3.txt: its sequences are not those of layer 1" in refusal(tmp_path)


# ExFlow


def test_a_top_1_array_is_read(tmp_path: Path) -> None:
    """Two axes, one expert each."""
    path = tmp_path / "x.npy"
    np.save(path, IDS[:, :, 0])
    assert np.array_equal(load_trace(path).topk_ids, IDS[:, :, :1])


def header(shape: str, descr: str = "'<i8'") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(64)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (header("(250000000, 5)"), "declares 10000000000 bytes and holds"),
        (header("(1, 8)", "'|O'"), "not a usable npy file: Object arrays cannot be loaded"),
        (header("(8,)"), "topk_ids: must be integers [token, layer], not int64 of shape (8,)"),
        (header("(1, 8)", "'<f8'"), "topk_ids: must be integers [token, layer, k], not float64"),
        (header("(1, 8)").replace(b"\x01\x00", b"\x09\x00", 1), "npy version (9, 0) is not known"),
        (b"", "not a usable npy file: "),
    ],
)
def test_a_bad_array_is_refused(content: bytes, says: str, tmp_path: Path) -> None:
    """Headers that lie cost no memory."""
    path = tmp_path / "x.npy"
    path.write_bytes(content)
    assert says in frugal_refusal(path, 4 * MEBIBYTE)


def test_a_header_of_which_python_warns_is_refused_in_one_line(tmp_path: Path) -> None:
    """A header is a Python literal: "8and" is one with a SyntaxWarning, a second line on stderr."""
    path = tmp_path / "x.npy"
    path.write_bytes(header("(1, 8and 2)"))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with pytest.raises(InputError, match="Cannot parse header"):
            load_trace(path)
    assert not said


def test_a_table_is_read(tmp_path: Path) -> None:
    """Comments, a share, rows in any order, experts that do not occur."""
    text = "# model x\nlayer,expert,count,frac_of_layer\n3,2,6,0.6\n3,0,4,0.4\n\n# more\n1,1,7,1\n"
    counts = load_counts(written(tmp_path, "usage.csv", text))
    assert counts.counts.tolist() == [[[0, 7, 0], [4, 0, 6]]]
    assert counts.facts["layers"] == [1, 3]
    assert len(counts.facts["sha256"]) == 64


@pytest.mark.parametrize("header", ["", "layer,expert,count\n", "layer_id,expert_id,count\n"])
def test_a_header_may_be_absent(header: str, tmp_path: Path) -> None:
    """Both spellings of it are known, and so are CR LF and a byte order mark."""
    text = "\ufeff" + header + "0,0,3\r\n0,1,4\r\n"
    assert load_counts(written(tmp_path, "usage.csv", text)).counts.tolist() == [[[3, 4]]]


def test_shared_experts_are_kept_apart(tmp_path: Path) -> None:
    """Expert -1 gets every token and is no part of the counts."""
    counts = load_counts(written(tmp_path, "usage.csv", "0,-1,10\n0,0,3\n0,1,6\n"))
    assert counts.counts.tolist() == [[[3, 6]]]
    assert counts.facts["shared_experts"] == {"0": 10}


def test_ranks_in_a_folder_are_summed(tmp_path: Path) -> None:
    """One file per rank, as SGLang's old recorder wrote them."""
    written(tmp_path, "rank0.csv", "layer_id,expert_id,count\n3,0,10\n3,1,20\n")
    written(tmp_path, "rank1.csv", "layer_id,expert_id,count\n3,1,5\n4,2,1\n")
    assert load_counts(tmp_path).counts.tolist() == [[[10, 25, 0], [0, 0, 1]]]


def test_a_compressed_table_is_read(tmp_path: Path) -> None:
    """By its name."""
    path = tmp_path / "usage.csv.gz"
    path.write_bytes(gzip.compress(b"0,0,3\n"))
    assert load_counts(path).counts.tolist() == [[[3]]]
    path.write_bytes(gzip.compress(b"0,0,3\n" * 99)[:-9])
    assert refusal(path, load_counts) == "not a complete gzip file"


def test_experts_that_were_never_chosen_can_be_added(tmp_path: Path) -> None:
    """The model may have more than the table mentions, not fewer."""
    path = written(tmp_path, "usage.csv", "0,0,3\n0,2,1\n")
    assert load_counts(path, experts=5).counts.tolist() == [[[3, 0, 1, 0, 0]]]
    with pytest.raises(Exception, match="expert 2 in a model of 2 experts"):
        load_counts(path, experts=2)


BAD = {
    "0,0,3\n0,1\n": "line 2: must have 3 or 4 fields, not 2",
    "0,0,3,1,1\n": "line 1: must have 3 or 4 fields, not 5",
    "0,0,x\n": 'line 1: count: must be an integer from 0 to 4398046511104, not "x"',
    "0,-2,3\n": "line 1: expert: must be an integer from -1 to 65535",
    "4096,0,3\n": "line 1: layer: must be an integer from 0 to 4095",
    "0,0,3\n0,0,1\n": "layer 0 expert 0: stands twice",
    "0,0,0\n0,1,0\n": "count: is zero for every expert",
    "0,-1,3\n": "holds no counts",
    "# nothing\n": "holds no counts",
    "layer,experts,count\n0,0,3\n": "header: must be layer,expert,count[,frac_of_layer]",
    "layer,expert,count,layer\n0,0,3,0\n": "header: must be layer,expert,count[,frac_of_layer]",
    "layer,expert,count,domain\n0,0,3\n": "line 2: must have 4 fields, not 3",
    "model,layer,expert,count\na,0,0,3\nb,0,0,3\n": 'line 3: model: has "a" and "b"',
    "layer,expert,count\nlayer,expert,count\n": "line 2: layer: must be an integer",
}


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_a_bad_table_is_named_with_line_and_field(text: str, tmp_path: Path) -> None:
    """One line, whatever the file contains."""
    assert refusal(written(tmp_path, "usage.csv", text), load_counts).startswith(BAD[text])


def test_text_that_is_none_is_refused(tmp_path: Path) -> None:
    """Other encodings, and lines without end."""
    path = tmp_path / "x.csv"
    path.write_bytes(b"0,0,3\n\xff\xfe\n")
    assert refusal(path, load_counts).startswith("not UTF-8 text")


def test_lines_and_texts_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that are compressed."""
    path = tmp_path / "x.csv.gz"
    text = "".join(f"0,{expert},1\n" for expert in range(5000))
    path.write_bytes(gzip.compress(text.encode()))
    monkeypatch.setattr(limits, "MAX_TEXT_BYTES", len(text))
    assert load_counts(path).counts.sum() == 5000
    monkeypatch.setattr(limits, "MAX_TEXT_BYTES", len(text) - 1)
    assert refusal(path, load_counts).startswith("larger than")
    path.write_bytes(gzip.compress(b"0,0,1" + b" " * text_limits.SHORT_LINE_BYTES))
    assert refusal(path, load_counts).startswith("line 1: longer than")


def test_a_table_is_no_trace(tmp_path: Path) -> None:
    """Tokens cannot be recovered from counts."""
    message = refusal(written(tmp_path, "usage.csv", "0,0,3\n"))
    takers = "`moeopt plan`, `generate placement` and `trace fit` take it, and load_counts"
    assert message == f"count-csv holds counts only, no tokens: {takers}"


LABELLED = "model,domain,layer,expert,count\nm,law,0,0,3\nm,code,0,0,5\nm,law,0,1,1\n"


def test_further_columns_are_labels_to_choose_by(tmp_path: Path) -> None:
    """Rows of another label do not add up with the chosen ones."""
    path = written(tmp_path, "usage.csv", LABELLED)
    assert load_counts(path, where={"domain": "law"}).counts.tolist() == [[[3, 1]]]
    assert load_counts(path, where={"domain": "code"}).counts.tolist() == [[[5]]]
    assert (load_counts(path, where={"domain": "law"}).facts or {})["where"] == {"domain": "law"}


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ({}, 'domain: has "law" and "code", which do not add up'),
        ({"domain": "art"}, "holds no counts"),
        ({"language": "en"}, 'where: "language" is no column of labels; there: model, domain'),
    ],
)
def test_a_choice_that_cannot_be_made_is_named(
    where: dict[str, str], says: str, tmp_path: Path
) -> None:
    """Which label is at fault, and what there is."""
    path = written(tmp_path, "usage.csv", LABELLED)
    assert says in refusal(path, lambda file: load_counts(file, where=where))


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
    assert format_of(path, None) == "moe-trace-csv"
    trace = moeopt.load_trace(path)
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
    trace = moeopt.load_trace(path, format="moe-trace-csv")
    assert trace.seq_len.tolist() == [prompt + decoded for prompt, _, decoded in runs]


def test_counts_are_told_from_recordings(tmp_path: Path) -> None:
    """Both may be called .csv: by a prompt's negative position, or by more columns."""
    path = tmp_path / "t.csv"
    for text, name in (
        ("layer,expert,count\n0,1,5\n", "count-csv"),
        ("0,1,5\n", "count-csv"),
        ("0,1,5,0.5\n", "count-csv"),
        ("-3,0,1,2\n", "moe-trace-csv"),
        ("-3,0,1\n", "count-csv"),
        ("0,0,1,2,3\n", "count-csv"),
        ("0,0,1,2,3,4\n", "moe-trace-csv"),
    ):
        path.write_text(text)
        assert format_of(path, None) == name


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
    assert reason in refusal(path, format="moe-trace-csv")
