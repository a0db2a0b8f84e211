"""The fronts of a plan: their ends, what is on them, text, picture and command."""

import json
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import moeopt
from moeopt import InputError
from tests.planner.small_plans import MODEL, machine_of, planned_for, request, trace_of
from tests.refusals import refused_command
from tests.rooms.cli import run, save_fronts
from tests.rooms.planner import Front, Planned, Point, _by_width, _front, fronts, table

POINTS = 3


@cache
def planned() -> Planned:
    """Return a plan of few steps."""
    return planned_for(steps=6, trace=trace_of(MODEL, 20))


@cache
def small_fronts() -> tuple[Front, Front]:
    """Return the fronts of the plan."""
    return fronts(planned(), POINTS)


@pytest.mark.slow
def test_against_loss() -> None:
    """From 16 bits to 2; fewer bits lose more, never run slower here, and nothing else changes."""
    front = small_fronts()[0]
    assert [point.average_bits for point in front.points] == [16, 5.75, 2]
    losses = [point.planned.losses for point in front.points]
    assert all(lost is not None for lost in losses)
    assert [lost.expected for lost in losses if lost] == [point.cost for point in front.points]
    assert [*map(front.holds, front.points)] == [True] * 3
    rates = [point.decided_on for point in front.points]
    assert rates == sorted(rates)
    dense = {point.planned.memory["dense"] for point in front.points}
    assert dense == {planned().memory["dense"]}


@pytest.mark.slow  # both fronts are in the command's test
def test_against_memory() -> None:
    """From a GPU with room for no expert to one that holds all; what else is there stays."""
    front = small_fronts()[1]
    rooms = [point.planned.memory["experts"] // MODEL.expert_bytes for point in front.points]
    assert rooms == [0, 32, 64]
    assert [point.cost for point in front.points] == [
        point.planned.memory["total"] for point in front.points
    ]
    rates = [point.decided_on for point in front.points]
    assert rates == sorted(rates)
    assert not any(front.points[0].planned.chosen.plan.resident or ())


def point(cost: float, rate: float) -> Point:
    """Return a point of which only two numbers count."""
    kept = SimpleNamespace(tokens_per_s=rate)
    plan: Any = SimpleNamespace(comparisons=[SimpleNamespace(kept=kept)])
    return Point(cost, 4.0, plan)


def test_what_is_on_a_front() -> None:
    """Dearer and slower, or dearer and as fast, is off it; equal points both stay."""
    points = [point(1, 5), point(1, 5), point(2, 5), point(2, 6), point(3, 4), point(4, 6)]
    front = Front("loss", tuple(points), ())
    assert [front.holds(one) for one in points] == [True, True, False, True, False, False]


def test_what_does_not_fit_is_said() -> None:
    """16 bits of experts are too much for the host; 2 are not."""
    asked = request(
        machine=machine_of(3.5, host_gib=1.6), average_bits=2.0, other_bits=16.0, steps=5
    )
    front = _front("loss", _by_width(asked, 2))
    assert [point.average_bits for point in front.points] == [2]
    assert "16 bits: host memory: experts 3,072 MiB" in table(front)


@pytest.mark.slow
def test_text_and_picture(tmp_path: Path) -> None:
    """A line for every point; a picture of a panel for each front, the same bytes each time."""
    found = small_fronts()
    for front in found:
        lines = table(front).splitlines()
        assert len(lines) == 2 + POINTS
        assert [line[0] == "*" for line in lines[2:]] == [*map(front.holds, front.points)]
    pytest.importorskip("matplotlib")
    for name in ("a.svg", "b.svg"):
        save_fronts("small", found, planned().memory["total"], tmp_path / name)
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text()
    for shown in (
        "expected loss",
        "GPU memory in GiB",
        "5.75 bits",
        "this machine",
        "best default",
    ):
        assert shown in text


@pytest.mark.parametrize("points", [1, 65])
def test_how_many_points(points: int) -> None:
    """One line."""
    with pytest.raises(InputError, match=f"points: must be from 2 to 64, not {points}"):
        fronts(planned(), points)


def test_a_front_takes_two_widths() -> None:
    """Experts of 2 bits have nowhere to go."""
    narrow = request(model=MODEL.quantized(2.0))
    with pytest.raises(InputError, match="bits: a front takes two widths at least"):
        next(_by_width(narrow, 2))


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """Return a command for the small model."""
    moeopt.save_trace(trace_of(MODEL, 20), tmp_path / "trace.npz")
    moeopt.save(MODEL, tmp_path / "model.json")
    moeopt.save(machine_of(), tmp_path / "machine.json")
    files = [f"--{name}={tmp_path / name}.json" for name in ("machine", "model")]
    common = ["--steps=4", "--time-limit=600", "--joint-time=0", "--pareto", "--points=2"]
    return ["plan", *files, f"--trace={tmp_path / 'trace.npz'}", *common]


def test_command(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One object, with both fronts beside what the page says; the picture is written."""
    pytest.importorskip("matplotlib")
    picture = tmp_path / "fronts.png"
    assert run([*command, "--json", "--picture", str(picture)]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [front["axis"] for front in data["fronts"]] == ["loss", "memory"]
    assert all(len(front["points"]) == 2 for front in data["fronts"])
    assert picture.stat().st_size > 1000


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--points", "1"], "points: must be from 2 to 64"),
        (["--picture", "fronts.gif"], "--picture: fronts.gif: the suffix must be one of"),
        (["--picture", "/proc/x.svg"], "--picture: /proc/x.svg: "),
    ],
)
def test_refused_before_solving(
    options: list[str],
    reason: str,
    command: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One line and exit code 2."""
    monkeypatch.setattr("moeopt.plan", None)
    assert reason in refused_command(capsys, [*command, *options])
    command.remove("--pareto")
    assert run([*command, "--picture", "fronts.svg"]) == 2
    assert "--picture: needs --pareto" in capsys.readouterr().err
