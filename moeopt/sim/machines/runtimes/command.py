"""The command line that runs what was predicted or planned: complete, so that it can be copied."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.runtimes.memory import LEAST_CONTEXT, PLAIN_WIDTHS, UBATCH, cache_type
from moeopt.sim.models.model_shape import ModelShape

EXPERTS_OFF = ("--n-cpu-moe", "--cpu-moe", "-ot")
"""Flags that keep experts in host memory: they are read, not mapped, so that none is paged in."""

UNMAPPED = {"llama.cpp": ("--load-mode", "none"), "ik_llama.cpp": ("--no-mmap",)}
"""What reads a model into memory. Until July 2026 llama.cpp called it ``--no-mmap`` as well; it
refuses that by now."""

NUMA = {"interleaved": "distribute", "isolate": "isolate"}
"""How weights lie on several nodes -> what ``--numa`` calls it; other ways have no flag."""


@dataclass(frozen=True)
class Running:
    """What llama.cpp or ik_llama.cpp is told beside where the model lies.

    Attributes
    ----------
    context
        Tokens that the cache has room for; `LEAST_CONTEXT` at least.
    cache
        Type of its numbers, as ``-ctk`` has it.
    threads
        None: the runtime's own choice.
    numa
        How weights lie on several nodes, by the names in `NUMA`; None with one node.
    latent
        Whether the model's attention is latent, which ik_llama.cpp has a flag for.
    """

    context: int = LEAST_CONTEXT
    cache: str = "f16"
    ubatch: int = UBATCH
    threads: int | None = None
    runtime: str = "llama.cpp"
    numa: str | None = None
    latent: bool = False

    def flags(self, placing: Sequence[str]) -> list[str]:
        """Return all flags but the model's; `placing` says where layers and experts lie.

        Without any, the CPU computes everything.
        """
        found = [*placing, "-fa", "on"] if placing else []
        found += ["-c", str(max(self.context, LEAST_CONTEXT))]
        if self.cache != "f16":
            found += ["-ctk", self.cache, "-ctv", self.cache]
        found += ["-ub", str(self.ubatch)]
        if self.ubatch > 2048:
            found += ["-b", str(self.ubatch)]
        if self.numa in NUMA:
            found += ["--numa", NUMA[self.numa]]
        if self.threads is not None:
            found += ["-t", str(self.threads)]
        if not placing or any(flag in placing for flag in EXPERTS_OFF):
            found += UNMAPPED[self.runtime]
        if self.runtime == "ik_llama.cpp":
            found += ["-fmoe", *(["-mla", "3"] if self.latent else [])]
        return found


def running(
    machine: Machine,
    model: ModelShape,
    context: int,
    ubatch: int = UBATCH,
    runtime: str = "llama.cpp",
    numa: str = "interleaved",
) -> Running:
    """Return what a runtime is told on a machine."""
    bits = model.bits_of("kv")
    return Running(
        context=context,
        cache=cache_type(PLAIN_WIDTHS.get(bits, bits)),
        ubatch=ubatch,
        threads=None if machine.cpu is None else machine.cpu.threads,
        runtime=runtime,
        numa=numa if len(machine.nodes) > 1 else None,
        latent=model.attention is not None and model.attention.kind == "latent",
    )


def llama_command(
    model: ModelShape, placing: Sequence[str], how: Running, path: str | None = None
) -> str:
    """Return a command line of llama.cpp or ik_llama.cpp.

    Parameters
    ----------
    placing
        Flags that say where layers and experts lie, such as ``-ngl 99 --n-cpu-moe 12``; none
        without a GPU.
    path
        The model's file, where it is known.
    """
    file = path or f"{model.name}-{model.quantisation or 'QUANT'}.gguf"
    return shlex.join(["llama-server", "-m", file, *how.flags(placing)])
