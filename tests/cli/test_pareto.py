"""`moeopt pareto`: the front as lines, JSON and a picture, and its exit codes."""

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import moeopt
from tests.problems.bitwidth.bitwidth_random_instances import random_instance as bitwidth
from tests.problems.deferral.random_schedules import random_instance
from tests.problems.tri_domain.random_instances import random_instance as tri_domain
from tests.rooms.cli import run
from tests.rooms.problems import pictures

INSTANCE = random_instance(3, layers=4)


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Return the path of an instance whose front has several points."""
    moeopt.save(INSTANCE, tmp_path / "d.json")
    return str(tmp_path / "d.json")


def test_every_line_is_a_valid_point(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """By rising makespan and falling penalty; the first is the lexicographic optimum."""
    assert run(["pareto", file, "--json"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    pairs = [tuple(record["objective"]) for record in records]
    assert len(pairs) > 2
    assert pairs == sorted(pairs)
    assert [p for _, p in pairs] == sorted((p for _, p in pairs), reverse=True)
    assert pairs[0] == moeopt.solve(INSTANCE, "dp").objective
    for pair, record in zip(pairs, records, strict=True):
        solution = type(moeopt.solve(INSTANCE, "dp").solution)(**record["solution"])
        assert moeopt.check(INSTANCE, solution).objective == pair
    assert run(["pareto", file]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{pairs[0][0]:,} ns, total penalty {pairs[0][1]:,}  (+0.000 %)"
    assert len(lines) == len(pairs)


def test_a_tolerance_cuts_the_front(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """At 0 only the optimum is left; up to the second point's excess there are two."""
    assert run(["pareto", file, "--json"]) == 0
    first, second = [
        json.loads(line)["objective"][0] for line in capsys.readouterr().out.splitlines()[:2]
    ]
    assert run(["pareto", file, "--tolerance", "0"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert run(["pareto", file, "--tolerance", str((second - first) / first + 1e-9)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


@pytest.mark.slow
def test_the_picture_has_front_and_heuristics(file: str, tmp_path: Path) -> None:
    """The same SVG each time, with the heuristics' names in its legend."""
    paths = [tmp_path / "a.svg", tmp_path / "b.svg"]
    for path in paths:
        assert run(["pareto", file, "--out", str(path)]) == 0
    first, second = (path.read_text() for path in paths)
    assert first == second
    texts = {text.strip() for text in ElementTree.fromstring(first).itertext()}
    assert {"Pareto front", "none", "uniform-d", "saturate", "makespan in ms"} <= texts
    assert {"total penalty", INSTANCE.name} <= texts
    assert run(["pareto", file, "--out", str(tmp_path / "a.png")]) == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_is_said(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One objective, a wrong suffix, a wrong number, a folder that is not there: exit 2."""
    moeopt.save(tri_domain(0), tmp_path / "t.json")
    moeopt.save(bitwidth(0), tmp_path / "b.json")
    cases = {
        (str(tmp_path / "t.json"),): "tri_domain has no Pareto front",
        (str(tmp_path / "b.json"),): "bitwidth has no Pareto front",
        (file, "--out", "x.txt"): "--out: x.txt: the suffix must be one of .svg, .png, .pdf",
        (file, "--tolerance", "-1"): "--tolerance: must be 0 or more, not -1",
        (file, "--time-limit", "0"): "time limit: must be a positive number",
        (file, "--out", str(tmp_path / "no" / "x.svg")): "No such file",
    }
    for arguments, says in cases.items():
        assert run(["pareto", *arguments]) == 2
        error = capsys.readouterr().err
        assert says in error
        assert error.count("\n") == 1


def test_infeasible_and_too_late(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 3 where not even deferring nothing keeps the limit, 4 where the time is up."""
    changes = {"penalty": (5, 6, 7)[: INSTANCE.max_deferred + 1], "max_total_penalty": 4}
    moeopt.save(INSTANCE.model_copy(update=changes), tmp_path / "d.json")
    assert run(["pareto", str(tmp_path / "d.json")]) == 3
    assert run(["pareto", str(tmp_path / "d.json"), "--time-limit", "1e-9"]) == 4
    assert "no front within the limit" in capsys.readouterr().out


def test_without_matplotlib_the_extra_is_named(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines need no picture library; a picture says what is missing."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, pictures.__name__)
    assert run(["pareto", file]) == 0
    assert run(["pareto", file, "--out", "x.svg"]) == 2
    assert "pictures need matplotlib (pip install matplotlib)" in capsys.readouterr().err
