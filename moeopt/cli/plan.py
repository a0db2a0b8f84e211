"""``moeopt plan``: what to keep on the GPU, cache, defer and quantise, with predicted latencies."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moeopt.cli.options import Json, Seed, TimeLimit, Where, Workers, WorkLimit, read_counts
from moeopt.cli.pareto import SUFFIXES
from moeopt.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moeopt.planner.fronts import Front
    from moeopt.planner.planned import Planned
    from moeopt.sim.machines.machine import Machine
    from moeopt.solvers.arguments import Limits

Named = Annotated[str, typer.Option(help="Preset or JSON file.", show_default=False)]


def plan_command(
    machine: Named,
    model: Annotated[
        str, typer.Option(help="Preset, config.json, GGUF or JSON file.", show_default=False)
    ],
    trace: Annotated[
        Path | None, typer.Option(help="Routing trace, or counts.", show_default=False)
    ] = None,
    counts: Annotated[
        Path | None, typer.Option(help="Tokens per expert: imatrix GGUF, recorder .pt, CSV.")
    ] = None,
    where: Where = None,
    workload: Annotated[
        str | None, typer.Option(help="Preset or JSON file; with none of the three the model's.")
    ] = None,
    batch: Annotated[int, typer.Option(help="Tokens in a step.")] = 1,
    context: Annotated[str, typer.Option(help="Tokens in each KV cache: 8192, 8k.")] = "512",
    steps: Annotated[
        int | None,
        typer.Option(help="Most steps to decide on, and to hold out; default: 1000 and 500."),
    ] = None,
    decide_steps: Annotated[
        int | None, typer.Option(help="Most steps to decide on; default: --steps.")
    ] = None,
    hold_out_steps: Annotated[
        int | None, typer.Option(help="Most steps to hold out; default: --steps.")
    ] = None,
    held_out: Annotated[
        float | None, typer.Option(help="Share of the trace that is held out; default: 0.3.")
    ] = None,
    keep_repeats: Annotated[
        bool,
        typer.Option("--keep-repeats", help="Do not leave out what the trace reads twice."),
    ] = False,
    reserved_gib: Annotated[
        float | None,
        typer.Option(help="GPU memory that stays free; default: as the runtime needs."),
    ] = None,
    host_reserved_gib: Annotated[
        float | None, typer.Option(help="Host memory that stays free; default: 5 %.")
    ] = None,
    max_deferred: Annotated[
        int, typer.Option(help="Most deferred experts per layer; changes the model's output.")
    ] = 0,
    average_bits: Annotated[
        float | None,
        typer.Option(help="Bits per weight of the experts on average, and of everything else."),
    ] = None,
    bits: Annotated[
        str | None,
        typer.Option(help="Bits of all weights, or Q4_K_M etc.; with an average: widths to use."),
    ] = None,
    other_bits: Annotated[
        float | None, typer.Option(help="Bits per weight of everything but the routed experts.")
    ] = None,
    kv_bits: Annotated[str | None, typer.Option(help="Bits in the KV cache.")] = None,
    loss_table: Annotated[
        Path | None, typer.Option(help="Measured losses; default: random experts'.")
    ] = None,
    runtime: Annotated[
        str | None,
        typer.Option(
            help="Whose times: moeopt list runtimes, or machine; default: calibrated, the machine"
            " file's own, llama.cpp."
        ),
    ] = None,
    quality_loss: Annotated[
        float | None,
        typer.Option(help="Share of outputs that widths and deferral may lose: 0 to 1."),
    ] = None,
    joint_time: Annotated[
        float | None,
        typer.Option(help="Seconds of the limit to decide all at once; default: half; 0: none."),
    ] = None,
    time_limit: TimeLimit = 60.0,
    work_limit: WorkLimit = None,
    workers: Workers = 2,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option("--out", help="Write the plan's file.")] = None,
    export: Annotated[
        Path | None, typer.Option("--export", help="Folder for the runtimes' files.")
    ] = None,
    pareto: Annotated[
        bool, typer.Option("--pareto", help="Tokens/s against loss and against memory as well.")
    ] = False,
    points: Annotated[int, typer.Option(metavar="N", help="Plans on each front.")] = 6,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The fronts as .svg, .png or .pdf.")
    ] = None,
    prompt_tokens: Annotated[
        int, typer.Option(help="Several GPUs or nodes: tokens of a prompt, beside the reply.")
    ] = 0,
    reply_tokens: Annotated[
        int, typer.Option(help="Several GPUs or nodes: tokens of a reply.")
    ] = 500,
    ubatch: Annotated[
        int, typer.Option(help="Several GPUs or nodes: tokens of a prompt computed together.")
    ] = 512,
    numa: Annotated[
        str,
        typer.Option(help="Several nodes: interleaved, first-touch, nodes, mirrored or isolate."),
    ] = "interleaved",
    path: Annotated[
        str | None, typer.Option(help="Several GPUs or nodes: the model's file, for the command.")
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
    from moeopt.core.json_files import save
    from moeopt.planner.checks import check_file, check_folder
    from moeopt.planner.fronts import fronts, table
    from moeopt.planner.hand_over import hand_over
    from moeopt.planner.page import page
    from moeopt.sim.machines.runtimes.memory import WITH_GRAPH, context_of, kv_bits_of
    from moeopt.solvers import arguments

    if out is not None:  # before anything is solved for nothing
        check_file("--out", out)
    if export is not None:
        check_folder("--export", export)
    owned = moeopt.get_machine(machine)
    if len(owned.every_gpu) > 1 or len(owned.nodes) > 1:
        room = context_of(context)
        asked = {
            "bits": bits, "kv_bits": 16.0 if kv_bits is None else kv_bits_of(kv_bits), "room": room,
            "context": min(room, prompt_tokens + reply_tokens // 2), "ubatch": ubatch,
            "runtime": runtime or "llama.cpp", "numa": numa, "prompt_tokens": prompt_tokens,
            "reply_tokens": reply_tokens,
        }  # fmt: skip
        limits = arguments.limits(None if work_limit else time_limit, work_limit)
        return _plan_split(owned, model, asked, limits, path, out, as_json=as_json)
    _check_front(pareto, points, picture)
    routing: tuple[object, ...] = (trace, counts, where, workload, keep_repeats, held_out)
    more: tuple[object, ...] = (
        steps,
        decide_steps,
        hold_out_steps,
        reserved_gib,
        other_bits,
        export,
    )
    others = (host_reserved_gib, max_deferred, average_bits, quality_loss, pareto, batch > 1)
    if not any((*routing, *more, *others)) and runtime in (None, *WITH_GRAPH):
        return _layers(machine, model, bits, kv_bits, context, runtime, out, as_json)
    with solving(f"planning {model} on {machine}", "placement"):
        planned = moeopt.plan(
            machine,
            model,
            trace,
            counts=read_counts(counts, where),
            workload=workload,
            batch=batch,
            context=context_of(context),
            steps=steps,
            decide_steps=decide_steps,
            hold_out_steps=hold_out_steps,
            held_out=held_out,
            keep_repeats=keep_repeats,
            reserved_gib=reserved_gib,
            host_reserved_gib=host_reserved_gib,
            max_deferred=max_deferred,
            average_bits=average_bits,
            bits=bits,
            other_bits=other_bits,
            kv_bits=kv_bits,
            loss_table=loss_table,
            runtime=runtime,
            quality_loss=quality_loss,
            joint_time_s=joint_time,
            time_limit_s=time_limit,
            work_limit=work_limit,
            workers=1 if work_limit is not None else workers,
            seed=seed,
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
    print(json.dumps(data) if as_json else text)
    if export is not None:
        lines = hand_over(planned, export)
        print("\n".join(lines), file=sys.stderr if as_json else sys.stdout)
    return 0


def _plan_split(
    machine: "Machine",
    model: str,
    asked: "Mapping[str, object]",
    limits: "Limits",
    path: str | None,
    out: Path | None,
    *,
    as_json: bool,
) -> int:
    """Plan for several GPUs or nodes; `out` gets the solution of problem `split`."""
    from pydantic import ValidationError

    from moeopt.cli.progress import solving
    from moeopt.core.json_files import save
    from moeopt.core.wording import describe
    from moeopt.planner.split import plan_split, split_page
    from moeopt.problems.split.generate import Options
    from moeopt.sim.presets import get_model

    try:
        options = Options.model_validate(asked)
    except ValidationError as error:
        raise InputError(describe(error)) from None
    with solving(f"planning {model} on {machine.name}", "split"):
        plan = plan_split(machine, get_model(model), options, **limits.asked, path=path)
    if out is not None:
        save(plan.solution, out)
    print(json.dumps(plan.to_dict()) if as_json else split_page(plan))
    return 0


def _layers(
    machine: str,
    model: str,
    bits: str | None,
    kv_bits: str | None,
    context: str,
    runtime: str | None,
    out: Path | None,
    as_json: bool,
) -> int:
    """Print the plan that needs no counts."""
    from moeopt.core.json_files import save
    from moeopt.planner.layers import page, plan_layers
    from moeopt.sim.machines.runtimes.memory import context_of
    from moeopt.sim.presets import get_machine, get_model

    found = plan_layers(
        get_machine(machine),
        get_model(model),
        bits=bits,
        kv_bits=kv_bits,
        context=context_of(context),
        runtime=runtime,
    )
    if out is not None:
        save(found.plan, out)
    print(json.dumps(found.to_dict()) if as_json else page(found))
    for note in found.chosen.notes:
        print(f"moeopt: warning: {note}", file=sys.stderr)
    return 0


def _check_front(pareto: bool, points: int, picture: Path | None) -> None:
    """Raise InputError unless the fronts can be made, and their picture written."""
    from moeopt.core.lazy import installed
    from moeopt.planner.checks import check_file
    from moeopt.planner.fronts import check_points

    check_points(points)
    if picture is None:
        return
    if not pareto:
        raise InputError("--picture: needs --pareto: a single plan has no front")
    if picture.suffix not in SUFFIXES:
        raise InputError(f"--picture: {picture}: the suffix must be one of {', '.join(SUFFIXES)}")
    if not installed("matplotlib"):
        raise InputError(f"--picture: {picture}: needs matplotlib, the extra 'report'")
    check_file("--picture", picture)


def _save_picture(planned: "Planned", found: "tuple[Front, ...]", picture: Path) -> None:
    from moeopt.cli.front_picture import save_fronts

    title = f"{planned.request.model.name} on {planned.request.machine.name}"
    save_fronts(title, found, planned.memory["total"], picture)
