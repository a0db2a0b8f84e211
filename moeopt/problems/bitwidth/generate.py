"""bitwidth instances: the experts of all layers that are not on the GPU, and what they lose.

Two things make up a loss: what an expert's output loses at a width (a table, or a law fitted to
measured ones), and how much that counts. With `weight` "usage" it counts by the
share of the layer's choices that went to the expert, with "none" all experts count alike, as in the
paper's table. Either way importance, which orders the experts for `prefix-split`, is the paper's,
from the prompt.

Losses become integers. Where nothing couples the layers, each has a unit of its own; layers that
share a budget or a width have one unit together, so that their losses add up. The largest loss that
counts, by the usage of either phase, is 10^10 units; a loss above zero is never rounded to zero.
What rounding can change is stated with each layer (`moeopt/sim/models/loss_units.py`).

For a hold-out, generate the same instance with ``phase = "decode"``: the same experts, orders,
budgets and units, and losses weighted by what the decoded tokens chose. The checker's objective of
a plan on that instance is its held-out loss.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moeopt.core import rounding
from moeopt.core.envelope import Frozen
from moeopt.core.errors import InputError
from moeopt.sim.models.importance import decode_tokens, importance, prefill_tokens, usage
from moeopt.sim.models.loss_law import LAWS
from moeopt.sim.models.loss_table import LossTable, load_loss_table
from moeopt.sim.models.loss_units import Rounded, by_loss, by_table
from moeopt.sim.presets import find, names
from moeopt.sim.source import FeltWhere, Record, Source, Where, made_again
from moeopt.sim.traces.trace import Trace
from moeopt.sim.traces.workload import Workload

from .instance import Expert, Granularity, Instance, Layer

IMPORTANCE_STEPS = 10**6
"""What an importance of 1 is as an integer."""

BEFORE = {"scale": "table", "prior_choices": 0.0}
"""Options that are younger than instances made before them, with what held then: a provenance
leaves them out, so that those instances are made again byte for byte."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Options(Frozen):
    """What this generator can be told besides machine, model, trace and seed."""

    felt_where: ClassVar[FeltWhere] = {
        "seed": Where(
            "of a workload, or where a law draws the losses",
            lambda o, s: s.workload is not None or o.loss_table is None,
        ),
        "losses": Where("without loss_table", lambda o, _: o.loss_table is None),
        "alpha": Where(
            "with a workload, or a trace that has the router's weights",
            lambda _, s: (
                s.workload is not None or (s.trace is not None and s.trace.topk_weights is not None)
            ),
        ),
        "phase": Where("where weight is usage", lambda o, _: o.weight == "usage"),
        "prior_choices": Where("where weight is usage", lambda o, _: o.weight == "usage"),
        "prefill_share": Where(
            "of a trace or workload that marks no tokens as decoded",
            lambda _, s: s.workload is not None or (s.trace is not None and s.trace.decode is None),
        ),
        "sequence": Where(
            "of a trace or a workload", lambda _, s: s.trace is not None or s.workload is not None
        ),
    }

    average_bits: Annotated[
        float, Field(ge=1, le=64, description="budget per expert; the total is rounded down")
    ] = 2.5
    budget: Annotated[
        Literal["layer", "model"], Field(description="one budget per layer, or one for all")
    ] = "layer"
    granularity: Annotated[
        Granularity, Field(description="what has a width of its own: expert, layer or model")
    ] = "expert"
    bits: Annotated[
        str | None, Field(description="the widths, comma-separated; default: the table's, or 1-4")
    ] = None
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
        Literal["fitted", "alike", "fourfold", "convex"],
        Field(description="law of losses; fitted: to Mixtral's measured ones"),
    ] = "fitted"
    loss_table: Annotated[
        Path | None,
        Field(description="table of measured losses (CSV, npz or JSON), instead of a law"),
    ] = None
    weight: Annotated[
        Literal["usage", "none"], Field(description="what a loss counts: by usage, or all alike")
    ] = "usage"
    scale: Annotated[
        Literal["own", "table"],
        Field(description="unit of loss: each layer's or the model's own, or the table's / 10^7"),
    ] = "own"
    phase: Annotated[
        Literal["prefill", "decode", "all"],
        Field(description="whose usage: of prompt or decoded tokens, or of both"),
    ] = "prefill"
    prior_choices: Annotated[
        float,
        Field(ge=0, le=2**20, description="added to each expert's choices: none counts nothing"),
    ] = 0.0
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
        The trace orders and weighs the experts; the seed draws losses. Neither trace nor
        workload is needed where losses do not count by usage and no expert is on the GPU: then all
        experts are equally important.
    options
        See `Options`.
    table
        Losses in place of those that the options name.

    Raises
    ------
    InputError
        If options, trace, table and model do not fit each other.
    """
    named = table or (None if options.loss_table is None else load_loss_table(options.loss_table))
    if options.bits is None:
        widths = (1, 2, 3, 4) if named is None else named.bits
        options = options.model_copy(update={"bits": ",".join(map(str, widths))})
    bits = _numbers("bits", options.bits or "")
    if source.workload is None and "tokens" in options.model_fields_set:
        raise InputError("tokens: is for a workload; a trace has the tokens it has")
    trace = _trace(source, options)
    experts = source.model.routed_experts
    layers = options.layers or len(source.model.moe_layers) if trace is None else trace.layers
    if options.gpu_experts >= experts:
        raise InputError(f"gpu_experts: must leave some of {experts} experts, not all")
    found = (named or _table(source, options, bits, layers)).restricted(bits)
    if found.losses.shape[0] < layers or found.losses.shape[1] != experts:
        have, need = found.losses.shape[:2], (layers, experts)
        raise InputError(f"{found.name}: loss: {have} layers and experts, where {need} are needed")
    known = _Known.of(trace, options, layers, experts)
    ranks = np.rint(known.importance * IMPORTANCE_STEPS).astype(np.int64)
    on_ndp = np.sort(np.argsort(-ranks, axis=1, kind="stable")[:, options.gpu_experts :], axis=1)
    rounded = _rounded(options, found, known, on_ndp)
    rows = tuple(
        _layer(options, on_ndp[layer], ranks[layer], rounded, layer) for layer in range(layers)
    )
    total = None
    if options.budget == "model":
        total = _budget(options, sum(len(row.experts) for row in rows))
    return Instance(
        name=source.name or _name(source, options, named),
        provenance=_provenance(source, trace, options, found, named),
        bits=bits,
        loss_scale=rounded.scales[0] if rounded.one_unit else 1.0,
        granularity=options.granularity,
        min_count=_min_count(options.min_count),
        layers=rows,
        model_budget_bits=total,
    )


def assume(instance: Instance, assumption: str, value: str) -> Instance | None:
    """Return the same experts under another value of an assumption; see `sim.source.made_again`.

    None as well where the loads were those of a real trace, which no provenance keeps.
    """
    return made_again(
        instance,
        assumption,
        value,
        assumed=ASSUMED,
        options=Options,
        make=_from_record,
        younger=BEFORE,
    )


def _from_record(instance: Instance, record: Record, options: Options) -> Instance | None:
    """Return the instance that a record and other options give; None if they give none.

    A file that a stranger's provenance names is not read.
    """
    origin = instance.provenance or {}
    trace = origin.get("trace")
    workload = str(trace.get("name", "")) if isinstance(trace, dict) else ""
    workload = workload.removeprefix("workload ")
    source = record.source(instance)
    if source is None or workload not in names("workloads") or options.loss_table is not None:
        return None
    notes = {key: note for key, note in origin.items() if key not in OWN_KEYS}
    known = find("workloads", Workload, workload)
    return generate(replace(source, workload=known, notes=notes), options)


ASSUMED = ("losses", "budget", "weight")
"""The options that are assumptions of instances."""

OWN_KEYS = ("machine", "model", "trace", "seed", "options", "rounding", "losses")
"""What `generate` itself writes into the provenance."""


@dataclass(frozen=True)
class _Known:
    """What the trace says, shape (layers, experts).

    `usage` is what an expert's loss counts in the phase that is asked for, `most` in either phase.
    """

    importance: Floats
    usage: Floats
    most: Floats

    @classmethod
    def of(cls, trace: Trace | None, options: Options, layers: int, experts: int) -> "_Known":
        even = np.full((layers, experts), 1 / experts)
        if trace is None:
            return cls(np.zeros_like(even), even, even)
        chosen = (options.prefill_share, options.sequence)
        prompt, answer = prefill_tokens(trace, *chosen), decode_tokens(trace, *chosen)
        score = importance(trace, prompt, experts, options.alpha)
        if options.weight == "none":
            return cls(score, even, even)
        by_phase = {"prefill": prompt, "decode": answer, "all": prompt | answer}
        shares = {
            phase: usage(trace, tokens, experts, options.prior_choices)
            for phase, tokens in by_phase.items()
        }
        return cls(score, shares[options.phase], np.maximum.reduce(list(shares.values())))


def _rounded(options: Options, table: LossTable, known: _Known, on_ndp: Ints) -> Rounded:
    """Return the losses of the experts that get a width, counted and rounded."""
    losses = np.take_along_axis(table.losses[: len(on_ndp)], on_ndp[:, :, None], axis=1)
    usage, most = (np.take_along_axis(of, on_ndp, axis=1) for of in (known.usage, known.most))
    if options.scale == "table":
        return by_table(losses, usage, float(table.losses.max()))
    coupled = options.budget == "model" or options.granularity == "model"
    return by_loss(losses, usage, most, one_unit=coupled)


def _layer(options: Options, on_ndp: Ints, ranks: Ints, rounded: Rounded, layer: int) -> Layer:
    losses = rounded.losses[layer].tolist()
    experts = tuple(
        Expert(expert=e, importance=int(ranks[e]), loss=tuple(loss))
        for e, loss in zip(on_ndp.tolist(), losses, strict=True)
    )
    return Layer(
        budget_bits=_budget(options, len(experts)) if options.budget == "layer" else None,
        experts=experts,
        loss_scale=None if rounded.one_unit else rounded.scales[layer],
        loss_error=None if rounded.errors is None else rounded.errors[layer],
    )


def _budget(options: Options, experts: int) -> int:
    """Return the budget of so many experts, rounded down but for the error of a float."""
    return int(options.average_bits * experts + 1e-9)


def _trace(source: Source, options: Options) -> Trace | None:
    """Return the trace, with the layers that are asked for; None if there is none, nor a need."""
    model = source.model
    layers = len(model.moe_layers)
    if source.workload is None and source.trace is None:
        for name, needed in (
            ("weight", options.weight == "usage"),
            ("gpu_experts", options.gpu_experts),
        ):
            if needed:
                value = getattr(options, name)
                raise InputError(f"{name}: {value} needs a trace or a workload")
        if options.layers is not None and options.layers > layers:
            raise InputError(f"layers: {model.name} has {layers}, not {options.layers}")
        return None
    trace = source.stretch(options.layers, options.tokens)
    if options.layers is not None and options.layers > trace.layers:
        raise InputError(f"layers: {trace.name} has {trace.layers}, not {options.layers}")
    kept = slice(options.layers)
    weights = None if trace.topk_weights is None else trace.topk_weights[:, kept]
    return Trace(
        trace.name, trace.topk_ids[:, kept], weights, trace.seq_len, trace.facts, trace.decode
    )


def _table(source: Source, options: Options, bits: tuple[int, ...], layers: int) -> LossTable:
    """Return losses by a law."""
    experts = source.model.routed_experts
    if options.losses == "convex":
        streams = np.random.default_rng(source.seed).spawn(layers)
        widths = np.array(bits, dtype=np.float64)
        drawn = np.stack([np.exp(stream.standard_normal((experts, 1))) for stream in streams])
        losses = rounding.rounded(drawn * 4.0**-widths)
        return LossTable("convex law", bits, losses, {"law": "exp(normal) x 4^-bits"})
    return LAWS[options.losses].table(layers, experts, bits, source.seed)


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


def _name(source: Source, options: Options, named: LossTable | None) -> str:
    budget = f"{options.average_bits:g}bits-per-{options.budget}"
    losses: str = options.losses
    if named is not None:
        losses = re.sub(r"[^\w.-]+", "-", Path(named.name).name.partition(".")[0])[:60] or "table"
    kind = f"{losses}-{options.weight}-{options.phase}"
    return f"{source.model.name}-{budget}-{kind}-seed{source.seed}"


def _provenance(
    source: Source,
    trace: Trace | None,
    options: Options,
    table: LossTable,
    named: LossTable | None,
) -> dict[str, Any]:
    """Return the record: with a table that was given, `losses` names none that were drawn."""
    decided = options.model_dump(mode="json") | {"loss_table": None}
    if named is not None:
        decided |= {"losses": None, "loss_table": Path(named.name).name}
    decided = {
        name: value for name, value in decided.items() if BEFORE.get(name, object()) != value
    }
    common = source.provenance(trace, decided)
    steps = f"importance of 1 is {IMPORTANCE_STEPS}; losses in units of loss_scale, to the nearest"
    if options.scale == "own":
        steps += ", none above zero to zero"
    facts = {"losses": {"name": table.name} | (table.facts or {})}
    return common | facts | {"rounding": steps} | (source.notes or {})
