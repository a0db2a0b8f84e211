"""``moeopt plan``: what to keep on the GPU, cache, defer and quantise, with predicted latencies."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from moeopt.cli.options import (
    OUTPUT,
    Json,
    Model,
    Where,
    check_picture,
    command,
    flag_of,
    group,
    print_json,
    read_counts,
    warn,
)
from moeopt.core.errors import InputError
from moeopt.planner.options import PlanOptions, SeveralOptions

if TYPE_CHECKING:
    from moeopt.planner.fronts import Front
    from moeopt.planner.planned import Planned
    from moeopt.sim.machines.machine import Machine

POINTS = 6
"""Plans on a front unless it is said how many."""

Named = Annotated[str, Parameter(help="Preset, GPU+HOST, HOST or file.")]


@command
def plan_command(
    *,
    machine: Named,
    model: Model,
    trace: Annotated[Path | None, Parameter(help="Routing trace, or counts.")] = None,
    counts: Annotated[
        Path | None, Parameter(help="Tokens per expert: imatrix GGUF, recorder .pt, CSV.")
    ] = None,
    where: Where = None,
    workload: Annotated[
        str | None, Parameter(help="Preset or JSON file; with none of the three the model's.")
    ] = None,
    options: PlanOptions,
    several: SeveralOptions,
    out: Annotated[Path | None, Parameter(help="Write the plan's file.", group=OUTPUT)] = None,
    export: Annotated[
        Path | None, Parameter(help="Folder for the runtimes' files.", group=OUTPUT)
    ] = None,
    pareto: Annotated[
        bool,
        Parameter(
            "--pareto",
            help="Tokens/s against loss and against memory as well.",
            group=group("Front"),
        ),
    ] = False,
    points: Annotated[
        int, Parameter(metavar="N", help="Plans on each front.", group=group("Front"))
    ] = POINTS,
    picture: Annotated[
        Path | None,
        Parameter(metavar="FILE", help="The fronts as .svg, .png or .pdf.", group=group("Front")),
    ] = None,
    as_json: Json = False,
) -> int:
    """Plan residents, cache ways, deferral and bits for a model on a GPU beside a CPU.

    On a machine with several GPUs or memory nodes: which layers' attention and experts lie where,
    by the runtime's times alone, without a trace; with a command line that says so.

    Decided on one part of the trace; the event engine executes the plan on the held-out part, next
    to what runtimes do by default. Of counts or a workload, steps are drawn, and drawn anew.
    """
    import moeopt
    from moeopt.cli.progress import solving
    from moeopt.core.json_files import check_file, check_folder, save
    from moeopt.planner.any_machine import check_options, strategy_for

    if out is not None:  # before anything is solved for nothing
        check_file("--out", out)
    if export is not None:
        check_folder("--export", export)
    owned = moeopt.get_machine(machine)
    given: dict[str, object] = {"trace": trace, "counts": counts, "where": where}
    given |= {"workload": workload, "export": export}
    given |= {"pareto": pareto, "picture": picture, "points": points != POINTS}
    said = [name for name, value in given.items() if value]
    check_options(owned, options, several, said, flag_of)
    strategy = strategy_for(owned, options, said, called=flag_of)
    if strategy == "devices":
        return _plan_split(owned, model, options, several, out, as_json)
    _check_front(pareto, points, picture)
    if strategy == "layers":
        return _plan_layers(owned, model, options, out, as_json)
    from moeopt.planner.fronts import fronts, table
    from moeopt.planner.hand_over import hand_over
    from moeopt.planner.page import page
    from moeopt.planner.planned import plan

    with solving(f"planning {model} on {machine}", "placement"):
        planned = plan(
            owned,
            model,
            trace,
            counts=read_counts(counts, where),
            workload=workload,
            options=options,
        )
    if out is not None:
        save(planned.chosen.plan, out)
    data, text = planned.to_dict(), page(planned)
    if pareto:
        with solving(f"fronts of {model} on {machine}", "placement"):
            found = fronts(planned, points)
        data |= {"fronts": [front.to_dict() for front in found]}
        text = "\n\n".join([text, *map(table, found)])
        if picture is not None:
            _save_picture(planned, found, picture)
    print_json(data) if as_json else print(text)
    if export is not None:
        lines = hand_over(planned, export)
        print("\n".join(lines), file=sys.stderr if as_json else sys.stdout)
    return 0


def _plan_split(
    machine: "Machine",
    model: str,
    options: PlanOptions,
    several: SeveralOptions,
    out: Path | None,
    as_json: bool,
) -> int:
    """Plan for several GPUs or nodes; `out` gets the solution of problem `split`."""
    from moeopt.cli.progress import solving
    from moeopt.core.json_files import save
    from moeopt.planner.any_machine import plan as plan_any
    from moeopt.planner.split import SplitPlan, split_page

    with solving(f"planning {model} on {machine.name}", "split"):
        plan = plan_any(machine, model, options=options, several=several)
    assert isinstance(plan, SplitPlan)  # noqa: S101
    if out is not None:
        save(plan.solution, out)
    print_json(plan.to_dict()) if as_json else print(split_page(plan))
    warn(*plan.notes)
    return 0


def _plan_layers(
    machine: "Machine", model: str, options: PlanOptions, out: Path | None, as_json: bool
) -> int:
    """Print the plan that needs no counts."""
    from moeopt.core.json_files import save
    from moeopt.planner.layers import page, plan_layers
    from moeopt.sim.presets import get_model

    found = plan_layers(machine, get_model(model), options)
    if out is not None:
        save(found.plan, out)
    print_json(found.to_dict()) if as_json else print(page(found))
    warn(*found.chosen.notes)
    return 0


def _check_front(pareto: bool, points: int, picture: Path | None) -> None:
    """Raise InputError unless the fronts can be made, and their picture written."""
    from moeopt.core.json_files import check_file
    from moeopt.core.lazy import installed
    from moeopt.planner.fronts import check_points

    check_points(points)
    if not pareto and (picture is not None or points != POINTS):
        flag = "--points" if picture is None else "--picture"
        raise InputError("needs --pareto: a single plan has no front", field=flag)
    if picture is None:
        return
    check_picture("--picture", picture)
    if not installed("matplotlib"):
        raise InputError(f"{picture}: needs matplotlib, the extra 'report'", field="--picture")
    check_file("--picture", picture)


def _save_picture(planned: "Planned", found: "tuple[Front, ...]", picture: Path) -> None:
    from moeopt.cli.front_picture import save_fronts

    title = f"{planned.request.model.name} on {planned.request.machine.name}"
    save_fronts(title, found, planned.memory["total"], picture)
