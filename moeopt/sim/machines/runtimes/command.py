"""The command line that runs what was predicted or planned: complete, so that it can be copied."""

import math
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from moeopt.sim.machines.runtimes.context import ALLOCATED
from moeopt.sim.machines.runtimes.flags import BATCH, LOADING, Flag, Told
from moeopt.sim.machines.runtimes.kv_types import KvType, kv_type_of
from moeopt.sim.machines.runtimes.setting import UBATCH, Setting
from moeopt.sim.models.gguf.types import MIXES
from moeopt.sim.models.model_shape import ModelShape

EXPERTS_OFF = ("--n-cpu-moe", "--cpu-moe", "-ot")
"""Flags that keep experts in host memory: they are read, not mapped, so that none is paged in."""

UNMAPPED = {"llama.cpp": ("--load-mode", "none"), "ik_llama.cpp": ("--no-mmap",)}
"""What reads a model into memory. Until July 2026 llama.cpp called it ``--no-mmap`` as well; it
refuses that by now."""

SGLANG = "-m sglang.launch_server --model-path"
"""What starts KTransformers' fork of SGLang, after a Python."""

METHODS = ("FP8", "BF16", "MXFP4")
"""Formats of weights that ``--kt-method`` calls by the same name."""

OWN_LATENT = {"-mla", "--mla-use"}
"""What ik_llama.cpp calls its way of computing latent attention."""

NUMA = {"interleaved": "distribute", "isolate": "isolate"}
"""How weights lie on several nodes -> what ``--numa`` calls it; other ways have no flag."""


@dataclass(frozen=True)
class Running:
    """What a runtime is told beside where the model lies.

    Attributes
    ----------
    context
        Tokens that the cache has room for.
    kv
        Types of its keys and its values, as ``-ctk`` and ``-ctv`` have them.
    threads
        None: the runtime's own choice.
    numa
        How weights lie on several nodes, by the names in `NUMA`; None with one node.
    pools
        Of threads, one a socket, for ktransformers; None: its own choice, two.
    latent
        Whether the model's attention is latent, which ik_llama.cpp has a flag for.
    given
        Flags to repeat as they were given: for them there is nothing to choose.
    source
        Words that say where the model's file is, in place of ``-m``.
    """

    context: int = ALLOCATED
    kv: tuple[KvType, KvType] = ("f16", "f16")
    ubatch: int = UBATCH
    threads: int | None = None
    runtime: str = "llama.cpp"
    numa: str | None = None
    pools: int | None = None
    latent: bool = False
    given: tuple[Flag, ...] = ()
    source: tuple[str, ...] = ()

    def flags(self, placing: Sequence[str]) -> list[str]:
        """Return all flags but the model's; `placing` says where layers and experts lie.

        Without any, the CPU computes everything.
        """
        if self.runtime == "ktransformers":
            return [*placing, *self._of_sglang()]
        found = [*placing, *self._given({"-fa", "-no-fa"}, ("-fa", "on") if placing else ())]
        found += ["-c", str(self.context)]
        for flag, kind in zip(("-ctk", "-ctv"), self.kv, strict=True):
            found += [] if kind == "f16" else [flag, kind]
        found += ["-ub", str(self.ubatch)]
        found += self._given({"-b"}, ("-b", str(self.ubatch)) if self.ubatch > BATCH else ())
        nodes = NUMA.get(self.numa or "")
        found += self._given({"--numa"}, () if nodes is None else ("--numa", nodes))
        if self.threads is not None:
            found += ["-t", str(self.threads)]
        off = not placing or any(flag in placing for flag in EXPERTS_OFF)
        found += self._given(LOADING, UNMAPPED[self.runtime] if off else ())
        own = self.runtime == "ik_llama.cpp" and self.latent
        found += self._given(OWN_LATENT, ("-mla", "3") if own else ())
        placed = {"-fa", "-no-fa", "-b", "--numa", *LOADING, *OWN_LATENT}
        return [*found, *(w for flag in self.given if flag.name not in placed for w in flag.words)]

    def _given(self, names: set[str], otherwise: Sequence[str]) -> Sequence[str]:
        """Return the words of such flags as they were given, or else what is chosen here."""
        return [
            word for flag in self.given if flag.name in names for word in flag.words
        ] or otherwise

    def _of_sglang(self) -> Iterator[str]:
        yield from ("--context-length", str(self.context))
        if self.kv in (("q8_0", "q8_0"), ("fp8", "fp8")):
            yield from ("--kv-cache-dtype", "fp8_e4m3")
        yield from ("--chunked-prefill-size", str(self.ubatch))
        for flag, count in (("cpuinfer", self.threads), ("threadpool-count", self.pools)):
            if count is not None:
                yield from (f"--kt-{flag}", str(count))


def running(setting: Setting, told: Told | None = None) -> Running:
    """Return what a runtime is told in a setting; `told` is what a command line said beside it."""
    told, model = Told() if told is None else told, setting.shape
    nodes = setting.machine.nodes
    keys, values = setting.kv or (kv_type_of(bits) for bits in model.kv_widths)
    return Running(
        context=setting.context.allocated,
        kv=(keys, values),
        ubatch=setting.ubatch,
        threads=told.threads or (setting.cores.threads if nodes else None),
        runtime=setting.runtime,
        numa=setting.numa if len(nodes) > 1 else None,
        pools=len(nodes) or 1,
        latent=model.attention is not None and model.attention.kind == "latent",
        given=told.given,
        source=told.source,
    )


def command_line(
    model: ModelShape, placing: Sequence[str], how: Running, path: str | None = None
) -> str:
    """Return a runtime's command line.

    Parameters
    ----------
    placing
        Flags that say where layers and experts lie, such as ``-ngl 99 --n-cpu-moe 12``; none
        without a GPU.
    path
        The model's file, where it is known.
    """
    file = path or f"{model.name}-{model.quantisation or 'QUANT'}.gguf"
    if how.runtime != "ktransformers":
        return shlex.join(["llama-server", *(how.source or ("-m", file)), *how.flags(placing)])
    bits, method = model.bits_of("experts"), (model.quantisation or "").removesuffix("_MOE")
    if path is not None or (method not in METHODS and model.quantisation in MIXES):
        method = "LLAMAFILE"
    elif method not in METHODS:
        method = "AMXINT4" if bits < 6 else "AMXINT8" if bits < 10 else "BF16"
    if method != "LLAMAFILE":
        file = f"{model.name}-{method}"
    words = ["python3", *SGLANG.split(), model.name, *how.flags(placing)]
    return shlex.join([*words, "--kt-weight-path", file, "--kt-method", method])


def override(layers: Iterable[int], *, quoted: bool = False) -> list[str]:
    """Return the flag that keeps the experts of some blocks on the CPU; nothing for none.

    A dot stands for any character, which is unambiguous here: no other block's name has the number
    between two of them. Shared experts are called ``shexp``, without the s.

    Parameters
    ----------
    quoted
        Whether a shell gets the words in quotes, so that one pattern can stand for all blocks.
    """
    kept = patterns(layers, "ffn_.+exps=CPU", quoted=quoted)
    return ["-ot", ",".join(kept)] if kept else []


def patterns(layers: Iterable[int], tensors: str, *, quoted: bool) -> list[str]:
    """Return patterns for tensors of these blocks: one if it may need quotes, else one for each."""
    found = [*layers]
    if quoted and found:
        return [f"blk.{numbers(found)}.{tensors}"]
    return [f"blk.{layer}.{tensors}" for layer in found]


def numbers(layers: Iterable[int]) -> str:
    """Return a regular expression for these numbers and no other, as short as tens allow."""
    tens: dict[int, list[int]] = {}
    for layer in sorted(set(layers)):
        tens.setdefault(layer // 10, []).append(layer % 10)
    parts = [f"{ten or ''}{_digits(own)}" for ten, own in tens.items()]
    return parts[0] if len(parts) == 1 else f"({'|'.join(parts)})"


def _digits(own: Sequence[int]) -> str:
    """Return a regular expression for one of these digits, which rise."""
    if len(own) == 1:
        return str(own[0])
    found, first = "", own[0]
    for digit, following in zip(own, [*own[1:], None], strict=True):
        if following == digit + 1:
            continue
        run = digit - first
        found += str(first) if run == 0 else f"{first}{'-' if run > 1 else ''}{digit}"
        first = digit if following is None else following
    return f"[{found}]"


def uniform_experts(count: int) -> list[str]:
    """Return ktransformers' flags for so many experts of every layer on the GPU, the first ones."""
    return ["--kt-num-gpu-experts", str(count), *strategy("uniform")]


def strategy(
    name: str, counts: str | None = None, share: tuple[int, int] | None = None
) -> list[str]:
    """Return ktransformers' flags for how it chooses experts for the GPU.

    Parameters
    ----------
    name
        frequency: those counted most often; front-loading: the first layers; uniform.
    counts
        The file that it counts by.
    share
        How many it chooses, and of how many.
    """
    found = ["--kt-expert-placement-strategy", name]
    found += [] if counts is None else ["--init-expert-location", counts]
    return found if share is None else [*found, "--kt-gpu-experts-ratio", repr(ratio_of(*share))]


def ratio_of(chosen: int, total: int) -> float:
    """Return a number from 0 to 1 with int(total * ratio) == chosen, in floats as it is computed.

    The quotient itself, or the next float above where the product falls short of the integer.
    """
    ratio = chosen / total
    while int(total * ratio) < chosen:
        ratio = math.nextafter(ratio, 2.0)
    return ratio
