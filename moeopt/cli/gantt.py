"""``moeopt gantt``: solutions of one instance as schedules on one time axis.

A schedule as text: one line per device, time running to the right.
"""

from collections.abc import Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from moeopt.core.errors import InputError, about
from moeopt.core.view import Bar, Kind, Lane

from .options import Json, Picture, check_picture, command, drawing, in_ms, print_json

if TYPE_CHECKING:
    from moeopt.core.envelope import InstanceEnvelope
    from moeopt.problems.execute import Drawn

FILL: dict[Kind, str] = {"work": "=", "deferred": "~", "transfer": "-", "read": ":"}
CRITICAL = "#"
"""What bars on a critical path are filled with, whatever their kind."""

MEANING: dict[Kind, str] = {
    "work": "work",
    "deferred": "deferred work",
    "transfer": "transfer",
    "read": "a host reads",
}


def draw(lanes: Sequence[Lane], width: int = 80, horizon_ns: int | None = None) -> str:
    """Return the lanes drawn to one scale.

    Computation and transfers start with ``|`` and their label where that fits; bars on a critical
    path are filled with ``#``. The last column is
    when the device's last bar ends, in ms. `horizon_ns` is the time at the right edge, so that
    several charts can share an axis; by default the end of the last bar.
    """
    label_width = max(len(lane.device) for lane in lanes)
    room = max(width - label_width - 12, 10)
    horizon = horizon_ns or max(lane.end_ns for lane in lanes) or 1
    lines = []
    for lane in lanes:
        cells = [" "] * room
        for bar in lane.bars:
            left, right = (round(t * room / horizon) for t in (bar.start_ns, bar.end_ns))
            cells[left:right] = _bar(bar, right - left)
        row = "".join(cells)[:room].ljust(room)
        end = f"{lane.end_ns / 1e6:.3f}"
        lines.append(f"{lane.device:>{label_width}} {row} {end:>8}")
    used = {bar.kind for lane in lanes for bar in lane.bars if not bar.critical}
    legend = "  ".join(f"{FILL[kind]}: {MEANING[kind]}" for kind in FILL if kind in used)
    if any(bar.critical for lane in lanes for bar in lane.bars):
        legend = f"{CRITICAL}: no slack  {legend}"
    lines.append(f"{'':{label_width}} {legend.ljust(room)} {'end ms':>8}")
    return "\n".join(lines)


def _bar(bar: Bar, length: int) -> str:
    fill = CRITICAL if bar.critical else FILL[bar.kind]
    if bar.kind == "read":
        return fill * length
    text = f"|{bar.label}" if length > len(bar.label) + 1 else "|"
    return text.ljust(length, fill)[:length]


@command
def gantt_command(
    instance: Annotated[Path, Parameter(help="Instance file.")],
    solutions: Annotated[list[Path], Parameter(help="Solution files, drawn in this order.")],
    /,
    *,
    out: Picture = None,
    as_json: Json = False,
) -> int:
    """Draw the schedules of solutions below each other, on one time axis, with critical paths."""
    import moeopt

    check_picture("--out", out)
    problem = moeopt.load(instance)
    charts = [_chart(problem, path) for path in solutions]
    horizon_ns = max(lane.end_ns for _, drawn in charts for lane in drawn.lanes)
    if out is not None:
        _save(charts, out)
        return 0
    if as_json:
        for path, (_, drawn) in zip(solutions, charts, strict=True):
            print_json(_record(problem, path, drawn))
        return 0
    for number, (title, drawn) in enumerate(charts):
        if number:
            print()
        print(title)
        print(draw(drawn.lanes, get_terminal_size().columns, horizon_ns))
        print(f"  {drawn.caption}")
    return 0


def _record(problem: "InstanceEnvelope", path: Path, drawn: "Drawn") -> dict[str, object]:
    """Return a schedule for JSON: devices with their bars."""
    devices = [
        {
            "device": lane.device,
            "bars": [
                {
                    "start_ns": bar.start_ns,
                    "end_ns": bar.end_ns,
                    "kind": bar.kind,
                    "label": bar.label,
                    "critical": bar.critical,
                }
                for bar in lane.bars
            ],
        }
        for lane in drawn.lanes
    ]
    names = {"problem": problem.problem, "instance": problem.name, "file": str(path)}
    return names | {"devices": devices}


def _chart(problem: "InstanceEnvelope", path: Path) -> "tuple[str, Drawn]":
    """Return a title, and what to draw of a solution that the checker accepts."""
    import moeopt
    from moeopt.problems.execute import critical_lanes
    from moeopt.problems.registry import get_problem

    solution = moeopt.load_solution(path)
    with about(path):
        verdict = moeopt.check(problem, solution)
    if not verdict.valid:
        constraint, sentence = verdict.violations[0]
        raise InputError(f"{constraint}: {sentence}", where=path)
    if (drawn := critical_lanes(problem, solution)) is None:
        raise InputError(f"solutions of {problem.problem} are not schedules", where=path)
    objective = get_problem(problem.problem).objective(problem, solution)
    return f"{path.name}: {in_ms(problem.problem, objective)}", drawn


def _save(charts: "Sequence[tuple[str, Drawn]]", out: Path) -> None:
    with drawing(out):
        from moeopt.problems.pictures import Panel, draw_gantt, save_figure

        panels = [Panel(title, drawn.lanes, drawn.caption) for title, drawn in charts]
        save_figure(draw_gantt(panels), out)
