"""``moeopt predict``: tokens per second of a runtime on a machine, with an interval."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moeopt.cli.options import Json

if TYPE_CHECKING:
    from moeopt.sim.machines.machine import Machine
    from moeopt.sim.machines.runtimes.predict import Prediction


def predict_command(
    machine: Annotated[str, typer.Option(help="Preset, GPU+HOST or file.", show_default=False)],
    model: Annotated[
        str, typer.Option(help="Preset, config.json, GGUF or JSON file.", show_default=False)
    ],
    bits: Annotated[
        str | None, typer.Option(help="Bits of all weights, or Q4_K_M etc.; default: as it is.")
    ] = None,
    runtime: Annotated[str, typer.Option(help="As in moeopt list runtimes.")] = "llama.cpp",
    n_cpu_moe: Annotated[
        int | None,
        typer.Option(help="Blocks whose experts the CPU computes; default: the fewest that fit."),
    ] = None,
    gpu_experts: Annotated[
        int | None, typer.Option(help="Instead: experts of every layer on the GPU.")
    ] = None,
    plan: Annotated[Path | None, typer.Option(help="Instead: a plan's residents.")] = None,
    counts: Annotated[
        Path | None, typer.Option(help="How often each expert is called, for --plan.")
    ] = None,
    context: Annotated[int, typer.Option(help="Tokens in the KV cache.")] = 0,
    kv_bits: Annotated[float | None, typer.Option(help="Bits in the KV cache.")] = None,
    as_json: Json = False,
) -> int:
    """Predict the decode speed of a runtime, with an 80 % interval and the bottleneck."""
    from moeopt.core.errors import InputError
    from moeopt.sim.machines.runtimes.predict import predict
    from moeopt.sim.plan.schema import load_plan
    from moeopt.sim.presets import get_machine, get_model

    shape = get_model(model)
    if kv_bits is not None:
        if not 0.5 <= kv_bits <= 64:
            raise InputError(f"--kv-bits: must be from 0.5 to 64, not {kv_bits:g}")
        shape = shape.model_copy(update={"kv_bits": kv_bits})
    if counts is not None and plan is None:
        raise InputError("--counts: goes with --plan")
    popularity = None
    if counts is not None:
        from moeopt.sim.traces.files import load_counts

        popularity = load_counts(counts).counts.sum(axis=0).astype(float)
    known = get_machine(machine)
    found = predict(
        known,
        shape,
        bits=bits,
        runtime=runtime,
        n_cpu_moe=n_cpu_moe,
        gpu_experts=gpu_experts,
        plan=None if plan is None else load_plan(plan),
        popularity=popularity,
        context=context,
    )
    if as_json:
        print(json.dumps(found.to_dict()))
    else:
        print(page(found, machine, model, bits, command_line(found, known)))
    for note in found.notes:
        print(f"moeopt: warning: {note}", file=sys.stderr)
    return 0


def command_line(found: "Prediction", machine: "Machine") -> str | None:
    """Return the command that runs what was predicted; None where it takes more than flags."""
    if found.n_cpu_moe is None or found.runtime == "ktransformers":
        return None
    threads = None if machine.cpu is None else machine.cpu.threads
    flags = ["llama-server -m MODEL.gguf"]
    if machine.gpu is not None:
        flags.append("-ngl 99 -fa on")
        flags += [f"--n-cpu-moe {found.n_cpu_moe}"] if found.n_cpu_moe else []
    flags += [f"-c {found.context}"] if found.context else []
    flags += [f"-t {threads}"] if threads is not None else []
    return " ".join(flags)


def page(
    found: "Prediction", machine: str, model: str, bits: str | None, command: str | None
) -> str:
    """Return a prediction for people."""
    from moeopt.sim.machines.runtimes.predict import WORDS

    where = "" if found.n_cpu_moe is None else f" --n-cpu-moe {found.n_cpu_moe}"
    width = "" if bits is None else f" at {bits}"
    lines = [
        f"{model}{width} on {machine}, {found.runtime}{where}, {found.context} tokens of context:",
        f"  {found.tokens_per_s:g} tokens/s (80 %: {found.low:g} to {found.high:g})",
        f"  {found.expect}",
        f"  bottleneck: {WORDS[found.bottleneck]}",
    ]
    for part, ms in sorted(found.parts_ms.items(), key=lambda item: -item[1]):
        lines.append(f"    {ms:8.2f} ms  {WORDS[part]}")
    lines.append(f"  memory: {found.gpu_gib:g} GiB on the GPU, {found.host_gib:g} GiB in the host")
    if command is not None:
        lines.append(f"  {command}")
    return "\n".join(lines)
