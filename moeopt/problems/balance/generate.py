"""balance instances: one layer of a prompt, or of one decoded token, on an edge GPU-NDP system.

Batch size 1, as in the paper. How far the presets' constants can be trusted, in the words P
(predicted from stated numbers), A (an assumption with a source of its own) and S (an assumption
selected because it fits):

- P: a slice's bytes over PCIe, over the GPU's memory and over a unit's memory.
- A: a decoded token's activation transfer takes 1 us and its bytes. A prompt's activations follow
  one another without latency, as slices do, unless `activations` is "single". The model's shared
  experts are cut over the units as well, and never resident.
- S: `ndp_speedup`. The stated 64 multipliers keep up with a unit's memory at one token. A prompt's
  experts get dozens, and then the published speedups of prefill need far more: 64 to 256 times.

Slices are short, a microsecond and less where they are fine. So `quantum_ns` must not exceed the
shortest time; it is 1 unless stated otherwise.
"""

from dataclasses import dataclass, replace
from math import ceil
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moeopt.core.envelope import Frozen
from moeopt.core.errors import InputError
from moeopt.sim.costs.quanta import NS_PER_S, to_quanta
from moeopt.sim.costs.step import StepCosts, step_costs
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.presets import get_machine, get_model
from moeopt.sim.source import FeltWhere, Record, Source, Where, made_again
from moeopt.sim.traces.trace import Trace

from .instance import MAX_SLICES_PER_UNIT, Expert, Instance

Ints = NDArray[np.int64]

BEFORE = {"activations": "single"}
"""Options that are younger than instances made before them, with what held then: a provenance
leaves them out, so that those instances are made again byte for byte."""

QUANTUM_NS = 1
"""Slices take microseconds: the usual quantum of 5 us would make them all alike."""


class Options(Frozen):
    """What this generator can be told besides machine, model, trace and seed."""

    felt_where: ClassVar[FeltWhere] = {
        "step": Where("where stage is decode", lambda o, _: o.stage == "decode"),
    }

    stage: Annotated[
        Literal["decode", "prefill"], Field(description="one decoded token, or the whole prompt")
    ] = "decode"
    seq_len: Annotated[int, Field(ge=1, le=2**16, description="tokens of the prompt")] = 512
    slices_per_unit: Annotated[
        int, Field(ge=1, le=MAX_SLICES_PER_UNIT, description="slices of each expert on each unit")
    ] = 1
    layer: Annotated[int, Field(ge=0, le=4096, description="layer of the trace, from 0")] = 0
    step: Annotated[
        int | None,
        Field(ge=1, le=2**16, description="decoded token, from 1; drawn with the seed if absent"),
    ] = None
    residents: Annotated[
        int, Field(ge=0, le=4096, description="most frequent experts of the prompt, prefetched")
    ] = 0
    activations: Annotated[
        Literal["streamed", "single"],
        Field(description="a prompt's over the link: without latency, or each with the link's"),
    ] = "streamed"
    ndp_speedup: Annotated[
        float, Field(gt=0, le=1e6, description="NDP computing rate, in the machine's; see module")
    ] = 1.0
    whole_columns: Annotated[
        bool, Field(description="round slices up to whole columns of an expert's matrices")
    ] = True


@dataclass(frozen=True)
class _Times:
    """What slices take, in ns; one entry per expert for GPU and NDP."""

    transfer: int
    activation: int
    gpu: Ints
    ndp: Ints


def generate(source: Source, options: Options) -> Instance:
    """Return the instance of one layer.

    The prompt is a window of consecutive tokens of the trace, drawn with the seed, across the ends
    of texts; as many tokens after it are decoded. In decode the `residents` experts that the prompt
    chose most often (ties: lowest number) lie on the GPU; in prefill none does.

    Raises
    ------
    InputError
        If the trace does not fit the model or is too short, if residents are asked for in prefill,
        or if the quantum is longer than the shortest time.
    """
    machine, model = source.machine, source.model
    units = machine.ndp_units
    machine.require("ndp")
    decode = options.stage == "decode"
    if options.residents and not decode:
        raise InputError("residents: must be 0 in prefill, whose counts decide what is prefetched")
    trace = source.stretch(1, 2 * options.seq_len)  # the prompt, and as many decoded tokens
    if options.layer >= trace.layers:
        drawn = "" if source.workload is None else f": {trace.name} is drawn for so many layers"
        raise InputError(f"layer: must be below {trace.layers}, not {options.layer}{drawn}")
    begin, step = _position(trace, options, source.seed)
    prompt = np.arange(begin, begin + options.seq_len)
    frequent = trace.counts(prompt, options.layer, model.routed_experts)
    now = np.array([begin + options.seq_len + step - 1]) if decode else prompt
    tokens = trace.counts(now, options.layer, model.routed_experts)
    tokens = np.concatenate([tokens, np.full(_shared_experts(model), len(now))])
    resident = set(np.argsort(-frequent, kind="stable")[: options.residents].tolist())
    active = np.flatnonzero(tokens)
    times = _times(source.costs, tokens[active], options, source.quantum_ns)
    experts = [
        Expert(
            expert=expert,
            tokens=int(tokens[expert]),
            resident=expert in resident,
            slice_gpu_ns=int(times.gpu[row]),
            slice_ndp_ns=int(times.ndp[row]),
        )
        for row, expert in enumerate(active.tolist())
    ]
    decided = options.model_dump() | {"step": step if decode else None, "prompt_begin": begin}
    return Instance(
        name=source.name or _name(source, options, units),
        provenance=source.provenance(trace, _younger_left_out(decided)),
        quantum_ns=source.quantum_ns,
        stage=options.stage,
        ndp_units=units,
        slices_per_unit=options.slices_per_unit,
        seq_len=1 if decode else options.seq_len,
        activation_ns=times.activation,
        slice_transfer_ns=times.transfer,
        experts=tuple(experts),
    )


def assume(instance: Instance, assumption: str, value: str) -> Instance | None:
    """Return the same tokens under another value of an assumption; see `sim.source.made_again`."""
    return made_again(
        instance,
        assumption,
        value,
        assumed=ASSUMED,
        options=Options,
        make=_with_times,
        younger=BEFORE,
    )


ASSUMED = ("ndp_speedup", "activations")
"""The options that are assumptions of instances."""


def _with_times(instance: Instance, record: Record, options: Options) -> Instance:
    """Return an instance with the times that options give to its experts and tokens."""
    stated = record.options | {name: getattr(options, name) for name in ASSUMED}
    tokens = np.array([expert.tokens for expert in instance.experts])
    machine, model = get_machine(record.machine or ""), get_model(record.model)
    machine.require("ndp")
    times = _times(step_costs(machine, model), tokens, options, instance.quantum_ns or QUANTUM_NS)
    rows = [
        expert.model_copy(update={"slice_gpu_ns": gpu, "slice_ndp_ns": ndp})
        for expert, gpu, ndp in zip(
            instance.experts, times.gpu.tolist(), times.ndp.tolist(), strict=True
        )
    ]
    changes = {
        "provenance": (instance.provenance or {}) | {"options": _younger_left_out(stated)},
        "activation_ns": times.activation,
        "slice_transfer_ns": times.transfer,
        "experts": tuple(rows),
    }
    return instance.model_copy(update=changes)


def _younger_left_out(options: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in options.items() if BEFORE.get(name, ...) != value}


def _position(trace: Trace, options: Options, seed: int) -> tuple[int, int]:
    """Return the prompt's first token, and which token after the prompt is decoded, from 1."""
    rng = np.random.default_rng(seed)
    length = options.seq_len
    spare = trace.tokens - 2 * length
    if spare < 0:
        raise InputError(f"seq_len: needs {2 * length} tokens, {trace.name} has {trace.tokens}")
    begin = int(rng.integers(0, spare + 1))
    drawn = int(rng.integers(1, length + 1))
    step = options.step or drawn
    if step > length:
        raise InputError(f"step: must be from 1 to {length}, not {step}")
    return begin, step


def _shared_experts(model: ModelShape) -> int:
    """Return how many experts of the size of a routed one every token uses."""
    if model.shared_weights != model.shared_experts * model.expert_weights:
        raise InputError(f"model {model.name}: shared experts of another size are not supported")
    return model.shared_experts


def _times(costs: StepCosts, tokens: Ints, options: Options, quantum_ns: int) -> _Times:
    """Return what slices take, rounded up to the quantum."""
    machine, model = costs.machine, costs.model
    link = machine.pcie
    slices = machine.ndp_units * options.slices_per_unit
    width = model.expert_intermediate_size
    share = ceil(width / slices) / width if options.whole_columns else 1 / slices
    sped_up = machine.with_ndp_rate(options.ndp_speedup)
    transfer = np.asarray(link.stream_s(model.expert_bytes * share))
    activation_bytes = 2 * model.hidden_size
    activation = np.asarray(link.transfer_s(activation_bytes))
    if options.stage == "prefill" and options.activations == "streamed":
        activation = np.asarray(link.stream_s(activation_bytes))
    gpu = share * costs.computation_s("gpu", tokens)
    ndp_s = share * replace(costs, machine=sped_up).computation_s("ndp", tokens)
    shortest = int(min(s.min() for s in (transfer, activation, gpu, ndp_s)) * NS_PER_S)
    if quantum_ns > max(1, shortest):
        raise InputError(f"quantum_ns: must be at most the shortest time, {shortest} ns")

    def rounded(seconds: NDArray[np.float64]) -> Ints:
        return to_quanta(seconds * NS_PER_S, quantum_ns)

    return _Times(int(rounded(transfer)), int(rounded(activation)), rounded(gpu), rounded(ndp_s))


def _name(source: Source, options: Options, units: int) -> str:
    where = f"{options.stage}{options.seq_len}-layer{options.layer}"
    cut = f"units{units}-slices{options.slices_per_unit}-residents{options.residents}"
    return f"{source.model.name}-{where}-{cut}-seed{source.seed}"
