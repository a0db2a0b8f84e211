"""The library as a benchmark: submissions, tables, checksums."""

import json
import re
import runpy
import shutil
from pathlib import Path
from typing import Any

import pytest

import moeopt
from instances.tools.commands import run as run_tool
from instances.tools.entries import entries_of, open_table, sums
from tests.instances.test_library import build_script
from tests.rooms.certificates import certificate
from tests.rooms.cli import run
from tests.rooms.problems import PROBLEMS
from tests.test_documents import PYTHON, SHELL, run_line

NAME = "mixtral-8x22b-rtx4090-7960x"
KEY = f"synthetic/{NAME}.json.gz"
OPTIMUM = 60_755_085_000
RULE = "uniform-ways"
"""A heuristic that is not optimal here."""


@pytest.fixture
def copied(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the copy of a library of one instance, below the current folder."""
    source, folder = root / "instances" / "cache", tmp_path / "instances" / "cache"
    (folder / "synthetic").mkdir(parents=True)
    (folder / "solutions" / "synthetic").mkdir(parents=True)
    shutil.copy(source / KEY, folder / KEY)
    shutil.copy(source / "solutions" / KEY, folder / "solutions" / KEY)
    for name in ("index.json", "best_known.json"):
        entry = json.loads((source / name).read_text())[KEY]
        (folder / name).write_text(json.dumps({KEY: entry}))
    monkeypatch.chdir(tmp_path)
    return folder


def known_worse(folder: Path) -> int:
    """Let the library know nothing but a rule's solution and no proof; return what it costs."""
    instance = moeopt.load(folder / KEY)
    found = moeopt.solve(instance, RULE)
    assert found.solution is not None
    assert isinstance(found.objective, int)
    moeopt.save(found.solution, folder / "solutions" / KEY)
    best = json.loads((folder / "best_known.json").read_text())
    best[KEY] |= {"objective": found.objective, "bound": 1, "status": "feasible", "date": "-"}
    (folder / "best_known.json").write_text(json.dumps(best))
    return found.objective


def best(folder: Path) -> dict[str, Any]:
    """Return the entry."""
    found: dict[str, Any] = json.loads((folder / "best_known.json").read_text())[KEY]
    return found


def test_the_guide_does_what_it_says(
    root: Path, copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An exported model, another solver, its answer checked; then the same where less is known."""
    text = (root / "docs" / "benchmark.md").read_text()
    export, check, bounds, model = SHELL.findall(text)
    [(source, expected)] = PYTHON.findall(text)
    assert run_line(export) == 0
    Path("solve.py").write_text(source)
    capsys.readouterr()
    runpy.run_path("solve.py", run_name="__main__")
    assert capsys.readouterr().out == expected
    said = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    assert run_line(check) == 0
    assert capsys.readouterr().out == said[1]
    for command in bounds.splitlines():
        assert run_line(command) == 0
    assert capsys.readouterr().out.endswith(said[2])
    assert run_line(model) == 0
    assert certificate.main(["model.json.gz", "bound.json.gz"]) == 0
    assert f"nothing costs less than {OPTIMUM}" in capsys.readouterr().out

    before = known_worse(copied)
    assert run_line(f"{check} --write --by 'A. Person'") == 0
    line = capsys.readouterr().out.splitlines()[0]
    assert line.endswith(f"better than best known by {before - OPTIMUM:,} ns")
    entry = best(copied)
    assert (entry["objective"], entry["status"], entry["by"]) == (OPTIMUM, "feasible", "A. Person")
    assert run_tool(["verify", "bound.json.gz", "--write", "--by", "A. Person"]) == 0
    assert "better than best known bound by" in capsys.readouterr().out
    entry = best(copied)
    assert (entry["bound"], entry["status"], entry["method"]) == (OPTIMUM, "optimal", "milp")
    assert run_tool(["verify", "bound.json.gz", "--write"]) == 0
    assert capsys.readouterr().out.count("\n") == 1, "nothing is written twice"
    assert run_tool(["verify"]) == 0
    assert capsys.readouterr().out == "cache: 1 certificates, 0 faults\n"
    assert [e.type for e in entries_of(copied)] == ["closed"]


def test_how_a_solution_stands(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Worse, equal, better, in both commands `check`; nothing is written unasked."""
    instance = moeopt.load(copied / KEY)
    moeopt.save(moeopt.solve(instance, RULE).solution, "worse.json")  # type: ignore[arg-type]
    shutil.copy(copied / "solutions" / KEY, "equal.json.gz")
    entry = best(copied)
    assert run_tool(["check", "worse.json", "equal.json.gz", "--write"]) == 0
    worse, equal = capsys.readouterr().out.splitlines()
    assert re.search(r"worse than best known by [\d,]+ ns$", worse)
    assert equal.endswith("equals best known")
    assert run(["check", str(copied / KEY), "worse.json"]) == 0
    assert re.search(r"worse than best known by [\d,]+ ns$", capsys.readouterr().out)
    assert best(copied) == entry
    known_worse(copied)
    entry = best(copied)
    assert run_tool(["check", "equal.json.gz", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["standing"], told["objective"], told["entered"]) == ("better", OPTIMUM, [])
    assert run(["check", str(copied / KEY), "equal.json.gz", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["standing"] == "better"
    assert best(copied) == entry


def test_a_proof_that_cannot_be_is_exit_5(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A solution below the bound on record."""
    shutil.copy(copied / "solutions" / KEY, "good.json.gz")
    entries = {KEY: best(copied) | {"bound": OPTIMUM + 1, "objective": OPTIMUM + 1}}
    (copied / "best_known.json").write_text(json.dumps(entries))
    assert run_tool(["check", "good.json.gz"]) == 5
    [line] = capsys.readouterr().err.splitlines()
    assert "below the bound 60,755,085,001 ns on record" in line


def test_the_checksums_and_types_are_todays(root: Path) -> None:
    """`python instances/build.py table --write`."""
    library = root / "instances"
    assert (library / "SHA256SUMS").read_text() == sums(library)
    page = (library / "README.md").read_text()
    shown = page.split("<!-- types: begin -->\n")[1].split("<!-- types: end -->")[0]
    assert shown == build_script(root).types_table(library)


def test_tables_have_every_instance(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line each, open ones first; the page of open instances has just those."""
    unsolved = 0
    for problem in PROBLEMS:
        found = entries_of(root / "instances" / problem)
        command = ["table", problem, "--library", str(root / "instances")]
        assert run_tool([*command, "--markdown"]) == 0
        _, _, *lines = capsys.readouterr().out.splitlines()
        keys = sorted(e.key for e in found)
        assert sorted(line.split("`")[1] for line in lines) == keys
        assert run_tool(command) == 0
        shown = capsys.readouterr().out.splitlines()
        files = [line.split()[0] for line in shown if line.startswith("  ")]
        assert sorted(files) == sorted(key.rpartition("/")[2] for key in keys)
        assert max(map(len, shown)) <= 100, problem
        types = [line.split(" | ")[4] for line in lines]
        assert types == sorted(types, key=["open", "closed", "hard", "medium", "easy"].index)
        unsolved += types.count("open")
        assert "closed" not in types, "python instances/reference.py"
        assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", e.fields["date"]) for e in found)
    assert open_table(root / "instances").count("| open |") == unsolved > 0
