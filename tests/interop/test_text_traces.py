"""Traces as lines of JSON, and counts as CSV."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moeopt import load_counts, load_trace
from tests.rooms.sim import checked as limits

from .refusals import refusal

RNG = np.random.default_rng(8)
IDS = RNG.permuted(np.tile(np.arange(9), (10, 3, 1)), axis=2)[:, :, :2]
WEIGHTS = RNG.random((10, 3, 2)).round(4)
LENGTHS = [6, 4]


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


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
    rows = "".join(f"0,{expert},3\n" for expert in range(99))
    path.write_bytes(gzip.compress(rows.encode())[:-9])
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
    "layer,experts,count\n0,0,3\n": 'header: is "layer,experts,count"; known: layer,expert,count',
    "layer,expert,count,layer\n0,0,3,0\n": 'header: is "layer,expert,count,layer"; known: ',
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
    path.write_bytes(gzip.compress(b"0,0,1" + b" " * limits.SHORT_LINE_BYTES))
    assert refusal(path, load_counts).startswith("line 1: longer than")


def test_a_table_is_no_trace(tmp_path: Path) -> None:
    """Tokens cannot be recovered from counts."""
    message = refusal(written(tmp_path, "usage.csv", "0,0,3\n"))
    takers = "`moeopt plan` and `generate placement` take it, and load_counts"
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
