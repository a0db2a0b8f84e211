"""``moeopt plan``: what to keep on the GPU, cache, defer and quantise, with predicted latencies."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from moeopt.cli.options import Json, Seed, TimeLimit, Where, Workers, read_counts

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
    context: Annotated[int, typer.Option(help="Tokens in each KV cache.")] = 512,
    steps: Annotated[int, typer.Option(help="Most steps to decide on, and to hold out.")] = 200,
    held_out: Annotated[
        float | None, typer.Option(help="Share of the trace that is held out; default: 0.3.")
    ] = None,
    keep_repeats: Annotated[
        bool,
        typer.Option("--keep-repeats", help="Do not leave out what the trace reads twice."),
    ] = False,
    reserved_gib: Annotated[float, typer.Option(help="GPU memory that stays free.")] = 1.0,
    max_deferred: Annotated[
        int | None,
        typer.Option(help="Most deferred experts per layer; default: top-k less 2; 0: none."),
    ] = None,
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
    kv_bits: Annotated[float | None, typer.Option(help="Bits in the KV cache.")] = None,
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
    time_limit: TimeLimit = 60.0,
    workers: Workers = 2,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option("--out", help="Write the plan's file.")] = None,
    export: Annotated[
        Path | None, typer.Option("--export", help="Folder for the runtimes' files.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Plan residents, cache ways, deferral and bits for a model on a GPU beside a CPU.

    Decided on one part of the trace; the event engine executes the plan on the held-out part, next
    to what runtimes do by default. Of counts or a workload, steps are drawn, and drawn anew.
    """
    import moeopt
    from moeopt.cli.progress import solving
    from moeopt.planner.hand_over import hand_over
    from moeopt.planner.page import page
    from moeopt.problems.json_files import save

    with solving(f"planning {model} on {machine}", "placement"):
        planned = moeopt.plan(
            machine,
            model,
            trace,
            counts=read_counts(counts, where),
            workload=workload,
            batch=batch,
            context=context,
            steps=steps,
            held_out=held_out,
            keep_repeats=keep_repeats,
            reserved_gib=reserved_gib,
            max_deferred=max_deferred,
            average_bits=average_bits,
            bits=bits,
            other_bits=other_bits,
            kv_bits=kv_bits,
            loss_table=loss_table,
            runtime=runtime,
            time_limit_s=time_limit,
            workers=workers,
            seed=seed,
        )
    if out is not None:
        save(planned.chosen.plan, out)
    print(json.dumps(planned.to_dict()) if as_json else page(planned))
    if export is not None:
        lines = hand_over(planned, export)
        print("\n".join(lines), file=sys.stderr if as_json else sys.stdout)
    return 0
