"""bitwidth instances: the experts of all layers that are not on the GPU, and what they lose.

Two things make up a loss: what an expert's output loses at a width (a table, or random experts that
are quantised for the purpose), and how much that counts. With `weight` "usage" it counts by the
share of the layer's choices that went to the expert, with "none" all experts count alike, as in the
paper's table. Either way importance, which orders the experts for `prefix-split`, is the paper's,
from the prompt.

For a hold-out, generate the same instance with ``phase = "decode"``: the same experts, orders and
budgets, and losses weighted by what the decoded tokens chose. The checker's objective of a plan on
that instance is its held-out loss.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moeopt.errors import InputError
from moeopt.problems.bitwidth.instance import Expert, Granularity, Instance, Layer
from moeopt.problems.envelope import Frozen
from moeopt.sim.importance import decode_tokens, importance, prefill_tokens
from moeopt.sim.loss_table import LossTable, read_loss_table
from moeopt.sim.quantise.random_experts import law, random_table
from moeopt.sim.source import Source
from moeopt.sim.synthetic import routing_trace
from moeopt.sim.trace import Trace

IMPORTANCE_STEPS = 10**6
"""What an importance of 1 is as an integer."""

LOSS_STEPS = 10**7
"""What the largest entry of the table is as an integer, in a layer whose only expert has it."""

Floats = NDArray[np.float64]


class Options(Frozen):
    """What this generator can be told besides machine, model, trace and seed."""

    average_bits: Annotated[
        float, Field(ge=1, le=64, description="budget per expert; the total is rounded down")
    ] = 2.5
    budget: Annotated[
        Literal["layer", "model"], Field(description="one budget per layer, or one for all")
    ] = "layer"
    granularity: Annotated[
        Granularity, Field(description="what has a width of its own: expert, layer or model")
    ] = "expert"
    bits: Annotated[str, Field(description="the widths, comma-separated")] = "1,2,3,4"
    min_count: Annotated[
        str, Field(description="WIDTH:COUNT, comma-separated: at least so many in every layer")
    ] = ""
    gpu_experts: Annotated[
        int, Field(ge=0, le=4096, description="most important experts per layer, on the GPU")
    ] = 0
    alpha: Annotated[
        float, Field(ge=0, le=1, description="share of counts in the importance, not scores")
    ] = 0.5
    losses: Annotated[
        Literal["gptq", "rtn", "convex"],
        Field(description="random experts quantised by GPTQ or rounding, or a convex law"),
    ] = "gptq"
    loss_table: Annotated[
        Path | None, Field(description="JSON table of measured losses, instead of random ones")
    ] = None
    weight: Annotated[
        Literal["usage", "none"], Field(description="what a loss counts: by usage, or all alike")
    ] = "usage"
    phase: Annotated[
        Literal["prefill", "decode"], Field(description="whose usage: of prompt or decoded tokens")
    ] = "prefill"
    prefill_share: Annotated[
        float, Field(gt=0, lt=1, description="prompt's share where the trace marks none")
    ] = 0.5
    sequence: Annotated[
        int | None, Field(ge=0, le=2**31, description="one sequence of the trace; all if absent")
    ] = None
    layers: Annotated[
        int | None, Field(ge=1, le=1024, description="the first ones only; all if absent")
    ] = None
    tokens: Annotated[
        int, Field(ge=2, le=2**20, description="tokens that are drawn from a workload")
    ] = 1024


def generate(source: Source, options: Options, table: LossTable | None = None) -> Instance:
    """Return the instance of a prompt, or of all prompts of a trace.

    Parameters
    ----------
    source
        The trace orders and weighs the experts; the seed draws random experts.
    options
        See `Options`.
    table
        Losses in place of those that the options name.

    Raises
    ------
    InputError
        If options, trace, table and model do not fit each other.
    """
    bits = _numbers("bits", options.bits)
    trace = _trace(source, options)
    model, chosen = source.model, (options.prefill_share, options.sequence)
    experts, layers = model.routed_experts, trace.layers
    if options.gpu_experts >= experts:
        raise InputError(f"gpu_experts: must leave some of {experts} experts, not all")
    score = importance(trace, prefill_tokens(trace, *chosen), experts, options.alpha)
    found = (table or _table(source, options, bits, layers)).restricted(bits)
    if found.losses.shape[0] < layers or found.losses.shape[1] != experts:
        have, need = found.losses.shape[:2], (layers, experts)
        raise InputError(f"{found.name}: loss: {have} layers and experts, where {need} are needed")
    usage = np.full((layers, experts), 1 / experts)
    if options.weight == "usage":
        tokens = prefill_tokens if options.phase == "prefill" else decode_tokens
        usage = importance(trace, tokens(trace, *chosen), experts, alpha=1.0)
    scale = float(found.losses.max() / LOSS_STEPS) or 1.0
    losses = np.rint(found.losses[:layers] * usage[:, :, None] / scale).astype(np.int64)
    ranks = np.rint(score * IMPORTANCE_STEPS).astype(np.int64)
    on_ndp = np.sort(np.argsort(-ranks, axis=1, kind="stable")[:, options.gpu_experts :], axis=1)
    rows = tuple(
        _layer(options, on_ndp[layer], ranks[layer], losses[layer]) for layer in range(layers)
    )
    total = None
    if options.budget == "model":
        total = _budget(options, sum(len(row.experts) for row in rows))
    return Instance(
        name=source.name or _name(source, options),
        provenance=_provenance(source, trace, options, found),
        bits=bits,
        loss_scale=scale,
        granularity=options.granularity,
        min_count=_min_count(options.min_count),
        layers=rows,
        model_budget_bits=total,
    )


def _layer(
    options: Options, on_ndp: NDArray[np.int64], ranks: NDArray[np.int64], losses: NDArray[np.int64]
) -> Layer:
    experts = tuple(
        Expert(expert=e, importance=int(ranks[e]), loss=tuple(losses[e].tolist()))
        for e in on_ndp.tolist()
    )
    budget = _budget(options, len(experts)) if options.budget == "layer" else None
    return Layer(budget_bits=budget, experts=experts)


def _budget(options: Options, experts: int) -> int:
    """Return the budget of so many experts, rounded down, but for the error of a float."""
    return int(options.average_bits * experts + 1e-9)


def _trace(source: Source, options: Options) -> Trace:
    """Return the trace, with the layers that are asked for."""
    model = source.model
    layers = len(model.moe_layers)
    if source.workload is None or source.trace is not None:
        trace = source.trace_of(1)
    else:
        drawn = min(layers, options.layers or layers)
        trace = routing_trace(
            source.workload, model.routed_experts, model.top_k, drawn, options.tokens, source.seed
        )
    if options.layers is not None and options.layers > trace.layers:
        raise InputError(f"layers: {trace.name} has {trace.layers}, not {options.layers}")
    kept = slice(options.layers)
    weights = None if trace.topk_weights is None else trace.topk_weights[:, kept]
    return Trace(
        trace.name, trace.topk_ids[:, kept], weights, trace.seq_len, trace.facts, trace.decode
    )


def _table(source: Source, options: Options, bits: tuple[int, ...], layers: int) -> LossTable:
    """Return the losses that the options name."""
    experts = source.model.routed_experts
    if options.loss_table is not None:
        return read_loss_table(options.loss_table)
    if options.losses == "convex":
        streams = np.random.default_rng(source.seed).spawn(layers)
        widths = np.array(bits, dtype=np.float64)
        drawn = [np.exp(stream.standard_normal((experts, 1))) * 4.0**-widths for stream in streams]
        facts = {"law": "exp(normal) x 4^-bits"}
        return LossTable("convex law", bits, np.stack(drawn), facts)
    losses = random_table(layers, experts, bits, options.losses, source.seed)
    return LossTable(f"random experts, {options.losses}", bits, losses, {"law": law()})


def _numbers(name: str, text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 4 for part in parts):
        raise InputError(f"{name}: must be whole numbers, comma-separated, not {text!r}")
    return tuple(map(int, parts))


def _min_count(text: str) -> dict[int, int]:
    if not text:
        return {}
    pairs = [_numbers("min_count", pair.replace(":", ",")) for pair in text.split(",")]
    if any(len(pair) != 2 for pair in pairs) or len(dict(pairs)) < len(pairs):  # type: ignore[arg-type]
        raise InputError(f"min_count: must be WIDTH:COUNT, comma-separated, not {text!r}")
    return {pair[0]: pair[1] for pair in pairs}


def _name(source: Source, options: Options) -> str:
    budget = f"{options.average_bits:g}bits-per-{options.budget}"
    kind = f"{options.losses}-{options.weight}-{options.phase}"
    return f"{source.model.name}-{budget}-{kind}-seed{source.seed}"


def _provenance(source: Source, trace: Trace, options: Options, table: LossTable) -> dict[str, Any]:
    decided = options.model_dump(mode="json") | {"loss_table": None}
    common = source.provenance(trace, decided)
    steps = f"importance of 1 is {IMPORTANCE_STEPS}; losses in units of loss_scale, to the nearest"
    facts = {"losses": {"name": table.name} | (table.facts or {})}
    return common | facts | {"rounding": steps} | (source.notes or {})
