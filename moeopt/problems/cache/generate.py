"""cache instances: a stretch of a routing trace, one token per step (CPU-GPU collaborative III-B).

Times come from `moeopt.sim.costs.step`. On the paper's machine they are those of its Table III,
read as the time of a layer's two experts and halved (read as the time of one expert they miss the
published tokens per second by a factor of two); a synchronisation, 0.11 ms, is due once per layer
and token. What a layer takes besides its experts, 20 ms per token of Mixtral, is assumed. Dense
layers and the matrix to the vocabulary are left out: they take the same time under every plan. For
other models and machines experts are rooflines.
"""

from dataclasses import replace
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from moeopt.core.envelope import Frozen
from moeopt.core.errors import InputError
from moeopt.core.units import GIB
from moeopt.sim.machines.machine import Machine
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.source import FeltWhere, Source, Where
from moeopt.sim.traces.trace import Trace

from .instance import Instance


class Options(Frozen):
    """What this generator can be told besides machine, model, trace and seed.

    For a hold-out, generate again from the other part of the trace, or from tokens further on, and
    pass the plan to `moeopt.problems`.
    """

    felt_where: ClassVar[FeltWhere] = {
        "seed": Where("of a workload", lambda _, s: s.workload is not None),
        "reserved_gib": Where("without slots", lambda o, _: o.slots is None),
    }

    tokens: Annotated[
        int | None, Field(ge=1, le=2**20, description="length; all of a trace if absent")
    ] = None
    first_token: Annotated[int, Field(ge=0, le=2**31, description="where it starts")] = 0
    slots: Annotated[
        int | None,
        Field(ge=0, le=2**20, description="experts on the GPU; as its memory has it if absent"),
    ] = None
    reserved_gib: Annotated[
        float, Field(ge=0, le=1024, description="GPU memory that is not for experts")
    ] = 5.0
    threads: Annotated[
        int | None, Field(ge=1, le=1024, description="CPU threads; the machine's if absent")
    ] = None
    context: Annotated[int, Field(ge=0, le=2**24, description="tokens in the KV cache")] = 0
    layers: Annotated[
        int | None, Field(ge=1, le=1024, description="the first ones only; all if absent")
    ] = None


def generate(source: Source, options: Options) -> Instance:
    """Return the instance of a stretch of a trace.

    Raises
    ------
    InputError
        If the trace does not fit the model or is too short, or the machine lacks a CPU.
    """
    machine, model = source.machine, source.model
    machine.check_threads(options.threads)
    trace = trace_of(source, options)
    ids = _stretch(trace, options)
    slots = slots_of(machine, model, options.reserved_gib)
    costs = replace(source.costs, threads=options.threads)
    cost = costs.layer(1, options.context, source.quantum_ns)
    fetch_ns = costs.transfer_ns(source.quantum_ns)
    decided = {"tokens": ids.shape[0], "layers": ids.shape[1]}
    decided["slots"] = slots if options.slots is None else options.slots
    return Instance(
        name=source.name or _name(source, decided, options),
        provenance=source.provenance(trace, options.model_dump() | decided),
        quantum_ns=source.quantum_ns,
        layers=decided["layers"],
        experts=model.routed_experts,
        slots=decided["slots"],
        gpu_ns=int(costs.path_ns("gpu_hit", 1, source.quantum_ns)),
        cpu_ns=int(costs.path_ns("cpu_striped", 1, source.quantum_ns)),
        activation_ns=cost.sync_ns,
        fetch_ns=int(fetch_ns),
        other_ns=cost.attention_ns + cost.shared_ns,
        accesses=tuple(
            tuple(tuple(e for e in used if e >= 0) for used in token) for token in ids.tolist()
        ),
    )


def slots_of(machine: Machine, model: ModelShape, reserved_gib: float) -> int:
    """Return how many experts fit into the GPU's memory, rounded down (III-B).

    The paper: about 56 of Mixtral's on 24 GB, of which 5 GB are for everything else. Vendors count
    GPU memory in GiB.
    """
    free = (machine.require("gpu").gpu_gib - reserved_gib) * GIB
    return max(0, min(int(free / model.expert_bytes), 2**20))


def trace_of(source: Source, options: Options) -> Trace:
    """Return the real trace, or a synthetic one long enough for the stretch."""
    if options.tokens is None and source.trace is None and source.workload is not None:
        raise InputError("tokens: must be given for a workload, which has no length of its own")
    return source.stretch(options.layers, options.first_token + (options.tokens or 0))


def _stretch(trace: Trace, options: Options) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return the expert numbers of the stretch, shape (tokens, layers, k)."""
    layers = options.layers or trace.layers
    end = trace.tokens if options.tokens is None else options.first_token + options.tokens
    if end > trace.tokens or end <= options.first_token or layers > trace.layers:
        need = f"tokens {options.first_token} to {end} in {layers} layers"
        raise InputError(f"tokens: {need}; {trace.name} has {trace.tokens} in {trace.layers}")
    return trace.topk_ids[options.first_token : end, :layers].astype(np.int64)


def _name(source: Source, decided: dict[str, int], options: Options) -> str:
    where = f"slots{decided['slots']}-tokens{decided['tokens']}-from{options.first_token}"
    return f"{source.model.name}-{where}-seed{source.seed}"
