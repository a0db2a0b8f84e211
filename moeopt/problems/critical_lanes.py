"""The critical path on the lanes of a problem's view."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from moeopt.core.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.core.view import Bar, Lane
from moeopt.problems.event_graph import graph_of, on_critical_path
from moeopt.problems.execute import execute
from moeopt.problems.registry import get_problem

if TYPE_CHECKING:
    import networkx as nx

Span = tuple[int, int]
"""From when until when, in ns."""


@dataclass(frozen=True)
class Drawn:
    """A schedule to draw: its lanes, and in words where its critical path lies."""

    lanes: tuple[Lane, ...]
    caption: str


def critical_lanes(instance: InstanceEnvelope, solution: SolutionEnvelope) -> Drawn | None:
    """Return a valid solution's lanes with the bars marked that have no slack.

    Where bars are sums over many steps none is marked, and only the caption says how much of the
    critical path each device has. None if solutions of the problem are not schedules.
    """
    problem = get_problem(instance.problem)
    if problem.lanes is None:
        return None
    lanes = tuple(problem.lanes(instance, solution))
    graph = graph_of(instance, execute(instance, solution))
    caption = f"critical path: {_shares(graph)}"
    if problem.lanes_are_sums:
        return Drawn(lanes, f"{caption}; bars are sums over all steps")
    without_slack, begins = _spans(graph)
    marked = []
    for lane in lanes:
        found = re.fullmatch(r"scenario (\d+): (.*)", lane.device)
        window, device = (int(found[1]), found[2]) if found else (None, lane.device)
        spans = without_slack.get((window, device), [])
        bars = tuple(_marked(bar, begins.get(window, 0), spans) for bar in lane.bars)
        marked.append(Lane(lane.device, bars))
    return Drawn(tuple(marked), caption)


def _spans(
    graph: "nx.DiGraph",
) -> tuple[dict[tuple[int | None, str], list[Span]], dict[int | None, int]]:
    """Return when tasks without slack run, by window and device, and when each window begins."""
    spans: dict[tuple[int | None, str], list[Span]] = {}
    begins: dict[int | None, int] = {None: 0}
    for _, task in graph.nodes(data=True):
        window = task.get("window")
        if window is not None:
            begins[window] = min(begins.get(window, task["start_ns"]), task["start_ns"])
        if "device" in task and not task["slack_ns"] and task["duration_ns"]:
            span = task["start_ns"], task["end_ns"]
            spans.setdefault((window, task["device"]), []).append(span)
    return spans, begins


def _marked(bar: Bar, begin_ns: int, spans: Sequence[Span]) -> Bar:
    """Return a bar, marked if a task without slack runs within it."""
    start, end = bar.start_ns + begin_ns, bar.end_ns + begin_ns
    return replace(bar, critical=any(a < end and start < b for a, b in spans))


def _shares(graph: "nx.DiGraph") -> str:
    """Return the devices on the critical path with their shares, the largest first."""
    on = on_critical_path(graph, "device")
    whole = sum(on.values())
    shares = [
        f"{name} {100 * part / whole:.0f} %" if 200 * part >= whole else f"{name} below 1 %"
        for name, part in on.items()
    ]
    return ", ".join(shares) or "nothing takes time"
