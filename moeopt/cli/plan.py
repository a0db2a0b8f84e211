"""``moeopt plan``: what to keep on the GPU, cache, defer and quantise, with predicted latencies."""

import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from moeopt.cli.options import (
    OUTPUT,
    Json,
    Model,
    check_picture,
    command,
    flag_of,
    group,
    print_json,
    read_counts,
    warn,
)
from moeopt.core.errors import InputError
from moeopt.core.linear_algebra import import_in_one_thread
from moeopt.core.options import Options
from moeopt.core.wording import package
from moeopt.planner.options import OF_LIMITS, PlanOptions, RankOptions, SeveralOptions

if TYPE_CHECKING:
    from moeopt.planner.fronts import Front
    from moeopt.planner.planned import Planned
    from moeopt.sim.traces.trace import Counts

POINTS = 6
"""Plans on a front unless it is said how many."""

Named = Annotated[str, Parameter(help="Preset, GPU+HOST, HOST or file.")]


@command
def plan_command(
    *,
    model: Model,
    machine: Named | None = None,
    trace: Annotated[Path | None, Parameter(help="Routing trace, or counts.")] = None,
    counts: Annotated[
        Path | None,
        Parameter(
            help="Tokens per expert: imatrix GGUF, recorder .pt, CSV. Several GPUs: for prompts."
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        Parameter(
            show=False,
            help="Rows of a CSV with further columns, as LABEL=VALUE; repeatable.",
        ),
    ] = None,
    workload: Annotated[
        str | None, Parameter(help="Preset or JSON file; with none of the three the model's.")
    ] = None,
    options: PlanOptions,
    several: SeveralOptions,
    ranks: RankOptions,
    out: Annotated[Path | None, Parameter(help="Write the plan's file.", group=OUTPUT)] = None,
    export: Annotated[
        Path | None, Parameter(help="Folder for the runtimes' files.", group=OUTPUT)
    ] = None,
    pareto: Annotated[
        bool,
        Parameter(
            "--pareto",
            show=False,
            help="Tokens/s against loss and against memory as well.",
            group=group("Front"),
        ),
    ] = False,
    points: Annotated[
        int, Parameter(show=False, metavar="N", help="Plans on each front.", group=group("Front"))
    ] = POINTS,
    picture: Annotated[
        Path | None,
        Parameter(
            show=False,
            metavar="FILE",
            help="The fronts as .svg, .png or .pdf.",
            group=group("Front"),
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Print the plan by the strategy that follows from what is given, and write its files."""
    import_in_one_thread()
    import moeopt
    from moeopt.cli.progress import solving
    from moeopt.core.json_files import check_file, check_folder, save
    from moeopt.planner.any_machine import strategy_for
    from moeopt.planner.report import ExpertMap

    if out is not None:  # before anything is solved for nothing
        check_file("--out", out)
    if export is not None:
        check_folder("--export", export)
    if ranks != RankOptions():
        named: dict[str, object] = {
            "machine": machine,
            "trace": trace,
            "workload": workload,
            "export": export,
        }
        named |= {"pareto": pareto, "picture": picture}
        _refuse_beside_ranks(named, options, several)
        return _plan_ranks(model, read_counts(counts, where), ranks, options, out, as_json)
    if machine is None:
        needed = "is missing: Preset, GPU+HOST, HOST or file; without one, --ep-size and --counts"
        raise InputError(needed, field="--machine")
    owned = moeopt.get_machine(machine)
    given: dict[str, object] = {"trace": trace, "counts": counts, "where": where}
    given |= {"workload": workload, "export": export}
    given |= {"pareto": pareto, "picture": picture, "points": points != POINTS}
    said = [name for name, value in given.items() if value]
    strategy = strategy_for(owned, options, several, said, called=flag_of)
    if strategy == "experts":
        _check_front(pareto, points, picture)
    problem = "split" if strategy == "devices" else "placement"
    with solving(f"planning {model} on {machine}", problem):
        report = moeopt.plan(
            owned,
            model,
            trace,
            counts=read_counts(counts, where),
            workload=workload,
            options=options,
            several=several,
            strategy=strategy,
        )
    decision = report.best.decision
    if out is not None and not isinstance(decision, ExpertMap):
        save(decision, out)
    data, text = report.to_dict(), str(report)
    if report.experts is not None and pareto:
        from moeopt.planner.fronts import fronts, table

        with solving(f"fronts of {model} on {machine}", "placement"):
            found = fronts(report.experts, points)
        data |= {"fronts": [front.to_dict() for front in found]}
        text = "\n\n".join([text, *map(table, found)])
        if picture is not None:
            _save_picture(report.experts, found, picture)
    print_json(data) if as_json else print(text)
    if report.experts is None:
        warn(*report.notes)  # of single experts they stand on the page
    elif export is not None:
        from moeopt.planner.hand_over import hand_over

        lines = hand_over(report.experts, export)
        print("\n".join(lines), file=sys.stderr if as_json else sys.stdout)
    return 0


def _refuse_beside_ranks(named: dict[str, object], *options: Options) -> None:
    """Raise InputError for what a plan of expert parallelism would not feel."""
    given = [name for name, value in named.items() if value]
    given += [name for one in options for name in one.given if name not in OF_LIMITS]
    for name in given:
        raise InputError("has no effect beside --ep-size", field=flag_of(name))


def _plan_ranks(
    model: str,
    counts: "Counts | None",
    ranks: RankOptions,
    options: PlanOptions,
    out: Path | None,
    as_json: bool,
) -> int:
    """Print the plan of expert parallelism, and write its map."""
    import moeopt
    from moeopt.cli.progress import solving
    from moeopt.exporters.expert_maps import expert_map, known_map
    from moeopt.planner.expert_parallel import WORK, slot_map_of
    from moeopt.sim.presets import get_model

    if ranks.ep_size is None:
        raise InputError("is missing", field="--ep-size")
    if counts is None:
        raise InputError("is missing: how often each expert is used", field="--counts")
    if (ranks.to is None) != (out is None):
        reason = "must be given together: the runtime, and the file for its map"
        raise InputError(reason, field="--to, --out")
    if ranks.to is not None:
        known_map(ranks.to)
    shape = get_model(model)
    try:
        with solving(f"planning {model} over {ranks.ep_size} ranks", "replication"):
            report = moeopt.plan_expert_parallel(
                counts,
                ranks.ep_size,
                ranks.redundant_experts,
                model=shape,
                nodes=ranks.nodes,
                groups=ranks.groups,
                limits=options.limits_or(WORK),
            )
    except InputError as error:
        called = {"ranks": "--ep-size"} | {one.name: flag_of(one.name) for one in fields(ranks)}
        if error.field in called:
            raise InputError(error.reason, field=called[error.field]) from None
        raise
    data, lines = report.to_dict(), [str(report)]
    if ranks.to is not None and out is not None:
        made = expert_map(slot_map_of(report, shape), ranks.to, shape.model_class)
        path, _ = made.save(out)
        flags = None if made.flags is None else made.flags(path)
        data |= {"map": str(path), "flags": flags}
        lines += [f"{path}: for {ranks.to}", *([] if flags is None else [f"  {flags}"])]
        warn(*made.warnings)
    print_json(data) if as_json else print("\n".join(lines))
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
        raise InputError(f"{picture}: needs {package('matplotlib')}", field="--picture")
    check_file("--picture", picture)


def _save_picture(planned: "Planned", found: "tuple[Front, ...]", picture: Path) -> None:
    from moeopt.cli.front_picture import save_fronts

    title = f"{planned.request.model.name} on {planned.request.machine.name}"
    save_fronts(title, found, planned.memory["total"], picture)
