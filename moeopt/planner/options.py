"""What a plan may be asked for: the options of `moeopt.plan` and of ``moeopt plan``."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from moeopt.core.errors import InputError
from moeopt.core.options import Options, option
from moeopt.core.units import gib_of, tokens_of, whole_of
from moeopt.sim.machines.runtimes.context import DEPTH, ContextOptions

from .goal import Goal

if TYPE_CHECKING:
    from moeopt.solvers.arguments import Limits

DECIDED_ON = 1000
"""Steps that are decided on unless it is said how many. With 200 of them the plan of ``moeopt plan
--machine rtx4090-7960x --model deepseek-v2-lite --trace law.npz --hold-out-steps 1000`` has 42.0
tokens/s on held-out steps, with 1,000 44.0, with 4,000 44.1 (``--decide-steps``)."""

HELD_OUT = 500
"""Steps that are held out unless it is said how many."""


def _text(_: str, value: str | float) -> str:
    return str(value)


OVER_DEVICES = "Several GPUs or nodes"
"""Heading of options that only such machines have."""

SECONDS = 60.0
"""Time limit where none is given."""

OF_LIMITS = ("time_limit_s", "work_limit")
"""Options that nothing feels where there is nothing to search for."""

OF_SEARCHES = ("joint_time_s", "workers", "seed")
"""Options that whole layers do not feel: they are placed by one exact method, from times alone."""

OF_ALL = ("context", "depth", "bits", "kv_bits", "runtime", *OF_LIMITS, *OF_SEARCHES)
"""Options that ask for no strategy; all others of a plan ask for single experts."""


@dataclass(frozen=True, kw_only=True)
class PlanOptions(ContextOptions):
    """Options of `moeopt.plan` and of ``moeopt plan``."""

    batch: int = option(1, "Tokens in a step.", least=1)
    steps: int | None = option(
        None,
        "Most steps to decide on, and to hold out; default: 1000 and 500.",
        least=1,
        group="Steps",
        rare=True,
    )
    decide_steps: int | None = option(
        None, "Most steps to decide on; default: --steps.", least=1, group="Steps", rare=True
    )
    hold_out_steps: int | None = option(
        None, "Most steps to hold out; default: --steps.", least=1, group="Steps", rare=True
    )
    held_out: float | None = option(
        None,
        "Share of a trace that is held out; default: 0.3. Of others steps are drawn anew.",
        group="Steps",
        rare=True,
    )
    keep_repeats: bool = option(
        False,
        "Do not leave out what a trace reads twice; held-out steps may then be known ones.",
        group="Steps",
        rare=True,
    )
    reserved_gib: float | None = option(
        None,
        "GPU memory that stays free; default: as the runtime needs.",
        read=gib_of,
        least=0,
        group="Memory",
    )
    host_reserved_gib: float | None = option(
        None,
        "Host memory that stays free; default: 5 %.",
        read=gib_of,
        least=0,
        group="Memory",
        rare=True,
    )
    max_deferred: int = option(
        0,
        "Most deferred experts per layer, at most all but two of the top-k (KTransformers 4.2);"
        " changes the model's output.",
        least=0,
    )
    average_bits: float | None = option(
        None, "Bits per weight of the experts on average, and of everything else.", group="Widths"
    )
    bits: str | None = option(
        None,
        "Bits of all weights, or Q4_K_M etc.; with an average or a quality loss: the widths to"
        " choose from, by default 2,4,8,16.",
        read=_text,
        group="Widths",
    )
    other_bits: float | None = option(
        None, "Bits per weight of everything but the routed experts.", group="Widths", rare=True
    )
    kv_bits: str | None = option(
        None, "Bits of a number in the KV cache, or q8_0 etc.", read=_text, group="Widths"
    )
    loss_table: Path | None = option(
        None,
        "Measured losses of these widths: CSV, npz or JSON; default: by a law.",
        group="Widths",
        rare=True,
    )
    runtime: str | None = option(
        None,
        "Whose times, and what it can run: moeopt list runtimes, or machine; default: calibrated,"
        " the machine file's own, llama.cpp.",
    )
    quality_loss: float | None = option(
        None,
        "Share of outputs that widths and deferral together may lose; widths are then decided"
        " jointly.",
        least=0,
        most=1,
        group="Widths",
    )
    joint_time_s: float | None = option(
        None,
        "Seconds of the limit to decide all at once, with a bound on every plan; default: half;"
        " 0: none.",
        group="Limits",
        rare=True,
    )
    time_limit_s: float | None = option(
        None,
        "Seconds for building and solving; default: 60, of several devices and ranks work.",
        above=0,
        metavar="S",
        group="Limits",
    )
    work_limit: float | None = option(
        None,
        "Instead, units of work, each about a second of one core: the same plan on every machine.",
        above=0,
        metavar="W",
        group="Limits",
    )
    workers: int = option(
        1, "Threads; --work-limit needs 1.", least=1, metavar="N", group="Limits", rare=True
    )
    seed: int = option(
        0, "Seed of everything random.", least=0, metavar="N", group="Limits", rare=True
    )

    def __post_init__(self) -> None:
        """Raise InputError unless the options make sense together."""
        super().__post_init__()
        if self.work_limit is not None and self.workers != 1:
            raise InputError(f"needs one worker, not {self.workers}", field="work_limit")
        if self.quality_loss is not None and self.average_bits is not None:
            raise InputError(
                "not with average_bits: one budget of widths is enough", field="quality_loss"
            )
        if self.quality_loss is not None and self.joint_time_s == 0:
            raise InputError(
                "is for all decisions at once; joint_time_s is 0", field="quality_loss"
            )
        if not 0 <= self.joint_limit_s < self.seconds:
            most = f"from 0 to below the time limit, {self.seconds:g}"
            raise InputError(f"must be {most}, not {self.joint_time_s}", field="joint_time_s")

    @property
    def seconds(self) -> float:
        """The time limit."""
        return SECONDS if self.time_limit_s is None else self.time_limit_s

    @property
    def joint_limit_s(self) -> float:
        """Of the time limit, what deciding everything at once may take."""
        return self.seconds / 2 if self.joint_time_s is None else self.joint_time_s

    @property
    def limits(self) -> "Limits":
        """What everything together may take."""
        from moeopt.solvers.arguments import limits

        return limits(self.time_limit_s, self.work_limit, self.workers)

    def limits_or(self, usual: "Limits") -> "Limits":
        """Return the limits that are asked for; else those which are usual."""
        return self.limits if {*self.given} & {*OF_LIMITS} else usual

    @property
    def most_decided_on(self) -> int:
        """Most steps that are decided on."""
        return self.decide_steps or self.steps or DECIDED_ON

    @property
    def most_held_out(self) -> int:
        """Most steps that are held out, or drawn anew."""
        return self.hold_out_steps or self.steps or HELD_OUT


@dataclass(frozen=True, kw_only=True)
class SeveralOptions(Options):
    """Options of ``moeopt plan`` for whole layers, on one device or over several."""

    group = "Whole layers"

    prompt_tokens: int = option(0, "Tokens of a prompt, beside the reply.", read=tokens_of)
    reply_tokens: int = option(500, "Tokens of a reply.", read=tokens_of)
    ubatch: int | None = option(
        None,
        "Tokens of a prompt computed together; default: 512, on one GPU or none the best.",
        read=tokens_of,
        least=1,
    )
    path: str | None = option(None, "The model's file, for the command.")
    numa: str = option(
        "interleaved",
        "How memory is spread: interleaved, first-touch, nodes, mirrored or isolate.",
        group=OVER_DEVICES,
    )
    granularity: str = option(
        "layer",
        "Experts by layer, or by tensor: gate, up and down apart.",
        group=OVER_DEVICES,
        rare=True,
    )
    backend: str = option(
        "CUDA", "What GPUs are called: CUDA, ROCm, Vulkan, MTL.", group=OVER_DEVICES, rare=True
    )

    @property
    def goal(self) -> Goal:
        """What a plan is to be the best for."""
        return Goal(self.prompt_tokens, self.reply_tokens)


OF_LAYERS = ("prompt_tokens", "reply_tokens", "ubatch", "path")
"""Options of whole layers that those on one device have as well."""


def depth_of(options: PlanOptions, goal: Goal) -> int:
    """Return how many tokens are in the cache: as asked for, or else halfway through a reply."""
    if options.depth is not None or not goal.prompt:
        return options.cache.depth
    return min(options.context, goal.prompt + goal.reply // 2)


@dataclass(frozen=True, kw_only=True)
class RankOptions(Options):
    """Options of ``moeopt plan`` for expert parallelism, which needs counts and no machine."""

    group = "Expert parallelism"

    ep_size: int | None = option(
        None, "Ranks over which a layer's experts are spread, from --counts.", least=1, most=4096
    )
    redundant_experts: int | None = option(
        None,
        "Copies in each layer; default: the fewest that divide evenly over the ranks.",
        least=0,
        most=2**16,
    )
    nodes: int = option(1, "Nodes of equally many ranks.", least=1, most=4096)
    groups: int | None = option(
        None, "Groups of experts, each of which stays in one node.", least=1, most=4096
    )
    to: str | None = option(None, "Whose map goes into --out: sglang, vllm-ascend or tensorrt-llm.")


def _each_layer(name: str, value: str | int | Sequence[int]) -> int | Sequence[int]:
    """Return one number for all layers, or one for each: text has commas between."""
    if not isinstance(value, str):
        return value
    numbers = [whole_of(name, part) for part in value.split(",")]
    return numbers if len(numbers) > 1 else numbers[0]


@dataclass(frozen=True, kw_only=True)
class ExecutionOptions(Options):
    """Options of `moeopt.simulate` and of ``moeopt simulate``."""

    steps: int | None = option(None, "Steps; default: all that there are, of a workload 8.")
    layers: int | None = option(None, "The first so many; default: all.")
    batch: int = option(1, "Tokens in a step of a trace; counts say it themselves.")
    attention_ns: int | Sequence[int] | None = option(
        None, "In place of the plan's: one number, or one per layer.", read=_each_layer
    )
    other_ns: int | Sequence[int] | None = option(
        None, "In place of the plan's: one number, or one per layer.", read=_each_layer
    )
    depth: int | None = option(
        None,
        "Attention etc. by the cost model, so many tokens in the KV cache; default: as the plan"
        f" says, else by a runtime's times at {DEPTH}.",
        read=tokens_of,
    )
    kv_bits: str | None = option(None, "KV cache: bits, or q8_0 etc.", read=_text)
    runtime: str | None = option(
        None,
        "Whose times: moeopt list runtimes, or machine; default: calibrated, the machine file's,"
        " llama.cpp.",
    )
    quantum_ns: int | None = option(
        None, "Costs of experts are multiples of this; default: 5000, with a runtime 10."
    )
