"""What a token takes in a real runtime: tokens per second with an interval, and the bottleneck."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from numpy.typing import ArrayLike

from moeopt.core.errors import InfeasibleError
from moeopt.core.logs import logger_of
from moeopt.core.units import GIB, MIB
from moeopt.sim.costs.interval import within
from moeopt.sim.costs.prompt import prompt_factor, prompt_speed
from moeopt.sim.costs.terms import TERMS
from moeopt.sim.costs.threads import threaded
from moeopt.sim.costs.token import decode_times, decode_us
from moeopt.sim.machines.runtimes.causes import Explained, told_of
from moeopt.sim.machines.runtimes.command import (
    command_line,
    override,
    running,
    strategy,
    uniform_experts,
)
from moeopt.sim.machines.runtimes.context import Context
from moeopt.sim.machines.runtimes.memory import WITH_GRAPH, Use, is_stated, unstated, uses
from moeopt.sim.machines.runtimes.placement import Placement
from moeopt.sim.machines.runtimes.profile import Certainty
from moeopt.sim.machines.runtimes.setting import Setting
from moeopt.sim.machines.runtimes.speeds import (
    Speed,
    WithSpeeds,
    depths_of,
    speed_at,
    speeds_as_dict,
)
from moeopt.sim.models.quantisations import not_read

logger = logger_of(__name__)

PARTS = {
    "gpu_memory": ("gpu_read", "gpu_decode"),
    "attention": ("gpu_kv", "gpu_scores", "gpu_latent", "host_kv", "host_latent"),
    "host_memory": ("host_read", "oblivious_read"),
    "cpu_cores": ("host_decode",),
    "gpu_launches": (
        *("token_us", "layer_us", "latent_layer_us", "linear_layer_us"),
        *("later_layer_us", "gpu_hop_us"),
    ),
    "cpu_layers": ("cpu_layer_us", "cpu_latent_layer_us", "cpu_linear_layer_us"),
    "cpu_hand_overs": ("host_layer_us", "host_expert_us"),
}
"""Part of a token's time -> its terms."""

WORDS = {
    "gpu_memory": "reading weights from GPU memory",
    "attention": "attention over the context",
    "host_memory": "reading experts from host memory",
    "cpu_cores": "unpacking quantised weights on the CPU's cores",
    "gpu_launches": "launching the GPU's kernels",
    "cpu_layers": "attention's kernels on the CPU, and their barriers",
    "cpu_hand_overs": "synchronisation with the CPU and its barriers",
}


@dataclass(frozen=True)
class Prediction(WithSpeeds):
    """A predicted speed: one sequence, one token per step.

    Attributes
    ----------
    setting, placement
        What was predicted.
    speeds
        Tokens/s of decoding and of a prompt, with 80 % intervals, at the depth asked for and at
        others.
    parts_ms
        ms per token of gpu_memory, host_memory, gpu_launches and cpu_hand_overs.
    uses
        What the memories of GPU and host go to.
    certainty, expect
        "not calibrated", "calibrated on this model" or "calibrated on another model", and what that
        means in words.
    notes
        What is tight, and what was assumed.
    command
        What runs it; None where it takes more than flags.
    asks
        What decides the speed and was assumed, with the option that says it.
    explained
        By what a measured speed differs, where one was given.
    """

    setting: Setting
    placement: Placement
    speeds: tuple[Speed, ...]
    parts_ms: Mapping[str, float]
    uses: tuple[Use, ...]
    certainty: Certainty
    expect: str
    notes: tuple[str, ...]
    command: str | None
    asks: tuple[str, ...] = ()
    explained: Explained | None = None

    def __repr__(self) -> str:
        what, first = self.setting, self.speeds[0]
        where = f"{what.model.name} on {what.machine.name}, {what.runtime}"
        ends = f"[{self.low:g}, {self.high:g}]"
        return (
            f"<prediction: {where}: {self.tokens_per_s:g} tokens/s {ends} at {first.depth} tokens>"
        )

    @property
    def bottleneck(self) -> str:
        """The part of the time that is longest: a key of `parts_ms`."""
        return max(self.parts_ms, key=lambda part: self.parts_ms[part])

    @property
    def n_cpu_moe(self) -> int | None:
        """Blocks whose experts the CPU computes; None where layers are split."""
        return self.placement.blocks(self.setting)

    @property
    def memory(self) -> dict[str, str]:
        """What either memory goes to, in words."""
        return {use.name: use.in_words() for use in self.uses}

    @property
    def memory_mib(self) -> dict[str, int]:
        """MiB needed of either memory."""
        return {use.name: -(-use.needed // MIB) for use in self.uses}

    def to_dict(self) -> dict[str, object]:
        """Return the prediction as JSON values."""
        context = self.setting.context
        needed = {use.name: round(use.needed / GIB, 2) for use in self.uses}
        found: dict[str, object] = {
            "tokens_per_s": self.tokens_per_s,
            "low": self.low,
            "high": self.high,
            "bottleneck": self.bottleneck,
            "parts_ms": dict(self.parts_ms),
            "runtime": self.setting.runtime,
            "n_cpu_moe": self.n_cpu_moe,
            "context": context.allocated,
            "depth": context.depth,
            "certainty": self.certainty,
            "expect": self.expect,
            "gpu_gib": needed.get("GPU memory", 0.0),
            "host_gib": needed["host memory"],
            "notes": list(self.notes),
            "memory": self.memory,
            "memory_mib": self.memory_mib,
            "command": self.command,
            "prompt_tokens_per_s": self.prompt_tokens_per_s,
            "asks": list(self.asks),
            "explained": None if self.explained is None else self.explained.to_dict(),
        }
        return found | speeds_as_dict(context, self.speeds)


def predict(
    setting: Setting,
    placement: Placement | None = None,
    popularity: Sequence[Sequence[float]] | ArrayLike | None = None,
    *,
    prompt: int | None = None,
    path: str | None = None,
    assumed: tuple[str, ...] = (),
    measured: float | None = None,
) -> Prediction:
    """Predict the decode speed of a runtime, one sequence at a time.

    Parameters
    ----------
    placement
        By default the experts of the fewest blocks with which the rest fits are on the CPU.
    popularity
        MoE layers x experts: how often each is called; by default all equally.
    prompt
        Tokens of a prompt; by default one that fills the cache to each depth.
    path
        The model's file, for the command line.
    assumed
        Notes of what was assumed before.
    measured
        Tokens/s that were measured, to be explained.

    Raises
    ------
    InputError
        If the machine cannot run the setting.
    InfeasibleError
        If it does not fit: the message says how many MiB are missing.
    """
    asked, fits_itself = setting.threads, placement is None
    setting = threaded(setting)
    if placement is None:
        placement = Placement.of_blocks(setting, fewest_cpu_blocks(setting))
    calls = placement.host_calls(setting, popularity)
    needed = uses(setting, calls)
    name = f"{setting.model.name} on {setting.machine.name}, {setting.runtime}"
    logger.info("%s: memory: %s", name, "; ".join(use.in_words() for use in needed))
    hopeless = [use for use in needed if _least_missing(use)]
    if hopeless or (fits_itself and needed[0].missing and setting.machine.gpus):
        raise InfeasibleError(_does_not_fit(hopeless[0] if hopeless else needed[0]))
    notes = assumed + not_read(setting.model.quantisation, setting.runtime)
    notes += tuple(
        f"{use.in_words()}, {-(-use.missing // MIB):,} more than the machine has: close other"
        " programs or choose a smaller setting"
        for use in needed
        if use.missing
    )
    if not is_stated(setting.machine) and max(calls) > 0:
        notes += (unstated(setting.machine, needed[-1].needed),)
    expected = within(setting, calls)
    times_us = decode_times(setting, calls)
    by_term = dict(zip(TERMS, times_us.tolist(), strict=True))
    parts = {part: sum(by_term[term] for term in terms) / 1e3 for part, terms in PARTS.items()}
    speeds = []
    for depth in depths_of(setting.context):
        at = replace(setting, context=Context(depth, setting.context.allocated))
        length = prompt or max(depth, setting.ubatch)
        reading = prompt_speed(setting, length, calls), prompt_factor(setting, length, calls)
        speeds.append(speed_at(depth, decode_us(at, calls), within(at, calls).factor, *reading))

    def speed_of(other: Setting) -> float:
        return 1e6 / decode_us(other, calls)

    asks, why_so = told_of(setting, calls, asked, speed_of, speeds[0], measured)
    found = Prediction(
        setting=setting,
        placement=placement,
        speeds=tuple(speeds),
        parts_ms={part: round(ms, 4) for part, ms in parts.items()},
        uses=needed,
        certainty=expected.certainty,
        expect=expected.in_words(),
        notes=notes,
        command=_command(setting, placement, path),
        asks=asks,
        explained=why_so,
    )
    logger.info("%s: predicted: %.4g tokens/s, %s", name, speeds[0].decode, speeds[0].within)
    return found


def fewest_cpu_blocks(setting: Setting) -> int:
    """Return the least ``--n-cpu-moe`` with which the rest fits into GPU memory, buffers included.

    Without a GPU, or where nothing fits, all blocks; none where one memory is shared.
    """
    machine, layers = setting.machine, setting.model.layers
    if not machine.gpus:
        return layers
    if machine.unified or not machine.nodes:
        return 0
    for blocks in range(layers + 1):
        calls = Placement.of_blocks(setting, blocks).host_calls(setting)
        if not uses(setting, calls)[0].missing:
            return blocks
    return layers


def check_fits(setting: Setting, placement: Placement | None) -> None:
    """Raise InfeasibleError unless everything fits, with what the system and buffers keep free."""
    if placement is None:
        placement = Placement.of_blocks(setting, fewest_cpu_blocks(setting))
    for use in uses(setting, placement.host_calls(setting)):
        if use.missing:
            raise InfeasibleError(_does_not_fit(use))


def _least_missing(use: Use) -> int:
    """Return the bytes that are missing even if nothing is kept free."""
    spare = sum(use.parts.get(name, 0) for name in ("reserved", "system", "buffers"))
    return 0 if use.total is None else max(0, use.needed - spare - use.total)


def _does_not_fit(use: Use) -> str:
    have = (use.total or 0) // MIB
    missing = -(-use.missing // MIB)
    return f"{use.in_words()}, {missing:,} MiB more than the {have:,} there are"


def _command(setting: Setting, placement: Placement, path: str | None) -> str | None:
    """Return the command that runs what was predicted; None where it takes more than flags.

    ktransformers fills layers from the first on, so that the last ones are on the CPU.
    """
    gpus, model, blocks = setting.machine.gpus, setting.shape, placement.blocks(setting)
    if setting.runtime in WITH_GRAPH:
        if blocks is None:
            return None
        off = ["--n-cpu-moe", str(blocks)] if blocks else []
        if setting.runtime == "ik_llama.cpp":  # which counts otherwise
            on_host = (layer for layer in model.moe_layers if layer < blocks)
            off = override(on_host, quoted=True)
        placing = ["-ngl", "99", *off] if gpus else []
    elif not gpus or model.bits_of("kv") not in (8, 8.5, 16):
        return None
    elif placement.gpu_experts is not None:
        placing = uniform_experts(placement.gpu_experts)
    elif blocks is not None:
        calls = placement.host_calls(setting)
        placing = strategy("front-loading", share=(calls.count(0.0), len(calls)))
    else:
        return None
    return command_line(model, placing, running(setting), path)
