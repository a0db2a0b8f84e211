"""The command line that runs what was predicted or planned: complete, so that it can be copied."""

import shlex

from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.runtimes.memory import LEAST_CONTEXT, PLAIN_WIDTHS, UBATCH, cache_type
from moeopt.sim.models.model_shape import ModelShape


def llama_command(
    machine: Machine,
    model: ModelShape,
    placing: list[str],
    *,
    context: int,
    ubatch: int = UBATCH,
    runtime: str = "llama.cpp",
    path: str | None = None,
) -> str:
    """Return a command line of llama.cpp or ik_llama.cpp.

    Parameters
    ----------
    placing
        Flags that say where experts lie, such as ``--n-cpu-moe 12``.
    context
        Tokens that the cache has room for; at least `LEAST_CONTEXT`.
    path
        The model's file, where it is known.
    """
    flags = ["llama-server", "-m", path or f"{model.name}-{model.quantisation or 'QUANT'}.gguf"]
    if machine.gpu is not None:
        flags += ["-ngl", "99", "-fa", "on", *placing]
    flags += ["-c", str(max(context, LEAST_CONTEXT))]
    bits = model.bits_of("kv")
    kind = cache_type(PLAIN_WIDTHS.get(bits, bits))
    if kind != "f16":
        flags += ["-ctk", kind, "-ctv", kind]
    flags += ["-ub", str(ubatch)]
    if ubatch > 2048:
        flags += ["-b", str(ubatch)]
    if machine.cpu is not None and machine.cpu.threads is not None:
        flags += ["-t", str(machine.cpu.threads)]
    if machine.gpu is None or placing:
        flags.append("--no-mmap")
    if runtime == "ik_llama.cpp":
        latent = model.attention is not None and model.attention.kind == "latent"
        flags += ["-fmoe", *(["-mla", "3"] if latent else [])]
    return shlex.join(flags)
