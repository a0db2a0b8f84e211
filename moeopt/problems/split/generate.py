"""split instances: a model's layers on a machine with several GPUs or nodes.

Times come from `moeopt.sim.costs.devices`. Sizes are rounded up to MiB, memories down.
"""

from datetime import date
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from moeopt.core.envelope import MAX_NUMBER, Frozen
from moeopt.core.errors import InputError
from moeopt.core.units import MIB
from moeopt.problems.split.instance import Device, Instance, Layer
from moeopt.sim.costs.devices import device_times, refuse_numa
from moeopt.sim.machines.cores import NumaMode
from moeopt.sim.machines.runtimes.context import Context
from moeopt.sim.machines.runtimes.setting import Setting
from moeopt.sim.models.quantisations import at_bits
from moeopt.sim.source import FeltWhere, Source, Where

QUANTUM_NS = 1000

TENSORS = 3
"""Of a layer's experts: gate, up, down, of equal size."""


class Options(Frozen):
    """What this generator can be told besides machine, model and seed."""

    felt_where: ClassVar[FeltWhere] = {
        "seed": Where("nowhere: nothing is drawn", lambda _, __: False),
    }

    bits: Annotated[
        str | None, Field(max_length=40, description="quantisation of the weights, e.g. Q4_K_M")
    ] = None
    kv_bits: Annotated[
        float | None,
        Field(gt=0, le=64, description="bits of a number in the KV cache; None: the model's own"),
    ] = 16.0
    context: Annotated[
        int, Field(ge=0, le=2**24, description="tokens in the KV cache when a token is decoded")
    ] = 0
    room: Annotated[
        int, Field(ge=0, le=2**24, description="tokens that the KV cache has room for")
    ] = 32768
    ubatch: Annotated[int, Field(ge=1, le=65536, description="tokens of a ubatch")] = 512
    runtime: Annotated[
        Literal["llama.cpp", "ik_llama.cpp"], Field(description="whose costs and thresholds")
    ] = "llama.cpp"
    numa: Annotated[
        NumaMode,
        Field(description="how several nodes are used"),
    ] = "interleaved"
    runtime_date: Annotated[
        date | None, Field(description="of the runtime's version; None: of the newest measured")
    ] = None
    granularity: Annotated[
        Literal["layer", "tensor"],
        Field(description="whether a layer's experts are one part, or gate, up and down apart"),
    ] = "layer"
    contiguous: Annotated[
        bool, Field(description="whether attention goes from one device to the next, as with -ts")
    ] = True
    prompt_tokens: Annotated[
        int, Field(ge=0, le=2**24, description="tokens of a prompt; 0: decoding alone counts")
    ] = 0
    reply_tokens: Annotated[int, Field(ge=1, le=2**24, description="tokens of a reply")] = 1


def generate(source: Source, options: Options) -> Instance:
    """Return the instance of a model on a machine; neither trace nor workload is needed.

    Counts say how many experts of each layer a prompt activates.

    Raises
    ------
    InputError
        If the machine has no CPU that computes experts, the model lacks a size, or counts would
        change nothing.
    """
    refuse_numa(source.machine, options.numa)
    if source.counts is not None and not options.prompt_tokens:
        reason = "has no effect without prompt_tokens: they say which experts a prompt activates"
        raise InputError(reason, where="generate split", field="counts")
    model = source.model if options.bits is None else at_bits(source.model, options.bits)
    model = model if options.kv_bits is None else model.with_kv_bits(options.kv_bits)
    setting = Setting(
        source.machine,
        model,
        options.runtime,
        Context(options.context, max(options.room, options.context)),
        ubatch=options.ubatch,
        numa=options.numa,
        runtime_date=options.runtime_date,
    )
    times = device_times(setting, source.quantum_ns, source.counts)
    count = len(times.names)
    ubatches = -(-options.prompt_tokens // options.ubatch)
    up = np.ceil(np.array([times.attention_bytes, times.experts_bytes]) / MIB).astype(int)
    apart, layers = options.granularity == "tensor", list[Layer]()
    for row, held in enumerate(up[1].tolist()):
        moe = ubatches and held
        whole = Layer(
            attention_ns=tuple(times.attention_ns[row].tolist()),
            attention_bytes=int(up[0, row]) * MIB,
            experts_ns=tuple(times.experts_ns[row].tolist()) if held else None,
            experts_bytes=int(held) * MIB,
            prompt_attention_ns=tuple(times.prompt_attention_ns[row].tolist())
            if ubatches
            else None,
            prompt_experts_ns=tuple(times.prompt_experts_ns[row].tolist()) if moe else None,
        )
        layers += _thirds(whole, source.quantum_ns) if apart and held else [whole]
    hosts = range(times.source, count)
    return Instance(
        name=source.name or f"{source.machine.name}-{model.name}-{options.bits or 'own'}",
        provenance=source.provenance(
            None, options.model_dump(mode="json", exclude=_unsaid(options))
        )
        | _counted(source),
        quantum_ns=source.quantum_ns,
        source=times.source,
        order=(*hosts, *range(times.source)) if options.contiguous else None,
        devices=tuple(
            Device(
                name=name,
                capacity=min(int(times.capacity[row]) // MIB * MIB, MAX_NUMBER),  # 4 TiB hold all
                buffer=-(-int(times.buffer[row]) // MIB) * MIB,
            )
            for row, name in enumerate(times.names)
        ),
        hop_ns=tuple(map(tuple, times.hop_ns.tolist())),
        prompt_hop_ns=tuple(map(tuple, times.prompt_hop_ns.tolist())) if ubatches else None,
        decode_weight=options.reply_tokens,
        prompt_weight=ubatches,
        layers=tuple(layers),
    )


def _unsaid(options: Options) -> set[str]:
    """Return the options that a provenance leaves out where they are as they have always been."""
    found = set() if options.granularity == "tensor" else {"granularity"}
    return found if options.runtime_date is not None else found | {"runtime_date"}


def _counted(source: Source) -> dict[str, object]:
    """Return where counts come from, if there are any."""
    counts = source.counts
    return {} if counts is None else {"counts": {"name": counts.name} | (counts.facts or {})}


def tensors_apart(instance: Instance) -> Instance:
    """Return an instance with gate, up and down of each layer apart, each a third of the experts.

    It is what ``granularity="tensor"`` makes of the same machine and model.
    """
    if instance.by_tensor:
        return instance
    layers = list[Layer]()
    for layer in instance.layers:
        some = layer.experts_ns is not None
        layers += _thirds(layer, instance.quantum_ns or 1) if some else [layer]
    return instance.model_copy(update={"layers": tuple(layers)})


def _thirds(layer: Layer, quantum_ns: int) -> list[Layer]:
    """Return a layer with gate, and rows of its own for up and down; together they are the layer.

    Times and bytes are in steps of `quantum_ns` and of MiB; the rest is in down.
    """

    def share(whole: int, step: int, last: bool) -> int:
        each = whole // (TENSORS * step) * step
        return whole - (TENSORS - 1) * each if last else each

    rows = list[Layer]()
    for last in (False, False, True):
        none = {"attention_ns": None, "attention_bytes": 0, "prompt_attention_ns": None}
        changed: dict[str, object] = {**none} if rows else {}
        changed["experts_bytes"] = share(layer.experts_bytes, MIB, last)
        for name, times in (("", layer.experts_ns), ("prompt_", layer.prompt_experts_ns)):
            each = (t if t is None else share(t, quantum_ns, last) for t in times or ())
            changed[f"{name}experts_ns"] = None if times is None else tuple(each)
        rows.append(layer.model_copy(update=changed))
    return rows
