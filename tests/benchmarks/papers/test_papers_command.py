"""`python -m benchmarks.papers`: table, JSON, report, sweeps and exit codes."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks.papers.__main__ import run
from benchmarks.papers.registry import CHARTS, FIGURES, SWEEPS
from tests.benchmarks.papers.toy_figures import CALLS


def no_charts() -> tuple[()]:
    """Return none."""
    return ()


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let T1 and T2 be computed by toys, and the only sweep be one; draw nothing."""
    for name, function in (("T1", "computed"), ("T2", "other")):
        monkeypatch.setitem(FIGURES, name, f"tests.benchmarks.papers.toy_figures:{function}")
    for name in list(SWEEPS):
        monkeypatch.delitem(SWEEPS, name)
    monkeypatch.setitem(CHARTS, "trimoe", "tests.benchmarks.papers.test_papers_command:no_charts")
    monkeypatch.setitem(SWEEPS, "toy", "tests.benchmarks.papers.toy_figures:swept")
    CALLS.clear()


def test_the_table_has_a_row_per_figure(capsys: pytest.CaptureFixture[str]) -> None:
    """Id, published, ours, interval, error, kind, verdict, assumptions; then how many come out."""
    assert run(["T1", "T2"]) == 0
    out = capsys.readouterr().out
    for word in (
        "T1",
        "0.3",
        "0.29-0.32",
        "input",
        "as published",
        "T2",
        "+2.6 %",
        "assumed",
        "reproduces",
    ):
        assert word in out
    assert "1 of 2 published figures come out within 5 %, 0 of them through" in out


def test_json_is_one_object_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    """With everything that the report has."""
    assert run(["T2", "T1", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["id"] for line in lines] == ["T2", "T1"]
    assert lines[0]["ours"] == [0.8]
    assert lines[0]["errors"] == pytest.approx([0.8 / 0.78 - 1])


def test_an_unknown_id_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    """And lists the ids."""
    assert run(["T1", "X1"]) == 2
    assert "'X1' is unknown; known ids: T1, T2" in capsys.readouterr().err
    assert CALLS == []


def test_options_that_do_not_go_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each with one line that says why."""
    for arguments, says in (
        (["--resume"], "--resume: needs --report"),
        (["T1", "--sweep", "toy"], "--sweep: can be used with --json and --data only"),
        (["--sweep", "none"], "--sweep: 'none' is unknown; known sweeps: all, toy"),
        (["T1", "--data", str(tmp_path / "no")], "is not a folder"),
    ):
        assert run([*arguments]) == 2
        assert says in capsys.readouterr().err


def test_a_report_is_written_and_resumed(tmp_path: Path) -> None:
    """HTML, Markdown, a picture, and a file per figure; a second run computes nothing."""
    folder = tmp_path / "report"
    arguments = ["T1", "T2", "--report", str(folder), "--resume"]
    assert run(arguments) == 0
    first = {path: path.read_bytes() for path in folder.rglob("*.*")}
    names = {path.relative_to(folder).as_posix() for path in first}
    assert {"report.md", "figures/T1.json", "plots/trimoe-0.svg"} <= names
    assert b"### A parameter" in (folder / "report.md").read_bytes()
    assert CALLS == ["T1", "T2", "sweep"]
    assert run(arguments) == 0
    assert CALLS == ["T1", "T2", "sweep"]
    assert {path: path.read_bytes() for path in folder.rglob("*.*")} == first


def test_markdown_alone_needs_no_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is written without the extra; --report says at the start which package is missing."""
    for name in [n for n in sys.modules if n.startswith("benchmarks.papers.report.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert run(["T2", "--markdown", str(tmp_path / "f.md")]) == 0
    assert "| T2 |" in (tmp_path / "f.md").read_text()
    CALLS.clear()
    assert run(["T1", "--report", str(tmp_path / "r")]) == 2
    assert "reports need matplotlib (pip install matplotlib)" in capsys.readouterr().err
    assert CALLS == []


def test_a_sweep_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """As a table or as JSON."""
    assert run(["--sweep", "toy"]) == 0
    assert "a parameter" in capsys.readouterr().out
    assert run(["--sweep", "all", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["sweep"] == "toy"
    assert record["rows"] == [["1", [1.75]], ["2", [None]]]


def test_a_file_that_cannot_be_written_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, no traceback."""
    assert run(["T1", "--markdown", str(tmp_path / "no" / "f.md")]) == 2
    assert "no/f.md: cannot be written" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert run(["T1", "--report", str(tmp_path / "file")]) == 2
    assert "file" in capsys.readouterr().err
