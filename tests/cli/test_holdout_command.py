"""``moeopt holdout`` and ``moeopt generate --later-out``: both files, the tables, and refusals."""

import json
from pathlib import Path

import pytest

import moeopt
from tests.refusals import refused_command
from tests.rooms.cli import run

Capture = pytest.CaptureFixture[str]

MADE = [
    *("--machine", "rtx4090-7960x", "--model", "deepseek-v2-lite", "--workload", "trimoe-skew"),
    *("--layers", "2", "--tokens", "12", "--slots", "20"),
]
MIGRATIONS = [
    *("generate", "relayout", "--machine", "trimoe", "--model", "deepseek-v2-lite"),
    *("--workload", "trimoe-skew", "--batch", "16"),
]
QUICK = ["--reference-limit", "5"]


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the files of a pair in the current folder."""
    monkeypatch.chdir(tmp_path)
    files = ["observed.json", "later.json"]
    made = ["generate", "cache", *MADE, "--later", "5", "--out", files[0], "--later-out", files[1]]
    assert run(made) == 0
    return files


def test_a_pair_is_made_and_compared(pair: list[str], capsys: Capture) -> None:
    """The references and a row per method, with a user's rule among them."""
    Path("mine.py").write_text("def even(instance):\n    return [10, 10]\n")
    command = ["holdout", *pair, "--with", "mine.py:even", *QUICK]
    assert run(command) == 0
    text = capsys.readouterr().out
    assert "best single decision in hindsight: " in text
    assert "test batches' own optima, 1 together: " in text
    assert run([*command, "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0]["kind"] == "references"
    assert lines[0]["hindsight"]["proven"]
    methods = [line["method"] for line in lines[1:]]
    assert methods[:2] == ["best-uniform", "dp"]
    assert methods[-1] == "mine.py:even"
    assert all(line["later"] >= lines[0]["hindsight"]["bound"] for line in lines[1:])
    observed, later = (moeopt.load(path) for path in pair)
    assert (len(observed.accesses), len(later.accesses)) == (12, 5)
    best = moeopt.solve(observed, "dp").solution
    assert lines[2]["later"] == [moeopt.run_on(later, best)]


def test_phases_have_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Predicted and actual loads: one of each."""
    monkeypatch.chdir(tmp_path)
    assert run([*MIGRATIONS, "--out", "p.json", "--later-out", "a.json"]) == 0
    loads = [moeopt.load(f"{one}.json").provenance["options"]["loads"] for one in "pa"]
    assert loads == ["predicted", "actual"]


def test_a_gap_study_has_the_same_table(pair: list[str], capsys: Capture) -> None:
    """With --held-out: both references, and the shares; in Markdown without borders."""
    made = ["generate", "cache", *MADE, "--later-out", "next.json", "--out", "first.json"]
    assert run(made) == 0
    command = ["gap", "first.json", "next.json", "--methods", "best-uniform", "--held-out"]
    command += ["--store", "kept.db", "--resume"]
    assert run([*command, "--markdown"]) == 0
    text = capsys.readouterr().out
    assert "\ncache: on test loads, excess over their own optima\n" in text
    assert "| next | - | one decision in hindsight | - | 0.0 % | - | 0.0 % | - | 1 | 1 |" in text
    assert "| next | - | best-uniform | " in text
    assert run(command) == 0
    assert "one decision in hindsight" in capsys.readouterr().out
    assert run(["gap", pair[1], "--methods", "best-uniform", "--held-out"]) == 0
    assert "no train instance has its test instance" in capsys.readouterr().out


def test_later_files_that_are_none(pair: list[str], capsys: Capture) -> None:
    """Each in one line that says why."""
    observed, later = pair
    assert "overlap the observed 0 to 11" in refused_command(
        capsys, ["holdout", observed, observed]
    )
    assert "its loads overlap those of" in refused_command(
        capsys, ["holdout", observed, later, later]
    )
    assert "its tokens 0 to 11 come before" in refused_command(capsys, ["holdout", later, observed])
    data = json.loads(Path(later).read_text())
    for name, change, reason in (
        ("model", {"model": "mixtral-8x7b"}, "provenance.model"),
        ("machine", {"machine": "a\nb"}, "provenance.machine"),
        ("twice", {"contaminated": "the trace reads its text twice"}, "contaminated"),
        ("deep", {"options": {"first_token": [[[]]]}}, "does not say in its provenance where"),
        ("list", {"options": [1]}, "no provenance that says where"),
    ):
        stated = data | {"provenance": data["provenance"] | change}
        Path(f"{name}.json").write_text(json.dumps(stated))
        assert reason in refused_command(capsys, ["holdout", observed, f"{name}.json"])
    Path("none.json").write_text(json.dumps(data | {"provenance": None}))
    assert "has no provenance" in refused_command(capsys, ["holdout", observed, "none.json"])
    assert run(["holdout", observed, "none.json", "--unchecked", *QUICK]) == 0
    Path("broken.json").write_text("{")
    assert "broken.json" in refused_command(capsys, ["holdout", observed, "broken.json"])


def test_options_that_cannot_be_used(pair: list[str], capsys: Capture) -> None:
    """Before anything is solved."""
    for options, reason in (
        (["--schedule", "mine"], "--schedule: must be exact, trimoe, both"),
        (["--methods", "dream"], "'dream' is unknown for cache"),
        (["--with", "nowhere.py:rule"], "there is no file nowhere.py"),
        (["--sample-rule", "dream"], "'dream' is unknown for cache"),
        (["--time-limit", "-1"], "must be a positive number of seconds"),
    ):
        assert reason in refused_command(capsys, ["holdout", *pair, *options])
    assert "LATER: is missing" in refused_command(capsys, ["holdout", pair[0]])


def test_pairs_that_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """A count without a file, no count at all, and counts, which have no order."""
    monkeypatch.chdir(tmp_path)
    without = refused_command(capsys, ["generate", "cache", *MADE, "--later", "5"])
    assert "--later: needs --later-out" in without
    none = ["generate", "cache", *MADE[:-4], "--later-out", "l.json"]
    assert "tokens: must say how many loads are observed" in refused_command(capsys, none)
    actual = [*MIGRATIONS, "--loads", "actual", "--later-out", "l.json"]
    assert "--loads: cannot be combined with --later-out" in refused_command(capsys, actual)
    assert not list(tmp_path.iterdir())


def test_nothing_decided_is_no_success(pair: list[str], capsys: Capture) -> None:
    """A rule that fails stands beside the sample rule; a smaller GPU takes neither's decision."""
    data = json.loads(Path(pair[1]).read_text())
    Path("small.json").write_text(json.dumps(data | {"slots": 0}))
    assert run(["holdout", pair[0], "small.json", "--methods", "best-uniform", *QUICK]) == 2
    assert "does not fit the later loads: CA-C2" in capsys.readouterr().out
