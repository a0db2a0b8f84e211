"""Telling formats apart, naming them, and reducing any of them to counts."""

from pathlib import Path

import numpy as np
import pytest

from moeopt import InputError, load_counts, load_trace
from tests.interop.refusals import refusal
from tests.rooms.sim import FORMATS, format_of

TEXTS = {
    ("x.csv", "0,0,1\n"): "count-csv",
    ("x.json", '{"choices": []}'): "routed-experts-json",
    ("x.json", '[{"meta_info": {}}]'): "routed-experts-json",
    ("x.jsonl", '{"type": "route"}'): "route-jsonl",
    ("x.jsonl", '{"meta_info": {}}'): "routed-experts-json",
    ("x.pt", ""): "sglang-pt",
    ("x.NPZ", ""): "topk-npz",
    ("imatrix.dat", "GGUF"): "imatrix-gguf",
}


@pytest.mark.parametrize(("name", "text"), TEXTS)
def test_a_format_is_told_by_name_and_content(name: str, text: str, tmp_path: Path) -> None:
    """Suffix first, then the first bytes."""
    path = tmp_path / name
    path.write_text(text)
    assert format_of(path, None) == TEXTS[name, text]


def test_npz_files_are_told_by_their_arrays(tmp_path: Path) -> None:
    """One of the project's own, one of a request."""
    for key, expected in (("topk_ids", "topk-npz"), ("routed_experts", "routed-experts-npz")):
        np.savez(tmp_path / "x.npz", **{key: np.zeros((1, 1, 1), dtype=np.int16)})
        assert format_of(tmp_path / "x.npz", None) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rank0.csv", "count-csv"),
        ("rank0.pt", "sglang-pt"),
        ("r.npz", "routed-experts-npz"),
    ],
)
def test_folders_are_told_by_what_is_in_them(name: str, expected: str, tmp_path: Path) -> None:
    """By the names of the files."""
    (tmp_path / name).write_text("")
    assert format_of(tmp_path, None) == expected


def test_a_format_that_cannot_be_told_gets_the_list(tmp_path: Path) -> None:
    """With what was seen; so does one that does not exist. Both name the file."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b.csv").write_text("0,0,1\n")
    (tmp_path / "b.pt").write_text("")
    (tmp_path / "notes.txt").write_text("hello\nyou")
    (tmp_path / "x.pkl").write_bytes(b"\x80\x04N.")
    (tmp_path / "none").write_text("")
    for name, what in (
        ("a", "an empty folder"),
        (".", 'a folder with "", ".csv", ".pkl", ".pt", ".txt"'),
        ("notes.txt", 'a file that begins with "hello"'),
        ("x.pkl", 'a file that begins with "\\\\x80'),
        ("none", "an empty file"),
    ):
        message = refusal(tmp_path / name)
        assert message.startswith(f"format: cannot be told from {what}"), message
        assert message.endswith(f"; known: {', '.join(FORMATS)}")
    message = refusal(tmp_path / "b.csv", format="excel")
    assert message == f"format: 'excel' is unknown; known: {', '.join(FORMATS)}"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """Whatever its suffix."""
    for name in ("x.npz", "x.csv", "x.pt", "x", "x.json"):
        assert refusal(tmp_path / name) == "cannot be read: No such file or directory"


def test_a_given_format_wins_over_the_name(tmp_path: Path) -> None:
    """As where a tool writes its table under another suffix."""
    path = tmp_path / "usage.log"
    path.write_text("0,0,1\n")
    assert load_counts(path, format="count-csv").counts.tolist() == [[[1]]]


def test_a_trace_is_reduced_to_counts(tmp_path: Path) -> None:
    """As one step, or cut into several."""
    path = tmp_path / "x.npz"
    np.savez(path, topk_ids=np.array([[[0, 1]], [[1, 2]], [[1, -1]], [[0, 2]], [[2, 1]]]))
    assert load_counts(path).counts.tolist() == [[[2, 4, 3]]]
    assert load_counts(path, batch=2, experts=4).counts.tolist() == [[[1, 2, 1, 0]], [[1, 1, 1, 0]]]
    with pytest.raises(InputError, match="expert 2 in a model of 2 experts"):
        load_counts(path, experts=2)


def test_experts_per_token_must_be_positive(tmp_path: Path) -> None:
    """0 would divide."""
    with pytest.raises(InputError, match="top_k: must be at least 1, not 0"):
        load_trace(tmp_path, top_k=0)
