"""`moeopt gantt`: schedules below each other on one time axis, as text and as pictures."""

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import moeopt
from tests.problems.tri_domain.random_instances import random_instance
from tests.refusals import refused_command
from tests.rooms.cli import draw, in_ms, run
from tests.rooms.core import Bar, Lane
from tests.rooms.problems import pictures
from tests.rooms.tri_domain import facts, lanes, loads, trimoe

INSTANCE = random_instance(5)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Return the paths of an instance, of a heuristic's and of an optimal solution."""
    moeopt.save(INSTANCE, tmp_path / "x.json")
    paths = [str(tmp_path / "x.json")]
    for method in ("greedy", "cp-sat"):
        moeopt.save(moeopt.solve(INSTANCE, method).solution, tmp_path / f"{method}.json")
        paths.append(str(tmp_path / f"{method}.json"))
    return paths


def test_text_charts_share_the_axis(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The longer schedule fills the line, the shorter one does not."""
    assert run(["gantt", *files]) == 0
    longer, shorter = capsys.readouterr().out.split("\n\n")
    costs = [moeopt.solve(INSTANCE, method).objective for method in ("greedy", "cp-sat")]
    assert longer.startswith(f"greedy.json: {in_ms('tri_domain', costs[0])}\n")
    assert shorter.startswith(f"cp-sat.json: {in_ms('tri_domain', costs[1])}\n")
    reach = [
        max(len(line[:-9].rstrip()) for line in chart.splitlines()[1:-2])
        for chart in (longer, shorter)
    ]
    assert reach[0] > reach[1]


def test_a_picture_has_every_device_and_both_titles(files: list[str], tmp_path: Path) -> None:
    """As text in the SVG, which is the same byte for byte each time."""
    pictures = [tmp_path / "a.svg", tmp_path / "b.svg"]
    for picture in pictures:
        assert run(["gantt", *files, "--out", str(picture)]) == 0
    assert pictures[0].read_bytes() == pictures[1].read_bytes()
    root = ElementTree.fromstring(pictures[0].read_text())
    words = [
        "".join(element.itertext()).strip()
        for element in root.iter()
        if element.tag.endswith("}text")
    ]
    assert words.count("GPU") == 2
    assert words.count(f"DIMM {INSTANCE.dimms - 1}") == 2
    assert sum(word.startswith(("greedy.json", "cp-sat.json")) for word in words) == 2


def test_a_png_is_one(files: list[str], tmp_path: Path) -> None:
    """By its suffix."""
    assert run(["gantt", *files, "--out", str(tmp_path / "a.png")]) == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_names_are_text(tmp_path: Path) -> None:
    """A file name with markup or mathematics in it is drawn as it is."""
    moeopt.save(INSTANCE, tmp_path / "x.json")
    name = "$x^2$<b>&.json"
    moeopt.save(moeopt.solve(INSTANCE, "greedy").solution, tmp_path / name)
    out = tmp_path / "a.svg"
    assert run(["gantt", str(tmp_path / "x.json"), str(tmp_path / name), "--out", str(out)]) == 0
    assert any(
        name in "".join(element.itertext())
        for element in ElementTree.fromstring(out.read_text()).iter()
    )


def test_errors_are_one_line(
    files: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A suffix that is no picture, a folder that is not there, an invalid solution, no library."""
    invalid = tmp_path / "invalid.json"
    invalid.write_text(Path(files[1]).read_text().replace('"gpu"', "null").replace('"cpu"', "null"))
    cases = [
        (files, "a.gif", "a.gif: the suffix must be one of .svg, .png, .pdf"),
        (files, "none/a.svg", "none/a.svg: No such file or directory"),
        ([files[0], str(invalid)], "a.svg", "invalid.json: TD-C1: "),
    ]
    for paths, out, message in cases:
        assert message in refused_command(capsys, ["gantt", *paths, "--out", str(tmp_path / out)])
    monkeypatch.setitem(sys.modules, pictures.__name__, None)
    assert run(["gantt", *files, "--out", str(tmp_path / "a.svg")]) == 2
    assert "pictures need matplotlib (pip install matplotlib)" in capsys.readouterr().err


def test_bars_are_drawn_to_scale() -> None:
    """Half the time is half the width, labels stand where they fit."""
    gpu = Lane("GPU", (Bar(0, 500, "7", "work"), Bar(500, 1000, "12", "work")))
    dimm = Lane("DIMM 0", (Bar(0, 250, "7", "read"),))
    rows = draw([gpu, dimm, Lane("CPU", ())], width=38).splitlines()
    assert rows[0] == "   GPU |7========|12=======" + "0.001".rjust(9)
    assert rows[1] == "DIMM 0 :::::" + "0.000".rjust(15 + 9)
    assert rows[2] == "   CPU " + "0.000".rjust(20 + 9)


def test_lanes_are_as_long_as_the_checker_says() -> None:
    """Every device's lane ends at its load, and its bars follow one another without gaps."""
    for seed in range(30):
        instance = random_instance(seed)
        solution = trimoe(instance)
        load = loads(instance, solution)
        shown = lanes(instance, solution)
        assert [lane.end_ns for lane in shown] == [load.gpu_ns, load.cpu_ns, *load.dimm_ns]
        for lane in shown:
            starts = [bar.start_ns for bar in lane.bars]
            assert starts == [0, *(bar.end_ns for bar in lane.bars[:-1])][: len(starts)]


def test_facts_name_the_bottleneck() -> None:
    """The device that ends last, and how many end with it."""
    for seed in range(30):
        instance = random_instance(seed)
        solution = trimoe(instance)
        load = loads(instance, solution)
        found = facts(instance, solution)
        busy = {"gpu": load.gpu_ns, "cpu": load.cpu_ns, "dimm": max(load.dimm_ns)}
        assert busy[str(found["bottleneck"])] == load.makespan_ns
        every = [load.gpu_ns, load.cpu_ns, *load.dimm_ns]
        assert found["devices_at_makespan"] == every.count(max(every))
