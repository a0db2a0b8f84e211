"""``moeopt predict``: tokens per second of a runtime on a machine, with an interval."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from moeopt.cli.options import Json, Model, command, print_json, warn
from moeopt.core.errors import InfeasibleError, InputError
from moeopt.core.linear_algebra import import_in_one_thread
from moeopt.sim.machines.runtimes.options import PredictOptions, RunOptions

if TYPE_CHECKING:
    from moeopt.sim.machines.runtimes.predict import Prediction


@command
def predict_command(
    *,
    machine: Annotated[
        list[str],
        Parameter(help="Preset, GPU+HOST or file; several make a table."),
    ],
    model: Model,
    bits: Annotated[
        list[str] | None,
        Parameter(help="Bits of all weights, or Q4_K_M etc.; several make a table."),
    ] = None,
    options: RunOptions,
    plan: Annotated[Path | None, Parameter(help="Instead: what a plan has on each device.")] = None,
    counts: Annotated[
        Path | None, Parameter(help="How often each expert is called, for --plan.")
    ] = None,
    flags: Annotated[
        str | None,
        Parameter(
            allow_leading_hyphen=True,
            help="Instead: a command line of llama.cpp; flags are read as it reads them, and what"
            " is not predicted is said; default with several GPUs or nodes: the runtime's own fit.",
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Predict the decode speed of a runtime, with an 80 % interval and the bottleneck.

    Exit code 3 if it does not fit: with what is missing and the nearest quantisation that fits.
    """
    import_in_one_thread()
    import moeopt
    from moeopt.sim.machines.runtimes.predict import Prediction

    if counts is not None and plan is None:
        raise InputError("needs --plan", field="--counts")
    placed, popularity = None, None
    if plan is not None:
        from moeopt.planner.placed import load_decision

        placed = load_decision(plan)
    if counts is not None:
        from moeopt.sim.traces.files import load_counts

        popularity = load_counts(counts).counts.sum(axis=0).astype(float)
    wanted = PredictOptions(**vars(options), plan=placed, popularity=popularity)
    widths: list[str | None] = [*bits] if bits else [None]
    if len(machine) * len(widths) > 1:
        return _table(machine, model, widths, wanted, flags, as_json)
    asked = replace(wanted, bits=widths[0])
    found = moeopt.predict(machine[0], model, flags=flags, options=asked)
    if as_json:
        print_json(found.to_dict())
    elif isinstance(found, Prediction):
        print(page(found, machine[0], model, widths[0]))
    else:
        print("\n".join(found.page()))
    warn(*found.notes)
    return 0


def _table(
    machines: list[str],
    model: str,
    widths: list[str | None],
    wanted: PredictOptions,
    flags: str | None,
    as_json: bool,
) -> int:
    """Print a row for every machine and quantisation; 3 if none of them fits."""
    import moeopt

    notes: dict[str, None] = {}
    fitting, prompts = 0, wanted.prompt is not None
    if not as_json:
        more = f" {'prompt/s':>9}" if prompts else ""
        head = f"{'tokens/s':>9} {'80 %':>17}{more} {'on CPU':>7}  bottleneck"
        print(f"{'machine':32} {'bits':10} {head}")
    for machine, bits in product(machines, widths):
        data: dict[str, object]
        try:
            asked = replace(wanted, bits=bits)
            found = moeopt.predict(machine, model, flags=flags, options=asked)
        except InfeasibleError as error:
            data, text = {"error": str(error)}, f"does not fit: {error}"
        else:
            fitting += 1
            notes |= dict.fromkeys(found.notes if flags is not None else ())
            blocks = "-" if found.n_cpu_moe is None else str(found.n_cpu_moe)
            within = found.speeds[0].within
            more = f" {found.prompt_tokens_per_s:9g}" if prompts else ""
            data = found.to_dict()
            text = f"{found.tokens_per_s:9g} {within:>17}{more} {blocks:>7}  {found.bottleneck}"
        row = {"machine": machine, "bits": bits} | data
        print_json(row) if as_json else print(f"{machine:32} {bits or '-':10} {text}")
    warn(*notes)
    return 0 if fitting else 3


def page(found: "Prediction", machine: str, model: str, bits: str | None) -> str:
    """Return a prediction for people."""
    from moeopt.sim.machines.runtimes.memory import WITH_GRAPH
    from moeopt.sim.machines.runtimes.predict import WORDS
    from moeopt.sim.machines.runtimes.speeds import speeds_in_words

    runtime, context = found.setting.runtime, found.setting.context
    shown = found.n_cpu_moe is not None and runtime in WITH_GRAPH
    where = f" --n-cpu-moe {found.n_cpu_moe}" if shown else ""
    width = "" if bits is None else f" at {bits}"
    lines = [
        f"{model}{width} on {machine}, {runtime}{where}, {context.in_words()}:",
        *speeds_in_words(found.speeds),
        f"  {found.expect}",
    ]
    lines.append(f"  bottleneck: {WORDS[found.bottleneck]}")
    for part, ms in sorted(found.parts_ms.items(), key=lambda item: -item[1]):
        if ms:
            lines.append(f"    {ms:8.2f} ms  {WORDS[part]}")
    lines += [f"  {use}" for use in found.memory.values()]
    lines += [f"  assumed: {asked}" for asked in found.asks]
    if found.explained is not None:
        lines += [f"  {line}" for line in found.explained.in_words()]
    if found.command is not None:
        lines.append(f"  {found.command}")
    return "\n".join(lines)
