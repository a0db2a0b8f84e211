"""Counts as CSV: what the tools write, and what is refused."""

import gzip
from pathlib import Path

import pytest

from moeopt.sim.traces.files import load_counts
from moeopt.sim.traces.readers import checked as limits
from moeopt.sim.traces.readers import text as text_limits
from tests.interop.refusals import refusal


def written(folder: Path, text: str, name: str = "usage.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_table_is_read(tmp_path: Path) -> None:
    """Comments, a share, rows in any order, experts that do not occur."""
    text = "# model x\nlayer,expert,count,frac_of_layer\n3,2,6,0.6\n3,0,4,0.4\n\n# more\n1,1,7,1\n"
    counts = load_counts(written(tmp_path, text))
    assert counts.counts.tolist() == [[[0, 7, 0], [4, 0, 6]]]
    assert counts.facts is not None
    assert counts.facts["layers"] == [1, 3]
    assert len(counts.facts["sha256"]) == 64


@pytest.mark.parametrize("header", ["", "layer,expert,count\n", "layer_id,expert_id,count\n"])
def test_a_header_may_be_absent(header: str, tmp_path: Path) -> None:
    """Both spellings of it are known, and so are CR LF and a byte order mark."""
    text = "\ufeff" + header + "0,0,3\r\n0,1,4\r\n"
    assert load_counts(written(tmp_path, text)).counts.tolist() == [[[3, 4]]]


def test_shared_experts_are_kept_apart(tmp_path: Path) -> None:
    """Expert -1 gets every token and is no part of the counts."""
    counts = load_counts(written(tmp_path, "0,-1,10\n0,0,3\n0,1,6\n"))
    assert counts.counts.tolist() == [[[3, 6]]]
    assert counts.facts is not None
    assert counts.facts["shared_experts"] == {"0": 10}


def test_ranks_in_a_folder_are_summed(tmp_path: Path) -> None:
    """One file per rank, as SGLang's old recorder wrote them."""
    written(tmp_path, "layer_id,expert_id,count\n3,0,10\n3,1,20\n", "rank0.csv")
    written(tmp_path, "layer_id,expert_id,count\n3,1,5\n4,2,1\n", "rank1.csv")
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
    path = written(tmp_path, "0,0,3\n0,2,1\n")
    assert load_counts(path, experts=5).counts.tolist() == [[[3, 0, 1, 0, 0]]]
    with pytest.raises(Exception, match="expert 2 in a model of 2 experts"):
        load_counts(path, experts=2)


BAD = {
    "0,0,3\n0,1\n": "line 2: must have 3 or 4 fields, not 2",
    "0,0,3,1,1\n": "line 1: must have 3 or 4 fields, not 5",
    "0,0,x\n": 'line 1: count: must be an integer from 0 to 4398046511104, not "x"',
    "0,0,-3\n": "line 1: count: must be an integer from 0",
    "0,0,3.5\n": "line 1: count: must be an integer from 0",
    "0,0,nan\n": "line 1: count: must be an integer from 0",
    "0,-2,3\n": "line 1: expert: must be an integer from -1 to 65535",
    "0,65536,3\n": "line 1: expert: must be an integer from -1 to 65535",
    "4096,0,3\n": "line 1: layer: must be an integer from 0 to 4095",
    f"0,0,{'9' * 5000}\n": "line 1: count: must be an integer",
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
    assert refusal(written(tmp_path, text), load_counts).startswith(BAD[text])


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
    message = refusal(written(tmp_path, "0,0,3\n"))
    takers = "`moeopt plan`, `generate placement` and `trace fit` take it, and load_counts"
    assert message == f"count-csv holds counts only, no tokens: {takers}"


LABELLED = "model,domain,layer,expert,count\nm,law,0,0,3\nm,code,0,0,5\nm,law,0,1,1\n"


def test_further_columns_are_labels_to_choose_by(tmp_path: Path) -> None:
    """Rows of another label do not add up with the chosen ones."""
    path = written(tmp_path, LABELLED)
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
    path = written(tmp_path, LABELLED)
    assert says in refusal(path, lambda file: load_counts(file, where=where))
