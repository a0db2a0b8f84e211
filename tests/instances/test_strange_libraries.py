"""Libraries and what is handed in come from strangers: what they hold is a line, and no path."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import moeopt
from instances.tools.commands import run
from tests.problems.tri_domain.random_instances import random_instance
from tests.refusals import refused_command
from tests.rooms.core import digest
from tests.rooms.study import BEST, INDEX

KEY = "family/a.json"

Capture = pytest.CaptureFixture[str]

Change = Callable[[dict[str, Any]], Any]

refused = partial(refused_command, run=run)


def library(folder: Path, key: str = KEY) -> Path:
    """Return a library of one instance; the solution to hand in is better than the known one."""
    place = folder / "library" / "tri_domain"
    file = place / key
    file.parent.mkdir(parents=True)
    instance = random_instance(1, experts=5).model_copy(update={"name": "a"})
    moeopt.save(instance, file)
    moeopt.save(moeopt.solve(instance, "greedy").solution, folder / "s.json")
    claim = {"objective": 2**40, "bound": None, "status": "feasible", "method": "cp-sat"}
    moeopt.save({key: claim | {"solution": f"solutions/{key}"}}, place / BEST)
    moeopt.save({key: {"sha256": digest(file, 2**20)}}, place / INDEX)
    return folder / "library"


def changed(file: Path, change: Change) -> None:
    """Change the only entry of an index."""
    entry = json.loads(file.read_text())[KEY]
    moeopt.save({KEY: change(entry)}, file)


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        (BEST, lambda _: [], "must be an object"),
        (BEST, lambda _: {}, "objective: is missing"),
        (BEST, lambda e: e | {"objective": "x"}, "must be an integer"),
        (BEST, lambda e: e | {"objective": [1, 2]}, "must be makespan_ns"),
        (BEST, lambda e: e | {"objective": [1, 2], "bound": [3, 4]}, "must be makespan_ns"),
        (BEST, lambda e: e | {"bound": [1, 2]}, "(1, 2): must be makespan_ns"),
        (BEST, lambda e: e | {"certificate": 7}, "certificate: must be a string"),
        (BEST, lambda e: e | {"method": "`|`\n"}, "method: must have no control characters"),
        (INDEX, lambda _: [], "must be an object"),
        (INDEX, lambda _: {"sha256": 7}, "sha256: must be a string"),
        ("reference.json", lambda _: {"cp-sat": "x"}, "cp-sat"),
    ],
)
def test_indexes_of_another_form_are_a_line(
    name: str, change: Change, reason: str, tmp_path: Path, capsys: Capture
) -> None:
    """Whatever stands where numbers and names should, for every command that reads them."""
    place = library(tmp_path)
    file = place / "tri_domain" / name
    entry = json.loads(file.read_text())[KEY] if file.exists() else {}
    moeopt.save({KEY: change(entry | ({"bound": 1} if name == BEST else {}))}, file)
    for words in (["table"], ["check", str(tmp_path / "s.json")], *[["verify"]] * (name == BEST)):
        assert reason in refused(capsys, [*words, "--library", str(place)])


@pytest.mark.parametrize("key", ["../../out/a.json", "family/../../../out/a.json"])
def test_no_key_leads_out_of_the_library(key: str, tmp_path: Path, capsys: Capture) -> None:
    """A better solution would be written where the key says."""
    (tmp_path / "library" / "tri_domain" / "solutions").mkdir(parents=True)
    (tmp_path / "library" / "out").mkdir()
    place = library(tmp_path, key)
    before = sorted(tmp_path.rglob("*"))
    command = ["check", "--write", "--library", str(place), str(tmp_path / "s.json")]
    assert "must be a file below" in refused(capsys, command)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_better_solution_is_entered_below_the_library(tmp_path: Path) -> None:
    """So that the test before can fail for its reason only."""
    place = library(tmp_path)
    (place / "tri_domain/solutions/family").mkdir(parents=True)
    command = ["check", "--write", "--library", str(place), str(tmp_path / "s.json")]
    assert run(command) == 0
    assert (place / "tri_domain/solutions" / KEY).is_file()


def test_an_instance_with_a_hole_is_a_line(tmp_path: Path, capsys: Capture) -> None:
    """Its sum would be that of thirty GiB of zeros, held in memory."""
    place = library(tmp_path)
    with (place / "tri_domain" / KEY).open("wb") as stream:
        stream.truncate(30 * 2**30)
    command = ["check", "--library", str(place), str(tmp_path / "s.json")]
    assert "larger than 64 MiB" in refused(capsys, command)


def test_long_names_are_cut(tmp_path: Path, capsys: Capture) -> None:
    """A certificate's names may be as long as the file."""
    place = library(tmp_path)
    names = {"instance": "a" * 10**5, "problem": "b" * 10**5}
    moeopt.save({"format": "moeopt-certificate", "version": 2} | names, tmp_path / "c.json")
    command = ["verify", "--library", str(place), str(tmp_path / "c.json")]
    said = refused(capsys, command)
    assert len(said) < 500
