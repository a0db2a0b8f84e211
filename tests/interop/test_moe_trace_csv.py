"""Recordings of llama-moe-trace: prompts, decoded tokens, several runs, and other files."""

from pathlib import Path

import pytest

import moeopt
from moeopt.sim.traces.files import format_of
from tests.interop.refusals import refusal


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
    assert trace.facts is not None
    assert trace.facts["layers"] == [1, 2, 3]
    assert trace.decode is not None
    assert trace.decode.tolist() == [False] * 5 + [True] * 4
    assert trace.seq_len is not None
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
    assert trace.seq_len is not None
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
        ("0,1,x\n", "line 1: must be pos,layer,id,id,..."),
        ("0,-1,3,4\n", "line 1: must be pos,layer,id,id,..."),
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
