"""`moeopt gantt`: schedules below each other on one time axis, as text and as pictures."""

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import moeopt
from moeopt.cli.main import run
from moeopt.cli.options import in_ms
from tests.problems.tri_domain.random_instances import random_instance
from tests.refusals import refused_command

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
    monkeypatch.setitem(sys.modules, "moeopt.study.pictures", None)
    assert run(["gantt", *files, "--out", str(tmp_path / "a.svg")]) == 2
    assert "pictures need matplotlib, the extra 'report'" in capsys.readouterr().err
