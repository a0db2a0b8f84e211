"""``gap --report`` and ``report``: which files they write, from what, and what they refuse."""

import json
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

import moeopt
from tests.problems.tri_domain.random_instances import random_instance
from tests.refusals import refused_command
from tests.rooms.cli import run
from tests.rooms.core import lazy
from tests.study.html_read import Element, read_html, tables

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, in which ``family`` holds two instances."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "family").mkdir()
    for seed in (0, 1):
        moeopt.save(random_instance(seed), tmp_path / "family" / f"{seed}.json")
    return tmp_path


def page(path: Path) -> Element:
    """Return a report."""
    return read_html((path / "index.html").read_text())


def test_a_run_without_a_store_is_reported(folder: Path, capsys: Capture, undrawn: None) -> None:
    """Both files; the command solves again, with the options that were given."""
    assert run(["gap", "family", "--methods", "trimoe", "--report", "a/b"]) == 0
    assert capsys.readouterr().err == ""
    assert sorted(path.name for path in Path("a/b").iterdir()) == ["gap.csv", "index.html"]
    assert "moeopt gap family --methods trimoe --report a/b" in page(Path("a/b")).text
    assert {row[0] for row in tables(page(Path("a/b")))[0][1:]} == {"trimoe", "threshold"}
    text = Path("a/b/index.html").read_text()
    assert 'class="headline"' not in text, "nobody's own heuristic"
    assert "red stars" not in text


def test_a_store_is_reported_without_solving(folder: Path, undrawn: None) -> None:
    """The same numbers as from the run that filled it; each command goes on with the store."""
    options = ["--methods", "greedy,trimoe,cp-sat", "--store", "s.db"]
    assert run(["gap", "family", *options, "--report", "first"]) == 0
    assert run(["gap", "--store", "s.db", "--report", "then"]) == 0
    assert tables(page(Path("first"))) == tables(page(Path("then")))
    again = f"moeopt gap family {' '.join(options)} --report first --resume"
    assert again in page(Path("first")).text
    assert "moeopt gap --store s.db --report then" in page(Path("then")).text
    assert run(again.split()[1:]) == 0


def test_a_failed_solve_is_in_the_report(folder: Path, capsys: Capture, undrawn: None) -> None:
    """Brute force refuses an instance; the exit code is that of the failure."""
    moeopt.save(random_instance(2, experts=30), folder / "family" / "large.json")
    code = run(["gap", "family/large.json", "--methods", "brute-force,greedy", "--report", "r"])
    assert code == 2
    assert "brute" in page(Path("r")).text
    failures = tables(page(Path("r")))[-1]
    assert failures[1][1:3] == ["brute-force", "input"]


def take_away(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a package one that is not installed: it has no version, and no import finds it."""

    def without(name: str) -> str:
        if name == package:
            raise PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(lazy, "version", without)
    monkeypatch.setitem(sys.modules, package, None)


def test_without_the_extra_the_csv_is_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """A line says how to get the HTML; the run is no failure."""
    take_away("matplotlib", monkeypatch)
    assert run(["gap", "family/0.json", "--methods", "greedy", "--report", "r"]) == 0
    [line] = capsys.readouterr().err.splitlines()
    assert line == "moeopt: note: r/index.html needs matplotlib (pip install matplotlib)"
    assert [path.name for path in Path("r").iterdir()] == ["gap.csv"]


def test_a_folder_that_cannot_be_made_is_named(folder: Path, capsys: Capture) -> None:
    """One line."""
    assert run(["gap", "family/0.json", "--methods", "greedy", "--report", "family/0.json"]) == 2
    assert "--report: family/0.json is a file: must be a folder" in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_report_writes_the_same_numbers(folder: Path, capsys: Capture) -> None:
    """Of one store, with the command in the page; `--json` names the files."""
    options = ["--methods", "greedy", "--store", "s.db", "--report", "one"]
    assert run(["gap", "family", *options]) == 0
    capsys.readouterr()
    assert run(["report", "s.db", "--out", "two", "--json"]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert files == ["two/index.html", "two/gap.csv"]
    assert Path("one/gap.csv").read_bytes() == Path("two/gap.csv").read_bytes()
    assert tables(page(Path("one"))) == tables(page(Path("two")))
    assert "moeopt report s.db --out two" in page(Path("two")).text
    assert "none.db" in refused_command(capsys, ["report", "none.db", "--out", "two"])
