"""``moeopt calibrate``: fit a runtime's overheads to speeds measured on the machine at hand."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moeopt.cli.options import Json

if TYPE_CHECKING:
    from moeopt.sim.machines.runtimes.calibration import Calibrated


def calibrate_command(
    machine: Annotated[
        str, typer.Option(help="The machine that was measured.", show_default=False)
    ],
    points: Annotated[
        Path,
        typer.Option(
            help="CSV: model, bits, runtime, n_cpu_moe, context, tokens_per_s; or llama-bench's"
            " JSON.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="Machine file to write.", show_default=False)],
    model: Annotated[
        str, typer.Option(help="The model, where the points do not name it.", show_default=False)
    ] = "",
    bits: Annotated[
        str, typer.Option(help="Its bits, where the points do not say.", show_default=False)
    ] = "",
    as_json: Json = False,
) -> int:
    """Fit the overheads of runtimes to two or more measured speeds; print what is left over."""
    from moeopt.cli.machine import check_place, write_machine
    from moeopt.cli.options import stem
    from moeopt.sim.machines.runtimes.calibration import calibrate
    from moeopt.sim.machines.runtimes.measurements import read_measurements
    from moeopt.sim.presets import get_machine

    found = get_machine(machine)
    check_place(out)
    measured = read_measurements(points, model=model, bits=bits)
    calibrated = calibrate(found, measured)
    write_machine(calibrated.machine.model_copy(update={"name": stem(out)}), out)
    if as_json:
        print(json.dumps(_as_dict(calibrated)))
    else:
        _print(calibrated)
    return 0


def _as_dict(found: "Calibrated") -> dict[str, object]:
    points = [
        {
            "model": one.measurement.model.name,
            "bits": one.measurement.model.bits,
            "runtime": one.measurement.runtime,
            "n_cpu_moe": one.measurement.n_cpu_moe,
            "tokens_per_s": one.measurement.tokens_per_s,
            "predicted": round(one.predicted, 4),
            "error": round(one.error, 5),
        }
        for one in found.residuals
    ]
    return {"machine": found.machine.name, "points": points}


def _print(found: "Calibrated") -> None:
    from moeopt.cli.options import print_table

    rows = []
    for one in found.residuals:
        point = one.measurement
        blocks = "-" if point.n_cpu_moe is None else str(point.n_cpu_moe)
        speeds = (f"{point.tokens_per_s:g}", f"{one.predicted:.4g}", f"{100 * one.error:+.1f} %")
        rows.append((point.model.name, f"{point.model.bits:.4g}", point.runtime, blocks, *speeds))
    columns = ("model", "bits", "runtime", "CPU blocks", "measured", "calibrated", "error")
    print_table(columns, rows, width=100)
