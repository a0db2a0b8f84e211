"""``moeopt pareto``: all best compromises between the entries of a problem's objective."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from moeopt.cli.options import (
    INFEASIBLE,
    NO_SOLUTION,
    Json,
    LimitOptions,
    Picture,
    check_picture,
    command,
    drawing,
    print_json,
    shown,
)
from moeopt.core.errors import InputError, about

if TYPE_CHECKING:
    from moeopt.core.envelope import InstanceEnvelope
    from moeopt.core.json_files import JsonObject


@command
def pareto_command(
    instance: Annotated[Path, Parameter(help="Instance file.")],
    /,
    *,
    tolerance: Annotated[
        float | None,
        Parameter(metavar="SHARE", help="Only points within this share of the best first key."),
    ] = None,
    options: LimitOptions,
    out: Picture = None,
    as_json: Json = False,
) -> int:
    """List every undominated objective, exactly; the last one within a tolerance costs least."""
    import moeopt
    from moeopt.problems.registry import get_problem
    from moeopt.solvers import arguments
    from moeopt.solvers.limits import Deadline

    check_picture("--out", out)
    if tolerance is not None and not 0 <= tolerance < float("inf"):
        raise InputError(f"must be 0 or more, not {tolerance}", field="--tolerance")
    limits = arguments.limits(options.time_limit_s, options.work_limit)
    problem = moeopt.load(instance)
    home = get_problem(problem.problem)
    with limits.clock(), about(instance):
        deadline = Deadline(limits.first)
        points = home.front(problem, lambda: deadline.remaining_s == 0)
    if points is None:
        unit = "s" if limits.work is None else "units of work"
        print(f"{problem.name}: no front within the limit of {limits.first:g} {unit}")
        return NO_SOLUTION
    if not points:
        print(f"{problem.name}: infeasible")
        return INFEASIBLE
    best = points[0].objective[0]
    if tolerance is not None:
        points = [p for p in points if p.objective[0] - best <= tolerance * best]
    for point in points:
        if as_json:
            print_json(_record(problem, point))
        else:
            print(_as_text(problem, point, best))
    if out is not None:
        _save(problem, points, out)
    return 0


def _as_text(problem: "InstanceEnvelope", point: Any, best: int) -> str:
    excess = f"  (+{100 * (point.objective[0] - best) / best:.3f} %)" if best else ""
    return shown(problem.problem, point.objective) + excess


def _record(problem: "InstanceEnvelope", point: Any) -> dict[str, object]:
    record = {"problem": problem.problem, "instance": problem.name, "objective": point.objective}
    return record | {"solution": point.solution.model_dump(mode="json")}


def _save(problem: "InstanceEnvelope", points: Sequence[Any], out: Path) -> None:
    """Draw the front, and where the problem's heuristics are."""
    from moeopt.problems.registry import get_problem

    home = get_problem(problem.problem)
    named: JsonObject = {}
    for name, heuristic in home.functions().items():
        if (solution := heuristic(problem)) is not None:
            named[name] = home.objective(problem, solution)
    with drawing(out):
        from moeopt.problems.pictures import draw_front, save_figure

        front = [p.objective for p in points]
        save_figure(draw_front(problem.name, home.minimises(), front, named), out)
