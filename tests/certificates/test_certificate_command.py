"""``moeopt certificate``: an own instance gets a proof, which any command line checks."""

import json
from pathlib import Path

import pytest

import moeopt
from tests.problems.tri_domain.random_instances import random_instance
from tests.refusals import refused_command
from tests.rooms.certificates import certificate
from tests.rooms.cli import check_module, run
from tests.rooms.core import read_object

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def optimum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Write an instance of one's own and another below the current folder; return its optimum."""
    monkeypatch.chdir(tmp_path)
    instance = random_instance(1, experts=5)
    moeopt.save(instance, "own.json")
    moeopt.save(random_instance(2, experts=5), "other.json")
    found = moeopt.solve(instance).objective
    assert isinstance(found, int)
    return found


def test_an_own_optimum_is_proven(optimum: int, capsys: Capture) -> None:
    """By the package alone, and by the checker's file with the model beside it."""
    assert run(["certificate", "make", "own.json", "--out", "c.json"]) == 0
    assert f"c.json: proves {optimum:,} ns" in capsys.readouterr().out
    assert run(["certificate", "check", "own.json", "c.json"]) == 0
    assert capsys.readouterr().out == f"c.json: nothing costs less than {optimum:,} ns\n"
    assert run(["certificate", "check", "own.json", "c.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bound"] == [optimum]
    assert run(["certificate", "model", "own.json", "--for", "c.json", "--out", "m.json"]) == 0
    assert certificate.main(["m.json", "c.json"]) == 0
    assert f"nothing costs less than {optimum}" in capsys.readouterr().out


def test_what_proves_nothing_is_one_line(optimum: int, capsys: Capture) -> None:
    """A certificate of another instance, a bound that it does not prove, no certificate."""
    assert run(["certificate", "make", "own.json", "--out", "c.json"]) == 0
    words = ["certificate", "check"]
    assert "is about " in refused_command(capsys, [*words, "other.json", "c.json"])
    data = read_object(Path("c.json"))
    moeopt.save(data | {"bound": data["bound"] + 1}, "more.json")
    assert "more.json: " in refused_command(capsys, [*words, "own.json", "more.json"])
    moeopt.save(data | {"form": 7}, "form.json")
    assert "form: must be an object" in refused_command(capsys, [*words, "own.json", "form.json"])
    assert "must be a certificate" in refused_command(capsys, [*words, "own.json", "own.json"])
    words = ["certificate", "make", "own.json", "--out"]
    assert "--nodes" in refused_command(capsys, [*words, "x", "--nodes", "0"])
    assert "no/x: cannot be written" in refused_command(capsys, [*words, "no/x"])


def test_a_bound_above_a_known_solution_is_exit_5(
    optimum: int, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong model or a wrong checker, of which one says that the solution costs less."""
    assert run(["certificate", "make", "own.json", "--out", "c.json"]) == 0
    monkeypatch.setattr(check_module, "best_known", lambda *_: optimum - 1)
    line = refused_command(capsys, ["certificate", "check", "own.json", "c.json"], code=5)
    assert "proves more than the best known solution costs" in line


def test_a_library_is_asked_for_the_objective(
    root: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its best known solution is what the bound is held to; nothing is solved."""
    folder = root / "instances" / "tri_domain"
    key = min(read_object(folder / "best_known.json"), key=lambda k: (folder / k).stat().st_size)
    out = str(tmp_path / "c.json")
    monkeypatch.setattr(moeopt, "solve", None)
    assert run(["certificate", "make", str(folder / key), "--out", out, "--nodes", "1"]) == 0
    assert run(["certificate", "check", str(folder / key), out]) == 0
    assert f"{out}: nothing costs less than" in capsys.readouterr().out
