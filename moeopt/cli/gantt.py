"""``moeopt gantt``: solutions of one instance as schedules on one time axis."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moeopt.cli.options import in_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from moeopt.core.envelope import InstanceEnvelope
    from moeopt.problems.critical_lanes import Drawn

SUFFIXES = (".svg", ".png", ".pdf")


def gantt_command(
    instance: Annotated[Path, typer.Argument(help="Instance file.")],
    solutions: Annotated[list[Path], typer.Argument(help="Solution files, drawn in this order.")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Picture: .svg, .png or .pdf.")
    ] = None,
) -> None:
    """Draw the schedules of solutions below each other, on one time axis, with critical paths."""
    from shutil import get_terminal_size

    import moeopt
    from moeopt.cli.text_gantt import draw
    from moeopt.core.errors import InputError

    if out is not None and out.suffix not in SUFFIXES:
        raise InputError(f"--out: {out}: the suffix must be one of {', '.join(SUFFIXES)}")
    problem = moeopt.load(instance)
    charts = [_chart(problem, path) for path in solutions]
    horizon_ns = max(lane.end_ns for _, drawn in charts for lane in drawn.lanes)
    if out is not None:
        _save(charts, out)
        return
    for number, (title, drawn) in enumerate(charts):
        if number:
            print()
        print(title)
        print(draw(drawn.lanes, get_terminal_size().columns, horizon_ns))
        print(f"  {drawn.caption}")


def _chart(problem: "InstanceEnvelope", path: Path) -> "tuple[str, Drawn]":
    """Return a title, and what to draw of a solution that the checker accepts."""
    import moeopt
    from moeopt.core.errors import InputError
    from moeopt.problems.critical_lanes import critical_lanes
    from moeopt.problems.registry import get_problem

    solution = moeopt.load_solution(path)
    try:
        verdict = moeopt.check(problem, solution)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    if not verdict.valid:
        constraint, sentence = verdict.violations[0]
        raise InputError(f"{path}: {constraint}: {sentence}")
    if (drawn := critical_lanes(problem, solution)) is None:
        raise InputError(f"{path}: solutions of {problem.problem} are not schedules")
    checker = get_problem(problem.problem).check
    objective = checker.objective(problem, solution)
    return f"{path.name}: {in_ms(problem.problem, objective)}", drawn


def _save(charts: "Sequence[tuple[str, Drawn]]", out: Path) -> None:
    from moeopt.core.errors import InputError

    try:
        from moeopt.study.pictures import Panel, save_gantt
    except ModuleNotFoundError:
        raise InputError(f"--out: {out}: pictures need matplotlib, the extra 'report'") from None
    try:
        panels = [Panel(title, drawn.lanes, drawn.caption) for title, drawn in charts]
        save_gantt(panels, out)
    except OSError as error:
        raise InputError(f"--out: {out}: {error.strerror}") from None
