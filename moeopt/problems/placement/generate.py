"""placement instances: the steps of a trace, the two sides' costs, and the room for experts.

Times come from `moeopt.sim.costs.step`: an expert that is on the GPU, and one that the CPU
computes. The fixed charge of a layer that offloads anything is one hand-over of its activations,
`sync_us` of the machine. Room: the GPU's memory less the weights of everything else, the KV cache
of all sequences at the stated context, and a reserve.

What the published rules may know comes before the steps: with `first_sequence` the prompts of the
sequences that the steps decode, as the papers have it, and as an offline profile all other
sequences; else the trace's earlier steps. Provenance says which. Of counts the steps are drawn
(`moeopt.sim.traces.count_sample`), and the counts are the profile.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from moeopt.core.envelope import Frozen, absent
from moeopt.core.errors import InputError
from moeopt.core.units import GIB
from moeopt.sim.costs.quanta import to_quanta
from moeopt.sim.machines.machine import Machine
from moeopt.sim.models.importance import chosen, decode_tokens, prefill_tokens
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.source import FeltWhere, Source, Where
from moeopt.sim.traces.count_sample import UNKNOWN, sample_trace
from moeopt.sim.traces.trace import Batching, Counts, Tokens, Trace, all_step_tokens
from moeopt.sim.traces.windows import MAX_SYNTHETIC_TOKENS, STREAMS_SAID

from .fields import MAX_TABLE, Known
from .instance import Dispatch, Instance, Restriction

Ints = NDArray[np.int64]

SCORE_SCALE = 10**6
"""What a routing weight of 1 is as an integer."""


@dataclass(frozen=True)
class Served:
    """Steps, and what came before.

    Attributes
    ----------
    counts
        Tokens of every expert in every step, shape (steps, layers, experts).
    known
        None if nothing came before.
    words
        Where `known` comes from, for provenance.
    """

    counts: Ints
    known: Known | None
    words: dict[str, Any]


@dataclass(frozen=True)
class Stretch:
    """Which steps: `length` of them from `first` on, with `batch` tokens, in the first `layers`."""

    first: int
    length: int
    batch: int
    batching: Batching
    layers: int
    experts: int


def served(trace: Trace, stretch: Stretch) -> Served:
    """Return some steps of a trace; known are the counts of all steps before them.

    Raises
    ------
    InputError
        If the trace has fewer steps or layers.
    """
    steps = all_step_tokens(trace, stretch.batch, stretch.batching)
    counts = _counts(trace, steps, stretch)
    if not stretch.first:
        return Served(counts, None, {})
    earlier = np.concatenate(steps[: stretch.first])
    profile = np.array(_of_layers(trace, earlier, stretch))
    words = {"profile_counts": f"{len(earlier)} tokens of the {stretch.first} steps before"}
    return Served(counts, Known(profile_counts=profile), words)


def served_after_prompts(trace: Trace, stretch: Stretch, sequence: int, share: float) -> Served:
    """Return the steps that decode some sequences side by side, one token of each at a time.

    Known are counts and routing scores of their prompts, and as a profile the counts of all other
    sequences.

    Parameters
    ----------
    stretch
        `batch` sequences are decoded; steps count from their first generated token on.
    sequence
        The first of them.
    share
        Of each sequence that is its prompt, where the trace does not mark what was generated.

    Raises
    ------
    InputError
        If the trace does not know its sequences, or has fewer sequences, steps or layers.
    """
    if trace.seq_len is None:
        raise InputError(f"{trace.name}: seq_len: is needed for first_sequence, but unknown")
    lengths = np.asarray(trace.seq_len, dtype=np.int64)
    last = sequence + stretch.batch - 1
    if last >= len(lengths):
        raise InputError(f"first_sequence: {last} is beyond the {len(lengths)} of {trace.name}")
    number = np.repeat(np.arange(len(lengths)), lengths)
    inside = (number >= sequence) & (number <= last)
    weights = trace.topk_weights
    decoded = Trace(
        trace.name,
        trace.topk_ids[inside],
        None if weights is None else weights[inside],
        seq_len=lengths[sequence : last + 1],
        decode=decode_tokens(trace, share)[inside],
    )
    steps = all_step_tokens(decoded, stretch.batch, "sequences")
    counts = _counts(decoded, steps, stretch)
    prompt = prefill_tokens(trace, share) & inside

    def usage(tokens: NDArray[np.bool_], weights: NDArray[Any] | None, scale: int) -> Ints:
        sums = chosen(trace, tokens, stretch.experts, weights)[: stretch.layers]
        return np.rint(sums * scale).astype(np.int64)

    found: dict[str, Any] = {"prefill_counts": usage(prompt, None, 1)}
    words = {"prefill": f"{prompt.sum()} prompt tokens of sequences {sequence} to {last}"}
    if trace.topk_weights is not None:
        found["prefill_scores"] = usage(prompt, trace.topk_weights, SCORE_SCALE)
        found["score_scale"] = SCORE_SCALE
    if not inside.all():
        found["profile_counts"] = usage(~inside, None, 1)
        words["profile"] = f"{(~inside).sum()} tokens of all other sequences"
    return Served(counts, Known(**found), words)


def _counts(trace: Trace, steps: list[Tokens], stretch: Stretch) -> Ints:
    end = stretch.first + stretch.length
    if end > len(steps) or stretch.layers > trace.layers:
        need = f"steps {stretch.first} to {end} of {stretch.batch} in {stretch.layers} layers"
        raise InputError(f"steps: {need}; {trace.name} has {len(steps)} in {trace.layers}")
    return np.array([_of_layers(trace, of, stretch) for of in steps[stretch.first : end]])


def _of_layers(trace: Trace, tokens: Tokens, stretch: Stretch) -> list[Ints]:
    return [trace.counts(tokens, layer, stretch.experts) for layer in range(stretch.layers)]


NS_PER_US = 1000

MAX_US = 1e9


PROMPT_SHARE = 0.5
"""Of a sequence, where its trace marks no generated tokens."""


def _hindsight(rules_know: str) -> bool:
    """Tell whether nothing is known: then provenance does not mention it, as it never did."""
    return rules_know == "steps"


def _as_schema_1(value: object) -> bool:
    """Tell whether an option is what schema 1 has: then provenance does not mention it either."""
    return value in (False, "resident")


def _whole(bits: float | None) -> float | None:
    """Return a whole number as an integer, as instances made before widths were fractional do."""
    return bits if bits is None or bits % 1 else int(bits)


class Options(Frozen):
    """What this generator can be told besides machine, model, trace and seed.

    For a hold-out, generate again from the other part of the trace, or from steps further on, and
    pass the placement to `moeopt.problems`.
    """

    felt_where: ClassVar[FeltWhere] = {
        "seed": Where("of a workload or counts", lambda _, s: s.trace is None),
        "share": Where("without gpu_slots", lambda o, _: o.gpu_slots is None),
        "reserved_gib": Where(
            "without gpu_slots and share", lambda o, _: o.gpu_slots is None and o.share is None
        ),
        "context": Where(
            "without gpu_slots and share", lambda o, _: o.gpu_slots is None and o.share is None
        ),
        "prompt_share": Where(
            "of a trace that marks no tokens as decoded",
            lambda _, s: s.trace is None or s.trace.decode is None,
        ),
        "hot_share": Where("with cold_bits", lambda o, _: o.cold_bits is not None),
        "gpu_us_per_token": Where("with gpu_us", lambda o, _: o.gpu_us is not None),
        "offload_us_per_token": Where("with offload_us", lambda o, _: o.offload_us is not None),
    }

    batch: Annotated[int, Field(ge=1, le=2**16, description="tokens in a step")] = 1
    batching: Annotated[Batching, Field(description=STREAMS_SAID)] = "streams"
    steps: Annotated[int, Field(ge=1, le=2**20, description="steps")] = 200
    first_step: Annotated[int, Field(ge=0, le=2**31, description="where they start")] = 0
    first_sequence: Annotated[
        int | None,
        Field(
            ge=0,
            le=2**31,
            exclude_if=absent,
            description="decode `batch` sequences from this one on, one token of each per step",
        ),
    ] = None
    prompt_share: Annotated[
        float | None,
        Field(
            gt=0,
            lt=1,
            exclude_if=absent,
            description="of a sequence, where no generated tokens are marked; half if absent",
        ),
    ] = None
    rules_know: Annotated[
        Literal["before", "steps"],
        Field(exclude_if=_hindsight, description="what came before, or the steps: hindsight"),
    ] = "before"
    layers: Annotated[
        int | None, Field(ge=1, le=1024, description="the first ones only; all if absent")
    ] = None
    share: Annotated[
        float | None, Field(ge=0, le=1, description="share of the experts that fits on the GPU")
    ] = None
    gpu_slots: Annotated[
        int | None,
        Field(ge=0, le=2**42, description="slots; from share or the GPU's memory if absent"),
    ] = None
    context: Annotated[int, Field(ge=0, le=2**24, description="tokens in each KV cache")] = 0
    reserved_gib: Annotated[
        float, Field(ge=0, le=1024, description="GPU memory that stays free: buffers, graphs")
    ] = 1.0
    bits: Annotated[
        float | None,
        Field(ge=0.5, le=64, description="bits per weight of the routed experts, if not native"),
        AfterValidator(_whole),
    ] = None
    cold_bits: Annotated[
        int | None, Field(ge=1, le=64, description="of the less used experts: slots count bits")
    ] = None
    hot_share: Annotated[
        float, Field(ge=0, le=1, description="share of each layer's experts that keep `bits`")
    ] = 0.5
    restriction: Annotated[
        Restriction | None, Field(description="whole-layers or equal-counts; none if absent")
    ] = None
    fill: Annotated[bool, Field(description="whether every slot must be used")] = False
    host_gib: Annotated[
        float | None, Field(ge=0, le=2**20, description="host memory for experts; any if absent")
    ] = None
    host_copy: Annotated[bool, Field(description="the host holds the GPU's experts too")] = True
    dispatch: Annotated[
        Dispatch,
        Field(exclude_if=_as_schema_1, description="free: others may compute the GPU's experts"),
    ] = "resident"
    own_times: Annotated[
        bool, Field(exclude_if=_as_schema_1, description="experts of cold_bits take their own time")
    ] = False
    fixed_us: Annotated[
        float | None,
        Field(ge=0, le=MAX_US, description="of a layer that offloads; the machine's if absent"),
    ] = None
    gpu_us: Annotated[
        float | None,
        Field(ge=0, le=MAX_US, description="an expert on the GPU, instead of the machine's time"),
    ] = None
    gpu_us_per_token: Annotated[
        float, Field(ge=0, le=MAX_US, description="added to gpu_us for each of its tokens")
    ] = 0.0
    offload_us: Annotated[
        float | None,
        Field(ge=0, le=MAX_US, description="an expert elsewhere, instead of the machine's time"),
    ] = None
    offload_us_per_token: Annotated[
        float, Field(ge=0, le=MAX_US, description="added to offload_us for each of its tokens")
    ] = 0.0


def generate(source: Source, options: Options) -> Instance:
    """Return the instance of some steps of a trace.

    `gpu_us` and `offload_us`, with their times per token, replace the machine's times.

    Raises
    ------
    InputError
        If the trace does not fit the model or is too short, the machine lacks a CPU, or the GPU's
        memory does not hold what it must.
    """
    model = source.model if options.bits is None else source.model.quantized(options.bits)
    trace = trace_of(source, options)
    found = _served(trace, options, model.routed_experts)
    counts, known, words = found.counts, found.known, found.words
    if source.counts is not None:
        profile = source.counts.total()[: counts.shape[1]]
        known, words = Known(profile_counts=profile.tolist()), {"profile_counts": "the counts"}
    if options.rules_know == "steps":
        known = None
    most = min(MAX_TABLE - 1, max(options.batch, int(counts.max(initial=1))))
    sizes = _sizes(counts, options, model)
    unit_bytes = _unit_bytes(model, options)
    room, memory = _room(source.machine, model, options, counts)
    decided: dict[str, object] = {"layers": counts.shape[1], "gpu_slots": room}
    if options.first_sequence is not None and trace.decode is None:
        decided["prompt_share"] = options.prompt_share or PROMPT_SHARE
    provenance = source.provenance(trace, options.model_dump() | decided)
    if known is not None:
        provenance["known"] = words
    schema_2 = _schema_2(source, options, model, sizes, most)
    if known is not None:
        schema_2["known"] = known
    host_slots = None if options.host_gib is None else int(options.host_gib * GIB / unit_bytes)
    return Instance(
        name=source.name or _name(source, options, room),
        provenance=provenance | {"gpu_memory": memory},
        quantum_ns=source.quantum_ns,
        layers=counts.shape[1],
        experts=model.routed_experts,
        gpu_slots=room,
        gpu_expert_ns=_table(source, model, "gpu", options, most),
        offload_expert_ns=_table(source, model, "cpu", options, most),
        layer_offload_fixed_ns=_fixed_ns(source, options),
        steps=tuple(
            tuple(tuple((int(e), int(row[e])) for e in np.flatnonzero(row)) for row in step)
            for step in counts
        ),
        restriction=options.restriction,
        fill=options.fill,
        expert_slots=sizes,
        host_slots=host_slots,
        host_copy=options.host_copy,
        **schema_2,
    )


def _schema_2(
    source: Source,
    options: Options,
    model: ModelShape,
    sizes: tuple[tuple[int, ...], ...] | None,
    most: int,
) -> dict[str, object]:
    """Return the fields of schema 2 that were asked for."""
    fields: dict[str, object] = {}
    if options.dispatch != "resident":
        fields["dispatch"] = options.dispatch
    if options.own_times:
        if sizes is None or options.cold_bits is None:
            raise InputError("own_times: needs cold_bits, as all experts have the same otherwise")
        cold = model.quantized(options.cold_bits)
        fields["expert_width"] = tuple(
            tuple(int(size == options.cold_bits) for size in row) for row in sizes
        )
        fields["width_gpu_ns"] = (_table(source, cold, "gpu", options, most),)
        fields["width_offload_ns"] = (_table(source, cold, "cpu", options, most),)
    return fields


def assume(instance: Instance, assumption: str, value: str) -> Instance | None:
    """Return the same steps under another value of an assumption; None if that takes the trace.

    None too for free dispatch where the host has no copy.
    """
    if assumption == "dispatch":
        if value == "free" and not instance.host_copy:
            return None
        return instance.restated(dispatch=value)
    if assumption != "rules_know":
        return None
    if value == "steps":
        return instance.restated(known=None)
    return None if instance.known is None else instance


def memory_of(
    machine: Machine, model: ModelShape, sequences: int, context: int, reserved_gib: float
) -> dict[str, int]:
    """Return what the GPU's memory goes to, in bytes; vendors count it in GiB.

    Parameters
    ----------
    sequences, context
        How many KV caches there are, and tokens in each.
    reserved_gib
        What is left free.

    Returns
    -------
    dict[str, int]
        total, dense (all but the routed experts), kv_cache, reserved, and experts: what is left for
        them, never negative.
    """
    total = int(machine.require("gpu").gpu_gib * GIB)
    used = {
        "dense": model.resident_bytes,
        "kv_cache": model.layers * sequences * model.kv_bytes(context) if context else 0,
        "reserved": int(reserved_gib * GIB),
    }
    return {"total": total, **used, "experts": max(0, total - sum(used.values()))}


def _room(
    machine: Machine,
    model: ModelShape,
    options: Options,
    counts: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
) -> tuple[int, dict[str, int] | str]:
    """Return the slots, and how they come about."""
    if options.gpu_slots is not None:
        return options.gpu_slots, "gpu_slots as stated"
    if options.share is not None:
        experts = counts.shape[1] * counts.shape[2]
        slots = options.share * experts * model.expert_bytes / _unit_bytes(model, options)
        return round(slots), "share as stated"
    return _left(machine, model, options)


def _left(machine: Machine, model: ModelShape, options: Options) -> tuple[int, dict[str, int]]:
    """Return the slots that the GPU's memory leaves, and what it goes to."""
    memory = memory_of(machine, model, options.batch, options.context, options.reserved_gib)
    return int(memory["experts"] / _unit_bytes(model, options)), memory


def _unit_bytes(model: ModelShape, options: Options) -> float:
    """Return what a slot holds: an expert, or a bit per weight where experts differ."""
    return model.expert_bytes / (1 if options.cold_bits is None else model.bits)


def trace_of(source: Source, options: Options) -> Trace:
    """Return the real trace, or one that is drawn and long enough for the steps."""
    if source.counts is not None:
        return _sampled(source, source.counts, options)
    if source.workload is None or source.trace is not None:
        return source.trace_of(1)
    if options.batching != "window":
        raise InputError("batching: must be window for a workload")
    tokens = (options.first_step + options.steps) * options.batch
    if tokens > MAX_SYNTHETIC_TOKENS:
        raise InputError(f"steps: {tokens} tokens are more than {MAX_SYNTHETIC_TOKENS}")
    return source.stretch(options.layers, tokens)


def _sampled(source: Source, counts: Counts, options: Options) -> Trace:
    """Return the steps drawn from counts, which have no order to start, batch or prompt by."""
    asked = {
        "batching": options.batching != "window",
        "first_step": options.first_step > 0,
        "first_sequence": options.first_sequence is not None,
    }
    for name, needed in asked.items():
        if needed:
            raise InputError(f"{name}: needs a trace; {UNKNOWN}")
    return sample_trace(counts, source.model.top_k, options.steps * options.batch, source.seed)


def _served(trace: Trace, options: Options, experts: int) -> Served:
    layers = options.layers or trace.layers
    stretch = Stretch(
        options.first_step, options.steps, options.batch, options.batching, layers, experts
    )
    if options.first_sequence is None:
        if options.prompt_share is not None:
            raise InputError("prompt_share: needs first_sequence")
        return served(trace, stretch)
    if options.batching != "sequences":
        raise InputError("batching: must be sequences with first_sequence")
    share = options.prompt_share or PROMPT_SHARE
    return served_after_prompts(trace, stretch, options.first_sequence, share)


def _sizes(
    counts: np.ndarray[tuple[int, ...], np.dtype[np.int64]], options: Options, model: ModelShape
) -> tuple[tuple[int, ...], ...] | None:
    """Return each expert's bits if the less used ones have fewer; None if all have the same."""
    if options.cold_bits is None:
        return None
    if model.bits != int(model.bits):
        raise InputError(f"bits: {model.bits:g} per weight are no whole number of slots")
    used = counts.sum(axis=0)
    place = np.argsort(np.argsort(-used, axis=1, kind="stable"), axis=1)
    hot = place < round(options.hot_share * used.shape[1])
    return tuple(map(tuple, np.where(hot, int(model.bits), options.cold_bits).tolist()))


def _table(
    source: Source, model: ModelShape, side: str, options: Options, most: int
) -> tuple[int, ...]:
    tokens = np.arange(1, most + 1)
    base = options.gpu_us if side == "gpu" else options.offload_us
    slope = options.gpu_us_per_token if side == "gpu" else options.offload_us_per_token
    if base is not None:
        ns = to_quanta((base + slope * tokens) * NS_PER_US, source.quantum_ns)
    elif side == "gpu":
        ns = source.costs.of(model).path_ns("gpu_hit", tokens, source.quantum_ns)
    else:
        ns = source.costs.of(model).path_ns("cpu_striped", tokens, source.quantum_ns)
    return (0, *ns.tolist())


def _fixed_ns(source: Source, options: Options) -> int:
    us = (source.machine.sync_us or 0.0) if options.fixed_us is None else options.fixed_us
    return int(to_quanta(us * NS_PER_US, source.quantum_ns))


def _name(source: Source, options: Options, slots: int) -> str:
    where = f"slots{slots}-batch{options.batch}-steps{options.steps}-from{options.first_step}"
    if options.first_sequence is not None:
        where += f"-sequence{options.first_sequence}"
    return f"{source.model.name}-{where}-seed{source.seed}"
