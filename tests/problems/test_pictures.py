"""Schedules and fronts as pictures: what is marked, what is labelled, in which order."""

from itertools import combinations
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.text import Text

import moeopt
from tests.problems.every_problem import RANDOM, decisions
from tests.problems.layout.layout_random_instances import random_instance
from tests.rooms.cli import in_ms
from tests.rooms.core import Bar, Lane, longest_first
from tests.rooms.problems import (
    CRITICAL,
    PROBLEMS,
    Panel,
    critical_lanes,
    draw_front,
    draw_gantt,
    get_problem,
)


def drawn(figure: Any) -> list[Any]:
    """Return the texts in the axes of a figure that show something."""
    FigureCanvasAgg(figure).draw()
    return [text for axis in figure.axes for text in axis.texts if text.get_visible()]


def boxes_overlap(figure: Any, texts: list[Any]) -> bool:
    """Tell whether two texts cover each other."""
    renderer = figure.canvas.get_renderer()
    boxes = [Text.get_window_extent(text, renderer) for text in texts]  # without the thin line
    return any(a.overlaps(b) for a, b in combinations(boxes, 2))


def test_equal_experts_are_in_order_of_their_numbers() -> None:
    """Not 1, 10, 11, 2; the longest first, and what has no number before."""
    pieces = [(5, str(number), "work") for number in (10, 2, 11, 1)]
    lane = longest_first("GPU", [*pieces, (9, "30", "work"), (5, "base", "work")])  # type: ignore[list-item]
    assert [bar.label for bar in lane.bars] == ["30", "base", "1", "2", "10", "11"]


def test_labels_that_do_not_fit_are_left_out() -> None:
    """No two overlap, and each lies within its bar; wide bars keep theirs."""
    bars = []
    for number in range(40):
        start = bars[-1].end_ns if bars else 0
        bars.append(Bar(start, start + 10_000 * (1 + number % 5), str(100 + number), "work"))
    figure = draw_gantt([Panel("a", [Lane("DIMM 10", tuple(bars))])])
    texts = drawn(figure)
    assert 0 < len(texts) < len(bars)
    assert not boxes_overlap(figure, texts)
    scale = figure.axes[0].transData
    span_of = {bar.label: (bar.start_ns * 1e-6, bar.end_ns * 1e-6) for bar in bars}
    for text in texts:
        box = text.get_window_extent(figure.canvas.get_renderer())
        left, right = (scale.transform((at, 0))[0] for at in span_of[text.get_text()])
        assert left <= box.x0
        assert box.x1 <= right


def test_the_critical_path_is_drawn_and_named() -> None:
    """A strip under each bar without slack, and a legend; nothing where there is none."""
    lane = Lane("GPU", (Bar(0, 5, "1", "work", critical=True), Bar(5, 9, "2", "work")))
    for lanes, strips in (([lane], 1), ([Lane("GPU", (Bar(0, 5, "1", "work"),))], 0)):
        figure = draw_gantt([Panel("a", lanes)])
        found = [
            path
            for part in figure.axes[0].collections
            if [to_hex(colour) for colour in part.get_facecolor()] == [CRITICAL]
            for path in part.get_paths()
        ]
        assert len(found) == strips
        words = [text.get_text() for text in figure.legends[0].get_texts()]
        assert ("no slack" in words) == bool(strips)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_bars_are_marked_where_there_is_no_slack(problem: str) -> None:
    """Without idling in between somewhere from 0 to the end, unless bars are sums."""
    check = get_problem(problem)
    for seed in range(4):
        instance = RANDOM[problem][0](seed)
        for solution in decisions(problem, instance, seed):
            if check.violations(instance, solution):
                continue
            found = critical_lanes(instance, solution)
            if not check.has("lanes"):
                assert found is None
                continue
            assert found is not None
            assert found.caption.startswith("critical path: ")
            marked = [bar for lane in found.lanes for bar in lane.bars if bar.critical]
            bare = [
                Lane(lane.device, tuple(Bar(*bar) for bar in bars(lane))) for lane in found.lanes
            ]
            assert bare == [
                Lane(of.device, tuple(of.bars)) for of in check.lanes(instance, solution)
            ]
            if get_problem(problem).lanes_are_sums:
                assert not marked
                assert found.caption.endswith("; bars are sums over all steps")
            elif problem in ("tri_domain", "relayout"):
                last = max(lane.end_ns for lane in found.lanes)
                whole = {lane.device for lane in found.lanes if lane.end_ns == last}
                assert last == 0 or whole == {
                    lane.device for lane in found.lanes if any(bar.critical for bar in lane.bars)
                }
                assert all(
                    bar.critical
                    for lane in found.lanes
                    for bar in lane.bars
                    if lane.device in whole
                )
            elif check.objective(instance, solution) not in (0, (0, 0)):
                assert marked


def bars(lane: Lane) -> list[tuple[Any, ...]]:
    """Return what the bars are but for their marks."""
    return [(bar.start_ns, bar.end_ns, bar.label, bar.kind) for bar in lane.bars]


def test_windows_are_marked_each_on_its_own() -> None:
    """In each scenario of a layout the busiest devices, whole."""
    instance = random_instance(5, "several scenarios")
    (solution,) = decisions("layout", instance, 5)
    found = critical_lanes(instance, solution)
    assert found is not None
    loads = get_problem("layout").module("check").loads(instance, solution)
    for number, load in enumerate(loads):
        mine = [lane for lane in found.lanes if lane.device.startswith(f"scenario {number}: ")]
        for lane in mine:
            critical = lane.end_ns == load.makespan_ns > 0
            assert all(bar.critical == critical for bar in lane.bars), lane.device


def test_heuristics_in_one_place_are_told_apart() -> None:
    """Markers of different shapes, sizes and colours, and a label each, none over another."""
    points = [(10_000_000 + k, 9 - k) for k in range(9)]
    names = {"none": (10_000_008, 1), "uniform-d": (10_000_000, 9), "saturate": (10_000_000, 9)}
    figure = draw_front("f", ("makespan_ns", "total_penalty"), points, names)
    texts = drawn(figure)
    assert [text.get_text() for text in texts] == list(names)
    assert not boxes_overlap(figure, texts)
    lines = figure.axes[0].lines[1:]
    looks = [(line.get_marker(), line.get_color()) for line in lines]
    assert len(set(looks)) == len(looks) == 3
    assert lines[1].get_markersize() != lines[2].get_markersize()
    assert [text.get_color() for text in texts] == [line.get_color() for line in lines]


def test_titles_are_in_the_axis_unit() -> None:
    """All digits, in ms; what is no time as it is."""
    assert in_ms("tri_domain", 2_748_416) == "2.748416 ms"
    assert in_ms("tri_domain", 1_005_000_000) == "1,005 ms"
    assert in_ms("deferral", (12_020_000, 7)) == "12.02 ms, total penalty 7"
    assert moeopt.deferral.OBJECTIVE == ("makespan_ns", "total_penalty")
