"""joint instances: the steps of a trace, what everything costs on a machine, and the budgets.

Times come from `moeopt.sim.costs.step`: experts on GPU and
CPU at every width, copying them, attention at each width of the KV cache, shared experts,
hand-overs, and once per step dense layers and head. The GPU's memory is what is left of it beside
everything but the routed experts and a reserve; the KV cache is part of the decision.

A loss counts the share of a layer's output that goes wrong, in millionths: an expert at a width
loses its relative error there (a measured table, or the law fitted to one) times the routing scores
that it has in the steps; a deferred expert comes a layer late and loses `deferral_price` times its
score. Scores of a token sum to one in each layer; a trace without any counts all experts alike.

Published tables have absolute Euclidean errors, which grow with the layers' outputs. So a law, and
a table that has one bit, count relative to their layer's mean there, which is `one_bit_loss`:
ONE_BIT is what normal weights lose that keep their signs and mean magnitude, sqrt(1 - 2 / pi). By a
law the model's own width loses nothing.
"""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moeopt.core.envelope import Frozen
from moeopt.core.errors import InputError
from moeopt.core.rounding import rounded
from moeopt.core.units import GIB
from moeopt.core.wording import shown
from moeopt.sim.machines.machine import Machine
from moeopt.sim.models.loss_law import KEPT_BITS, LAWS
from moeopt.sim.models.loss_table import LossTable, load_loss_table
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.plan import times_of_step
from moeopt.sim.source import FeltWhere, Source, Where
from moeopt.sim.traces.trace import Batching, Trace, all_step_tokens
from moeopt.sim.traces.windows import STREAMS_SAID

from .instance import CacheOption, Instance

UNIT = 10**6
"""Loss of a whole layer's output for one token."""

ONE_BIT = 0.6
"""Share of an expert's output that goes wrong at one bit."""

Floats = NDArray[np.float64]


class Options(Frozen):
    """What this generator can be told besides machine, model, trace and seed."""

    felt_where: ClassVar[FeltWhere] = {
        "seed": Where(
            "of a workload, or where a law draws the losses of several widths",
            lambda o, s: s.workload is not None or (o.loss_table is None and "," in o.bits),
        ),
        "reserved_gib": Where("without share", lambda o, _: o.share is None),
        "losses": Where(
            "with several widths in bits, and without loss_table",
            lambda o, _: o.loss_table is None and "," in o.bits,
        ),
        "one_bit_loss": Where(
            "with several widths in bits, or loss_table",
            lambda o, _: o.loss_table is not None or "," in o.bits,
        ),
    }

    batch: Annotated[int, Field(ge=1, le=4096, description="tokens in a step")] = 1
    batching: Annotated[Batching, Field(description=STREAMS_SAID)] = "streams"
    steps: Annotated[int, Field(ge=1, le=2**20, description="steps")] = 100
    first_step: Annotated[int, Field(ge=0, le=2**31, description="where they start")] = 0
    layers: Annotated[
        int | None, Field(ge=1, le=1024, description="the first ones only; all if absent")
    ] = None
    bits: Annotated[
        str, Field(description="widths of routed experts, comma-separated; empty: the model's")
    ] = ""
    other_bits: Annotated[
        float | None, Field(ge=0.5, le=64, description="bits of all other weights, if not native")
    ] = None
    context: Annotated[int, Field(ge=0, le=2**24, description="tokens in each KV cache")] = 512
    kv_bits: Annotated[
        str, Field(description="widths of the KV cache, comma-separated; empty: the model's")
    ] = ""
    kv_losses: Annotated[
        str, Field(description="loss of each of these widths, comma-separated; empty: none")
    ] = ""
    reserved_gib: Annotated[
        float, Field(ge=0, le=1024, description="GPU memory that stays free: buffers, graphs")
    ] = 1.0
    share: Annotated[
        float | None,
        Field(ge=0, le=1, description="GPU memory as a share of all experts at full width"),
    ] = None
    host_gib: Annotated[
        float | None, Field(ge=0, le=2**20, description="host memory for experts; any if absent")
    ] = None
    host_copy: Annotated[bool, Field(description="the host holds the GPU's experts too")] = True
    max_ways: Annotated[int, Field(ge=0, le=4096, description="cache ways of a layer")] = 0
    max_deferred: Annotated[
        int, Field(ge=0, le=256, description="deferred experts of a layer at most")
    ] = 0
    quality_loss: Annotated[
        float | None,
        Field(ge=0, le=1, description="budget: share of the outputs of all layers and steps"),
    ] = None
    deferral_price: Annotated[
        Literal["0.04", "1", "0"], Field(description="loss of a deferred expert per score")
    ] = "0.04"
    losses: Annotated[
        Literal["fitted", "alike", "fourfold"],
        Field(description="law of losses; fitted: to Mixtral's measured ones"),
    ] = "fitted"
    loss_table: Annotated[
        Path | None,
        Field(description="table of measured losses (CSV, npz or JSON), instead of a law"),
    ] = None
    one_bit_loss: Annotated[
        float,
        Field(ge=0, le=1, description="what losses at one bit stand for; 0: for themselves"),
    ] = ONE_BIT


def generate(source: Source, options: Options) -> Instance:
    """Return the instance of some steps of a trace.

    Raises
    ------
    InputError
        If options, trace, table, machine and model do not fit each other, or the GPU's memory does
        not hold what it must.
    """
    machine = source.machine
    if options.other_bits is not None:
        source = replace(
            source, model=source.model.quantized(source.model.bits, options.other_bits)
        )
    model = source.model
    trace = trace_of(source, options)
    steps, scores = _steps(trace, options, model.routed_experts)
    layers = len(steps[0])
    widths = _numbers("bits", options.bits) or (_whole(model.bits),)
    shapes = [model.quantized(bits) for bits in widths]
    most = max(tokens for step in steps for active in step for _, tokens, _ in active)
    tokens = np.arange(1, most + 1)
    quantum = source.quantum_ns

    def table(path: Literal["gpu_hit", "cpu_striped"]) -> tuple[tuple[int, ...], ...]:
        return tuple(
            (0, *source.costs.of(shape).path_ns(path, tokens, quantum).tolist()) for shape in shapes
        )

    copies = [source.costs.of(shape).transfer_ns(quantum) for shape in shapes]
    cost = source.costs.layer(options.batch, options.context, quantum)
    room, memory = _room(machine, shapes[-1], options, layers)
    table_used, width_loss = _width_loss(source, options, widths, scores)
    budget = options.quality_loss
    outputs = layers * len(steps) * options.batch * UNIT
    return Instance(
        name=source.name or _name(source, options),
        provenance=source.provenance(trace, options.model_dump(mode="json"))
        | {"gpu_memory": memory, "losses": table_used},
        quantum_ns=quantum,
        layers=layers,
        experts=model.routed_experts,
        bits=widths,
        expert_bytes=tuple(int(shape.expert_bytes) for shape in shapes),
        gpu_ns=table("gpu_hit"),
        cpu_ns=table("cpu_striped"),
        copy_ns=tuple(copies),
        shared_ns=(cost.shared_ns,) * layers,
        hand_over_ns=cost.sync_ns,
        contexts=_contexts(source, options, layers),
        gpu_bytes=room,
        host_bytes=None if options.host_gib is None else int(options.host_gib * GIB),
        max_loss=None if budget is None else int(budget * outputs),
        host_copy=options.host_copy,
        max_ways=min(options.max_ways, model.routed_experts),
        max_deferred=options.max_deferred,
        width_loss=width_loss,
        steps=steps,
    )


def assume(instance: Instance, assumption: str, value: str) -> Instance | None:
    """Return the same steps under another value of an assumption; None if that takes the trace."""
    options = (instance.provenance or {}).get("options")
    made = options.get("deferral_price") if isinstance(options, dict) else None
    if assumption != "deferral_price":
        return None
    if value == "0":
        steps = tuple(
            tuple(tuple((e, n, 0) for e, n, _ in active) for active in step)
            for step in instance.steps
        )
        return instance.model_copy(update={"steps": steps})
    return instance if made == value else None


def _steps(trace: Trace, options: Options, experts: int) -> tuple[Any, Floats]:
    """Return the steps, and every expert's scores over all of them, shape (layers, experts)."""
    groups = all_step_tokens(trace, options.batch, options.batching)
    wanted = slice(options.first_step, options.first_step + options.steps)
    if len(groups) < wanted.stop:
        raise InputError(f"steps: {trace.name} has {len(groups)} steps, not {wanted.stop}")
    layers = options.layers or trace.layers
    if layers > trace.layers:
        raise InputError(f"layers: {trace.name} has {trace.layers}, not {layers}")
    price = float(options.deferral_price)
    total = np.zeros((layers, experts))
    steps = []
    for group in groups[wanted]:
        ids = trace.topk_ids[group, :layers].astype(np.int64)
        weight = np.full(ids.shape, 1.0)
        if trace.topk_weights is not None:
            weight = trace.topk_weights[group, :layers].astype(np.float64)
        weight = weight * (ids >= 0)
        weight /= np.maximum(weight.sum(axis=2, keepdims=True), 1e-12)
        step = []
        for layer in range(layers):
            there = ids[:, layer] >= 0
            chosen, share = ids[:, layer][there], weight[:, layer][there]
            count = np.bincount(chosen, minlength=experts)
            score = np.bincount(chosen, share, minlength=experts)
            total[layer] += score
            _, first = np.unique(chosen, return_index=True)
            order = chosen[np.sort(first)]
            order = order[np.argsort(-np.round(score[order], 6), kind="stable")]
            step.append(
                tuple((int(e), int(count[e]), round(price * UNIT * score[e])) for e in order)
            )
        steps.append(tuple(step))
    return tuple(steps), total


def _width_loss(
    source: Source, options: Options, widths: tuple[int, ...], scores: Floats
) -> tuple[Any, Any]:
    """Return where the losses come from, and the losses; nothing to lose at a single width."""
    if len(widths) == 1 and options.loss_table is None:
        return "none: one width", None
    layers, experts = scores.shape
    if options.loss_table is not None:
        table = load_loss_table(options.loss_table)
    else:
        wanted = tuple(sorted({1, *widths}))
        table = LAWS[options.losses].table(layers, experts, wanted, source.seed)
        table.losses[:, :, np.array(wanted) >= source.model.bits] = 0
    table = _shares(table, options.one_bit_loss).restricted(widths)
    if table.losses.shape[0] < layers or table.losses.shape[1] != experts:
        have = table.losses.shape[:2]
        reason = f"{have} layers and experts, where {(layers, experts)} are needed"
        raise InputError(f"{table.name}: loss: {reason}")
    found = np.rint(table.losses[:layers] * scores[:, :, None] * UNIT).astype(np.int64)
    return table.name, found.tolist()


def _shares(table: LossTable, one_bit: float) -> LossTable:
    """Return losses as shares of outputs, if one bit is there to tell what a share is."""
    if 1 not in table.bits or not one_bit:
        return table
    mean = table.losses[:, :, table.bits.index(1)].mean(axis=1)
    scale = rounded(one_bit / np.where(mean > 0, mean, 1.0), KEPT_BITS)
    return replace(table, losses=table.losses * scale[:, None, None])


def _contexts(source: Source, options: Options, layers: int) -> tuple[CacheOption, ...]:
    model = source.model
    widths = _numbers("kv_bits", options.kv_bits)
    losses = _numbers("kv_losses", options.kv_losses) or (0,) * max(1, len(widths))
    if len(losses) != max(1, len(widths)):
        raise InputError(f"kv_losses: must be one per width, {len(widths)}, not {len(losses)}")
    shapes = [model.with_kv_bits(bits) for bits in widths] or [model]
    found = []
    for row, shape in enumerate(shapes):
        cost = source.costs.of(shape).layer(options.batch, options.context, source.quantum_ns)
        times = times_of_step(
            source.costs.of(shape), options.batch, options.context, source.quantum_ns
        )
        kv_bytes = shape.layers * options.batch * shape.kv_bytes(options.context)
        name = f"{options.context} tokens"
        found.append(
            CacheOption(
                name=f"{name}, {widths[row]} bits" if widths else name,
                kv_bytes=kv_bytes if options.context else 0,
                attention_ns=(cost.attention_ns,) * layers,
                step_ns=times.step_ns,
                kv_loss=losses[row],
            )
        )
    return tuple(found)


def _room(
    machine: Machine, model: ModelShape, options: Options, layers: int
) -> tuple[int, dict[str, int] | str]:
    """Return the bytes for experts, caches and KV cache, and how they come about."""
    if options.share is not None:
        experts = layers * model.routed_experts * model.expert_bytes
        return int(options.share * experts), "share as stated"
    total = int(machine.require("gpu").gpu_gib * GIB)
    used = {"dense": int(model.resident_bytes), "reserved": int(options.reserved_gib * GIB)}
    left = total - sum(used.values())
    if left < 0:
        raise InputError(
            f"model {model.name}: {used['dense']} bytes besides the routed experts, and the "
            f"reserve, do not fit into the GPU's {total}"
        )
    return left, {"total": total, **used, "left": left}


def trace_of(source: Source, options: Options) -> Trace:
    """Return the real trace, or a synthetic one long enough for the steps."""
    if source.trace is None and source.workload is not None and options.batching != "window":
        raise InputError("batching: must be window for a workload")
    return source.stretch(options.layers, (options.first_step + options.steps) * options.batch)


def _whole(bits: float) -> int:
    """Return a model's own width, rounded up: it serves as a name, and sizes are the model's."""
    return int(-(-bits // 1))


def _numbers(name: str, text: str) -> tuple[int, ...]:
    """Return comma-separated whole numbers; none of an empty text."""
    if not text:
        return ()
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        reason = "must be whole numbers, comma-separated"
        raise InputError(f"{name}: {reason}, not {shown(text)}")
    return tuple(map(int, parts))


def _name(source: Source, options: Options) -> str:
    where = f"batch{options.batch}-steps{options.steps}-from{options.first_step}"
    return f"{source.model.name}-joint-{where}-seed{source.seed}"
