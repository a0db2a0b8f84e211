"""``moeopt losses``: loss tables for bitwidth allocation, from weights or from other files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from moeopt.cli.options import Seed, group
from moeopt.core.errors import InputError

if TYPE_CHECKING:
    from moeopt.sim.models.loss_table import LossTable

Out = Annotated[Path, typer.Option("--out", help="The table (.json).", show_default=False)]


def build_app() -> typer.Typer:
    """Return the group of the commands on loss tables."""
    return group(
        "Make loss tables for `moeopt generate bitwidth --loss-table`.",
        {"convert": convert_command, "measure": measure_command},
    )


def convert_command(
    source: Annotated[
        Path, typer.Argument(metavar="IN", help="CSV, npz or JSON.", show_default=False)
    ],
    out: Out,
) -> int:
    """Convert a loss table to the project's JSON."""
    from moeopt.sim.models.loss_table import load_loss_table, save_loss_table

    table = load_loss_table(source)
    save_loss_table(table, out)
    print(_said(table, out))
    return 0


def measure_command(
    weights: Annotated[
        Path, typer.Argument(help="safetensors file, folder of them, or npz.", show_default=False)
    ],
    out: Out,
    bits: Annotated[str, typer.Option(help="Widths, comma-separated.")] = "1,2,3,4",
    method: Annotated[
        Literal["gptq", "rtn"], typer.Option(help="Error-compensated, or rounding.")
    ] = "gptq",
    activations: Annotated[
        Path | None, typer.Option(help="npz with `hidden`; by default normal numbers.")
    ] = None,
    tokens: Annotated[
        int, typer.Option(min=1, max=2**16, help="Rows of the normal numbers.")
    ] = 256,
    layers: Annotated[
        int | None, typer.Option(min=1, help="The first ones only; all if absent.")
    ] = None,
    seed: Seed = 0,
) -> int:
    """Quantise every expert at every width and record the mean squared error of its output."""
    from moeopt.cli.progress import counting
    from moeopt.sim.models.expert_weights import open_weights, read_activations
    from moeopt.sim.models.loss_table import checked_widths, save_loss_table
    from moeopt.sim.models.quantise import Inputs, measured_table
    from moeopt.sim.traces.readers.checked import name_of

    widths = checked_widths("--bits", _numbers(bits))
    found = open_weights(weights)
    given = None if activations is None else read_activations(activations)
    with counting() as show:
        table = measured_table(
            name_of(weights),
            found.read,
            found.layers[:layers],
            found.experts,
            widths,
            inputs=Inputs(given, tokens, seed),
            method=method,
            on_start=show,
        )
    save_loss_table(table, out)
    print(_said(table, out))
    return 0


def _said(table: "LossTable", out: Path) -> str:
    """Return what was written, in a line."""
    layers, experts, _ = table.losses.shape
    widths = ", ".join(map(str, table.bits))
    mean = table.losses.mean(axis=(0, 1))
    losses = ", ".join(f"{value:.4g}" for value in mean.tolist())
    return f"{out}: {layers} layers x {experts} experts at {widths} bits; mean loss {losses}"


def _numbers(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 4 for part in parts):
        raise InputError(f"--bits: must be whole numbers, comma-separated, not {text!r}")
    return [int(part) for part in parts]
