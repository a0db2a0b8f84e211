"""What a token takes in a real runtime: tokens per second with an interval, and the bottleneck."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from moeopt.core.errors import InfeasibleError, InputError, expect
from moeopt.core.logs import logger_of
from moeopt.core.options import takes, with_given
from moeopt.core.units import GIB, MIB
from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.runtimes.command import (
    command_line,
    override,
    running,
    strategy,
    uniform_experts,
)
from moeopt.sim.machines.runtimes.context import Context
from moeopt.sim.machines.runtimes.costs import costs_of, what_to_expect
from moeopt.sim.machines.runtimes.memory import (
    PLAIN_WIDTHS,
    UBATCH,
    WITH_GRAPH,
    Use,
    is_stated,
    kv_bits_of,
    unstated,
)
from moeopt.sim.machines.runtimes.options import PredictOptions
from moeopt.sim.machines.runtimes.profile import (
    Certainty,
    RuntimeProfile,
    get_runtime,
)
from moeopt.sim.machines.runtimes.setting import (
    Setting,
    amounts,
    prompt_us,
)
from moeopt.sim.machines.runtimes.speeds import Speed, speeds_as_dict
from moeopt.sim.machines.runtimes.terms import TERMS, term_times
from moeopt.sim.machines.runtimes.threads import threaded
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.models.quantisations import at_bits, narrower, not_read
from moeopt.sim.presets import get_machine, get_model

logger = logger_of(__name__)

PARTS = {
    "gpu_memory": ("gpu_read", "gpu_decode"),
    "attention": ("gpu_kv", "gpu_scores", "gpu_latent", "host_kv", "host_latent"),
    "host_memory": ("host_read", "oblivious_read"),
    "cpu_cores": ("host_decode",),
    "gpu_launches": ("token_us", "layer_us", "latent_layer_us", "linear_layer_us"),
    "cpu_hand_overs": ("host_layer_us", "host_expert_us", "cpu_layer_us"),
}
"""Part of a token's time -> its terms."""

WORDS = {
    "gpu_memory": "reading weights from GPU memory",
    "attention": "attention over the context",
    "host_memory": "reading experts from host memory",
    "cpu_cores": "unpacking quantised weights on the CPU's cores",
    "gpu_launches": "launching the GPU's kernels",
    "cpu_hand_overs": "hand-overs to the CPU and its barriers",
}


@dataclass(frozen=True)
class Prediction:
    """A predicted speed: one sequence, one token per step.

    Attributes
    ----------
    tokens_per_s, low, high
        Predicted, and the ends of the 80 % interval.
    bottleneck
        The part of the time that is longest: a key of `parts_ms`.
    parts_ms
        ms per token of gpu_memory, host_memory, gpu_launches and cpu_hand_overs.
    runtime, n_cpu_moe, context, depth
        What was predicted: `context` is how many tokens the KV cache has room for, `depth` how many
        are in it; `n_cpu_moe` is None where experts were placed by a plan or by number.
    certainty
        "not calibrated", "calibrated on this model" or "calibrated on another model".
    expect
        What that means, in words.
    gpu_gib, host_gib
        GiB needed of either memory.
    notes
        What is tight, and what was assumed.
    memory
        What either memory goes to, in words.
    memory_mib
        MiB needed of either memory.
    command
        What runs it; None where it takes more than flags.
    prompt_tokens_per_s
        At which a prompt is read, if that was asked for: by rates alone.
    """

    tokens_per_s: float
    low: float
    high: float
    bottleneck: str
    parts_ms: dict[str, float]
    runtime: str
    n_cpu_moe: int | None
    context: int
    depth: int
    certainty: Certainty
    expect: str
    gpu_gib: float
    host_gib: float
    notes: tuple[str, ...]
    memory: dict[str, str]
    memory_mib: dict[str, int]
    command: str | None
    prompt_tokens_per_s: float | None = None

    def to_dict(self) -> dict[str, object]:
        """Return the prediction as JSON values."""
        speed = Speed(self.depth, self.tokens_per_s, self.low, self.high, self.prompt_tokens_per_s)
        context = Context(self.depth, self.context)
        return asdict(self) | {"notes": list(self.notes)} | speeds_as_dict(context, speed)


@takes(PredictOptions)
def predict(
    machine: Machine | str | Path,
    model: ModelShape | str | Path,
    *,
    options: PredictOptions | None = None,
    **given: object,
) -> Prediction:
    """Predict the decode speed of a runtime on a machine, one sequence at a time.

    Parameters
    ----------
    machine, model
        Or their names or files (`get_machine`, `get_model`).
    options
        What else may be said; `moeopt.sim.machines.runtimes.options.PredictOptions` explains it.
    **given
        Fields of these options by keyword, in place of `options` or changing some of them.

    Returns
    -------
    Prediction
        With an 80 % interval from points that were held out of the fit.

    Raises
    ------
    InputError
        If a name is unknown, or the machine cannot run the setting.
    InfeasibleError
        If it does not fit: the message says how many MiB are missing, and the nearest quantisation
        that fits.

    Notes
    -----
    A token takes the sum of the terms in `moeopt.sim.machines.runtimes.terms`: bytes over measured
    bandwidths, operations over rates, and fixed times per token, layer, layer with experts on the
    CPU and such expert. Costs of the terms: those of a calibration where the machine has one, else
    of the runtime's profile, fitted to public measurements (docs/measured.md).

    Examples
    --------
    >>> import moeopt
    >>> found = moeopt.predict("rtx4090+epyc-9004", "glm-4.5-air", bits="Q4_K_M", context=4096)
    >>> found.low < found.tokens_per_s < found.high, found.certainty
    (True, 'not calibrated')
    """
    options = with_given(PredictOptions, options, given)
    machine = get_machine(machine) if isinstance(machine, str | Path) else machine
    if isinstance(model, str | Path) and options.path is None and str(model).endswith(".gguf"):
        options = replace(options, path=str(model))
    model = get_model(model) if isinstance(model, str | Path) else model
    expect("machine", machine, Machine, what="a machine, its name or file")
    expect("model", model, ModelShape, what="a model, its name or file")
    machine = with_gpus(machine, options.gpus)
    if options.n_cpu_moe is not None and not machine.gpus:
        raise InputError(
            f"has no effect: {machine.name} has no GPU, its CPU computes all blocks",
            field="n_cpu_moe",
        )
    if options.kv_bits is not None:
        bits = kv_bits_of(options.kv_bits)
        bits = PLAIN_WIDTHS.get(bits, bits) if options.runtime in WITH_GRAPH else bits
        model = model.with_kv_bits(bits)
    sized = model if options.bits is None else at_bits(model, options.bits)
    machine = threaded(machine, sized, get_runtime(options.runtime), options.threads)
    setting, notes = _setting(machine, sized, options)
    notes += not_read(sized.quantisation, options.runtime)
    uses = setting.uses(options.runtime, options.ubatch)
    name = f"{sized.name} on {machine.name}, {options.runtime}"
    logger.info("%s: memory: %s", name, "; ".join(use.in_words() for use in uses))
    hopeless = [use for use in uses if _least_missing(use)]
    if hopeless or (options.places_itself and uses[0].missing and machine.gpus):
        bad = hopeless[0] if hopeless else uses[0]
        raise InfeasibleError(_does_not_fit(machine, model, options, bad))
    notes += tuple(
        f"{use.in_words()}, {-(-use.missing // MIB):,} more than the machine has: close other"
        " programs or choose a smaller setting"
        for use in uses
        if use.missing
    )
    if not is_stated(machine) and max(setting.host_calls) > 0:
        notes += (unstated(machine, uses[-1].needed),)
    found = of_setting(setting, get_runtime(options.runtime), options, notes)
    speeds = found.tokens_per_s, found.low, found.high
    logger.info("%s: predicted: %.4g tokens/s, %.4g to %.4g", name, *speeds)
    return found


def with_gpus(machine: Machine, gpus: int | None) -> Machine:
    """Return the machine with so many GPUs like its first."""
    if gpus is None:
        return machine
    return machine.with_gpus(gpus)


def _setting(
    machine: Machine, model: ModelShape, options: PredictOptions
) -> tuple[Setting, tuple[str, ...]]:
    """Return where the experts are, and what was assumed."""
    numa = get_runtime(options.runtime).numa
    context = options.cache
    equally = "experts are taken to be called equally often"
    if options.gpu_experts is not None:
        count = options.gpu_experts
        made = Setting.with_gpu_experts(machine, model, count, context, numa=numa)
        return made, (equally,)
    if options.plan is not None:
        plan, popularity = options.plan, options.popularity
        made = Setting.of_plan(machine, model, plan, popularity, context, numa=numa)
        notes: tuple[str, ...] = (equally,) if popularity is None else ()
        if ways := sum(plan.cache_ways or ()):
            notes += (
                f"{ways} places of caches in the plan are left out: no runtime has them here",
            )
        return made, notes
    blocks = options.n_cpu_moe
    if blocks is None:
        blocks = fewest_cpu_blocks(machine, model, context, options.runtime, options.ubatch)
    return Setting.with_cpu_blocks(machine, model, blocks, context, numa=numa), ()


def fewest_cpu_blocks(
    machine: Machine,
    model: ModelShape,
    context: Context,
    runtime: str = "llama.cpp",
    ubatch: int = UBATCH,
) -> int:
    """Return the least ``--n-cpu-moe`` with which the rest fits into GPU memory, buffers included.

    Without a GPU, or where nothing fits, all blocks; none where one memory is shared.
    """
    if not machine.gpus:
        return model.layers
    if machine.unified or not machine.nodes:
        return 0
    for blocks in range(model.layers + 1):
        setting = Setting.with_cpu_blocks(machine, model, blocks, context)
        if not setting.uses(runtime, ubatch)[0].missing:
            return blocks
    return model.layers


def _least_missing(use: Use) -> int:
    """Return the bytes that are missing even if nothing is kept free."""
    spare = sum(use.parts.get(name, 0) for name in ("reserved", "system", "buffers"))
    return 0 if use.total is None else max(0, use.needed - spare - use.total)


def _does_not_fit(machine: Machine, model: ModelShape, options: PredictOptions, use: Use) -> str:
    """Return what is missing, and the nearest quantisation with which it fits."""
    fits = None
    for name in narrower(model, options.bits, options.runtime):
        setting, _ = _setting(machine, at_bits(model, name), options)
        if not any(one.missing for one in setting.uses(options.runtime, options.ubatch)):
            fits = name
            break
    hint = "no quantisation fits" if fits is None else f"it fits with --bits {fits}"
    have = (use.total or 0) // MIB
    return (
        f"{use.in_words()}, {-(-use.missing // MIB):,} MiB more than the {have:,} there are; {hint}"
    )


def of_setting(
    setting: Setting,
    profile: RuntimeProfile,
    options: PredictOptions | None = None,
    notes: tuple[str, ...] = (),
) -> Prediction:
    """Predict a setting by a machine's calibration of the runtime, else by its profile."""
    options = PredictOptions() if options is None else options
    costs, certainty = costs_of(setting.machine, setting.model, profile)
    within = profile.interval(certainty, setting.kind)
    times_us = term_times(amounts(setting), costs)
    by_term: Mapping[str, float] = dict(zip(TERMS, times_us.tolist(), strict=True))
    parts = {part: sum(by_term[term] for term in terms) / 1e3 for part, terms in PARTS.items()}
    speed = 1e6 / float(times_us.sum())
    uses = {use.name: use for use in setting.uses(profile.name, options.ubatch)}
    blocks = _blocks(setting) if options.plan is None and options.gpu_experts is None else None
    return Prediction(
        tokens_per_s=_four_digits(speed),
        low=_four_digits(speed / within.factor),
        high=_four_digits(speed * within.factor),
        bottleneck=max(parts, key=lambda part: parts[part]),
        parts_ms={part: round(ms, 4) for part, ms in parts.items()},
        runtime=profile.name,
        n_cpu_moe=blocks,
        context=setting.context.allocated,
        depth=setting.context.depth,
        certainty=certainty,
        expect=what_to_expect(within),
        gpu_gib=round(uses["GPU memory"].needed / GIB, 2) if "GPU memory" in uses else 0.0,
        host_gib=round(uses["host memory"].needed / GIB, 2),
        notes=notes,
        memory={name: use.in_words() for name, use in uses.items()},
        memory_mib={name: -(-use.needed // MIB) for name, use in uses.items()},
        command=_command(setting, profile, blocks, options),
        prompt_tokens_per_s=None
        if options.prompt is None
        else _four_digits(prompt_speed(setting, options.prompt, options.ubatch, profile.name)),
    )


def _blocks(setting: Setting) -> int:
    """Return the blocks whose experts the CPU computes: those before the first that it does not."""
    if not setting.machine.gpus:
        return setting.model.layers
    computed = [row for row, share in enumerate(setting.host_calls) if share]
    return setting.model.moe_layers[computed[-1]] + 1 if computed else 0


def _command(
    setting: Setting, profile: RuntimeProfile, blocks: int | None, options: PredictOptions
) -> str | None:
    """Return the command that runs what was predicted; None where it takes more than flags.

    ktransformers fills layers from the first on, so that the last ones are on the CPU.
    """
    machine, model = setting.machine, setting.model
    if profile.name in WITH_GRAPH:
        if blocks is None:
            return None
        off = ["--n-cpu-moe", str(blocks)] if blocks else []
        if profile.name == "ik_llama.cpp":  # which counts otherwise
            off = override(layer for layer in model.moe_layers if layer < blocks)
        placing = ["-ngl", "99", *off] if machine.gpus else []
    elif not machine.gpus or options.plan is not None or model.bits_of("kv") not in (8, 8.5, 16):
        return None
    elif options.gpu_experts is not None:
        placing = uniform_experts(options.gpu_experts)
    else:
        calls = setting.host_calls
        placing = strategy("front-loading", share=(calls.count(0.0), len(calls)))
    how = running(machine, model, setting.context.allocated, options.ubatch, profile.name)
    return command_line(model, placing, how, options.path)


def prompt_speed(setting: Setting, prompt: int, ubatch: int, runtime: str) -> float:
    """Return the tokens/s at which a prompt is read, by rates alone: not fitted to measurements."""
    machine, tokens = setting.machine, min(prompt, ubatch)
    hosts = [setting.cores] if machine.nodes else []
    attention, experts = prompt_us(machine, hosts, setting.model, runtime, tokens, prompt)
    calls, moe = np.array(setting.host_calls), list(setting.model.moe_layers)
    here, host = experts[moe, 0], experts[moe, -1]
    return 1e6 * tokens / float(attention[:, 0].sum() + here @ (1.0 - calls) + host @ calls)


def _four_digits(value: float) -> float:
    return float(f"{value:.4g}")
