"""``moeopt gap`` with campaigns, stores, jobs and exports: what is printed, and exit codes."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

import moeopt
from tests.problems.tri_domain.random_instances import random_instance
from tests.refusals import refused_command
from tests.rooms.cli import run

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a campaign file in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "family").mkdir()
    for seed in (0, 1):
        moeopt.save(random_instance(seed), tmp_path / "family" / f"{seed}.json")
    asked = {"campaign": "small", "instances": ["family"], "methods": ["greedy", "brute-force"]}
    (tmp_path / "small.json").write_text(json.dumps(asked))
    return "small.json"


def test_a_campaign_is_resumed(campaign: str, capsys: Capture) -> None:
    """Of a pool: the second time everything is in the store, and the same table is printed."""
    command = ["gap", campaign, "--store", "s.db", "--jobs", "2", "--markdown"]
    assert run(command) == 0
    first = capsys.readouterr()
    assert first.err == ""
    assert run(command) == 2
    assert "holds 4 of these 4 solves already; --resume" in capsys.readouterr().err
    assert run([*command, "--resume"]) == 0
    again = capsys.readouterr()
    assert again.out == first.out
    assert again.err == "moeopt: 4 of 4 solves were in the store\n"


def test_a_store_alone_gives_tables_and_exports(campaign: str, capsys: Capture) -> None:
    """Without paths nothing is solved."""
    assert run(["gap", campaign, "--store", "s.db", "--markdown"]) == 0
    before = capsys.readouterr().out
    files = ["--csv", "a.csv", "--parquet", "a.parquet", "--report", "r"]
    assert run(["gap", "--store", "s.db", "--markdown", *files]) == 0
    assert capsys.readouterr().out == before
    assert len(Path("a.csv").read_text().splitlines()) == 1 + 4
    assert len(Path("r/gap.csv").read_text().splitlines()) == 1 + 4
    assert Path("a.parquet").read_bytes()[:4] == b"PAR1"
    assert run(["gap", "--store", "s.db", "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["method"] for one in found] == [row["method"] for row in rows_of(Path("a.csv"))]
    assert run(["report", "s.db", "--out", "again", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["solves"] == 4
    assert {Path(file).name for file in said["files"]} >= {"gap.csv"}


def rows_of(file: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV."""
    with file.open() as stream:
        return list(csv.DictReader(stream))


def test_options_say_what_a_file_would(campaign: str, capsys: Capture) -> None:
    """Several seeds and limits, separated by commas."""
    options = ["--methods", "heuristics,threshold", "--seed", "0,1", "--time-limit", "5,60"]
    assert run(["gap", "family/0.json", *options, "--csv", "a.csv", "--instances"]) == 0
    text = capsys.readouterr().out
    assert "threshold 5 s" in text
    assert "median of 2 seeds" in text
    assert len(Path("a.csv").read_text().splitlines()) == 1 + 4 * 9


def test_a_failed_solve_does_not_end_the_campaign(campaign: str, capsys: Capture) -> None:
    """Its line on stderr, the others' rows, the exit code of the failure."""
    moeopt.save(random_instance(0, experts=40), Path("family/big.json"))
    assert run(["gap", "family", "--methods", "brute-force", "--markdown"]) == 2
    captured = capsys.readouterr()
    row = captured.out.splitlines()[2]
    assert row.startswith(
        "| family | `brute-force` |  | 3, 2 proven | 2 | 0 % | - | 0 % | 100 % | 1 | "
    )
    line, last = captured.err.splitlines()
    assert line.startswith("moeopt: error: ")
    assert "method brute-force: brute-force: " in line
    assert last == "moeopt: 1 of 3 solves failed: brute-force"


def test_too_many_jobs_are_warned_of(
    campaign: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line, and the campaign is run."""
    from tests.rooms.study import pool

    monkeypatch.setattr(pool, "available_cores", lambda: 1)
    assert run(["gap", "family", "--methods", "threshold", "--workers", "2", "--markdown"]) == 0
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("moeopt: warning: 1 job with 2 workers each need 2 cores, there are 1")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gap"], "PATHS: is missing"),
        (
            ["gap", "small.json", "family"],
            "small.json: a campaign cannot be combined with other",
        ),
        (["gap", "small.json", "--seed", "1"], "--seed: small.json: the campaign decides that"),
        (["gap", "small.json", "--time-limit", "1"], "--time-limit: small.json: the campaign"),
        (["gap", "nowhere.toml"], "nowhere.toml: cannot be read: No such file"),
        (["gap", "--store", "nowhere.db"], "nowhere.db: cannot be read: there is no such store"),
        (["gap", "--store", "small.json"], "small.json: not a store of moeopt"),
        (["gap", "--store", "s.db", "--jobs", "2"], "--jobs: without paths the store decides"),
        (["gap", "family", "--store", "family"], "family: the store cannot be used: unable to"),
        (["gap", "family", "--seed", "-1"], "seeds[0]: must be at least 0"),
        (["gap", "family", "--time-limit", "0"], "time_limits_s[0]: "),
        (["gap", "family", "--time-limit", "nan"], "time_limits_s[0]: "),
    ],
)
def test_wrong_use_is_one_line(
    campaign: str, arguments: list[str], words: str, capsys: Capture
) -> None:
    """Exit 2, one line on stderr, nothing on stdout."""
    assert words in refused_command(capsys, arguments)


def test_progress_on_a_terminal(campaign: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts, rate, time left, and what is running with its incumbent; markup in names is text."""
    from rich.console import Console

    from tests.rooms.cli import Shown
    from tests.rooms.study import attempt, make_plan, read_campaign

    console = Console(force_terminal=True, width=200, record=True)
    shown = Shown(console)
    first, second = list(make_plan(read_campaign(Path(campaign))).jobs())[:2]
    named = first.instance.model_copy(update={"name": "[red]name"})
    job = replace(first, instance=named)
    shown.planned(10, 3)
    shown.started(job)
    shown.started(second)
    shown.improved(job, 0.1, 5000, None)
    shown.solved(second, attempt(second))
    with console.capture() as capture:
        console.print(shown.view)
    text = capture.get()
    assert "1/7" in text
    assert "solves/s" in text
    assert "left" in text
    assert "[red]name" in text
    assert "incumbent 5,000 ns, bound -" in text
    assert second.method not in text
