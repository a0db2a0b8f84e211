"""``moeopt compare``: the published systems on one machine, one model and one trace."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from moeopt.cli.options import (
    Json,
    Model,
    Picture,
    check_picture,
    command,
    drawing,
    print_json,
    print_lines,
    print_table,
    warn,
)
from moeopt.cli.progress import counting
from moeopt.core.options import arguments_of
from moeopt.sim.models.quantisations import at_bits
from moeopt.systems.compare import CompareOptions

if TYPE_CHECKING:
    from moeopt.systems.compare import Compared, SystemComparison


@command
def compare_command(
    *,
    machine: Annotated[str, Parameter(help="Preset, GPU+HOST or file.")],
    model: Model,
    bits: Annotated[str | None, Parameter(help="Bits of all weights, or Q4_K_M etc.")] = None,
    trace: Annotated[Path | None, Parameter(help="Routing trace.")] = None,
    workload: Annotated[str | None, Parameter(help="Instead: preset or JSON file.")] = None,
    options: CompareOptions,
    plot: Picture = None,
    as_json: Json = False,
) -> int:
    """Run the published systems on one machine, model and trace, beside their optimum."""
    check_picture("--plot", plot)
    import moeopt
    from moeopt.sim.presets import get_model

    known = moeopt.get_machine(machine)
    if known.taken_as_one is not None:
        warn(known.taken_as_one)
    shape = get_model(model)
    shape = shape if bits is None else at_bits(shape, bits)
    with counting("comparing") as on_start:
        found = moeopt.compare(
            known,
            shape,
            trace,
            workload=workload,
            on_start=on_start,
            **arguments_of(options, moeopt.compare),
        )
    if plot is not None:
        with drawing(plot, "--plot"):
            from moeopt.problems.pictures import save_figure

            save_figure(found.plot(), plot)
    if as_json:
        print_json(found.to_dict())
    else:
        _print(found)
    return 0


def _print(found: "SystemComparison") -> None:
    o = found.options
    requests = f"{o.batch} requests, {o.prompt} tokens in, {o.output} out"
    print_lines(
        [
            f"{found.model} on {found.machine}, {found.trace}: {requests}",
            f"GPU memory for routed experts: {found.gpu_expert_gib:.2f} GiB, {found.slots} experts;"
            f" KV cache on the {o.kv_cache}; batches of {o.batching}",
        ]
    )
    columns = (
        *("system", "prefill s", "decode ms", "p99", "tokens/s", "GPU", "CPU", "NDP"),
        *("same info ms", "oracle ms", "achievable ms"),
    )
    print_table(columns, (_cells(row, o.batch) for row in found.rows))
    lines = []
    if found.best is not None and found.best.mean_ms is not None:
        lines.append(f"fastest decode: {found.best.system}, {found.best.mean_ms:.3f} ms a step")
    if found.ceiling_ms is not None:
        lines.append(
            "whole experts, with the best residents and layout of each step:"
            f" {found.ceiling_ms:.3f} ms"
        )
    lines += [f"{row.system} does not run: {row.reason}" for row in found.rows if row.reason]
    lines += [f"{row.system}: {note}" for row in found.rows for note in row.notes]
    print_lines([*lines, *found.notes])


def _cells(row: "Compared", batch: int) -> tuple[str, ...]:
    run = row.run
    if run is None or row.mean_ms is None:
        return (row.system, *["-"] * 10)
    import numpy as np

    prefill = "-" if run.prefill_ns is None else f"{run.prefill_ns / 1e9:.3f}"
    p99 = float(np.quantile(run.step_ns, 0.99)) / 1e6
    rate = f"{batch * 1e3 / row.mean_ms:,.1f}"
    busy = (f"{100 * run.busy[d]:.0f} %" if d in run.busy else "-" for d in ("gpu", "cpu", "ndp"))
    optima = (row.at_optimum_ms(which) for which in ("same", "oracle", "achievable"))
    shown = ("-" if value is None else f"{value:.3f}" for value in optima)
    return (row.system, prefill, f"{row.mean_ms:.3f}", f"{p99:.3f}", rate, *busy, *shown)
