"""deferral instances: one decode step through all layers with experts (KTransformers 4.2).

Times come from `moeopt.sim.costs.step`. How far the presets' constants can be
trusted, in the words P (predicted from stated numbers), A (an assumption with a source of its own)
and S (an assumption selected because it fits):

- P: expert bytes over the CPUs' measured bandwidth; sizes of experts, attention and shared experts.
- A: 2.80 ms per layer of DeepSeek-V3 (from 5.87 tokens/s); with the published utilisations 74 %,
  28 % and 3 % it gives expert time, attention and hand-over (0.77 of the bandwidth, 0.64 ms,
  42 us), and bytes scale them to other models and precisions. GPU bandwidths are the vendors'.
- S: of attention's time 100 us are a fixed time per layer, about 49 kernels (anything from 60 to
  155 us gives all six published counts; 0 gives five of them).

Published counts as evidence: three of the six are the cap top_k - 2 (DeepSeek-V3 int4 and both of
DeepSeek-V2.5), so only 3, 2 and 4 test the rule.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from moeopt.core.envelope import Frozen
from moeopt.core.errors import InputError
from moeopt.sim.costs.quanta import to_quanta
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.presets import get_model
from moeopt.sim.source import FeltWhere, Source, Where
from moeopt.sim.traces.trace import Trace

from .instance import Instance
from .scores import published_penalty

BITS = {"bf16": 16, "int8": 8, "int4": 4}

Ints = NDArray[np.int64]


class Options(Frozen):
    """What this generator can be told besides machine, model, trace and seed."""

    felt_where: ClassVar[FeltWhere] = {
        "seed": Where(
            "with variation, or of a workload where batch is above 1",
            lambda o, s: o.variation > 0 or (s.workload is not None and o.batch > 1),
        ),
        "trace": Where("where batch is above 1", lambda o, _: o.batch > 1),
        "workload": Where("where batch is above 1", lambda o, _: o.batch > 1),
    }

    precision: Annotated[
        Literal["bf16", "int8", "int4"], Field(description="width of all weights")
    ] = "bf16"
    context: Annotated[int, Field(ge=0, le=2**24, description="tokens in the KV cache")] = 0
    min_immediate: Annotated[
        int, Field(ge=0, le=256, description="experts per token that stay immediate")
    ] = 2
    layers: Annotated[
        int | None, Field(ge=1, le=1024, description="the first ones only; all if absent")
    ] = None
    variation: Annotated[
        float, Field(ge=0, le=2, description="coefficient of variation of times over the layers")
    ] = 0.0
    penalty: Annotated[
        Literal["linear", "quadratic", "published"],
        Field(description="of deferring d experts: d, d squared, or a model's published scores"),
    ] = "linear"
    penalty_share: Annotated[
        float | None, Field(ge=0, le=1, description="limit, as a share of the largest penalty")
    ] = None
    batch: Annotated[int, Field(ge=1, le=4096, description="tokens in the decode step")] = 1


@dataclass(frozen=True)
class _Experts:
    """What the CPU has to do: experts per layer, how many must be immediate, ns of each one."""

    top_k: int
    min_immediate: int
    expert_ns: Ints
    rule: dict[str, Any] | None = None


def generate(source: Source, options: Options) -> Instance:
    """Return the instance of one decode step.

    Parameters
    ----------
    source
        A batch of one token needs neither trace nor workload.
    options
        `variation` multiplies attention, shared experts and experts of each layer with lognormal
        factors of mean 1, drawn with the seed; hand-overs are the same in all layers. `penalty`:
        the paper states scores of three models (`scores`), and prices nothing else. Deferred are
        the experts of least weight, whose weight grows with the count, hence the choice of squares.

    Raises
    ------
    InputError
        If the source lacks what a batch needs, the model has too few experts or layers, or no
        published scores where they are asked for.

    Notes
    -----
    Batches, by the rule of KTransformers' runtime: each token protects its `min_immediate` experts
    of largest weight, and an expert that any token protects is immediate for all of them. So the
    instance counts experts of the batch and not of a token: `top_k` is the mean number of experts
    that a layer's batch uses, `min_immediate` the mean number that is protected, rounded up. The
    share that may be deferred shrinks as the batch grows. The CPU's work in a layer, which depends
    on the tokens of each expert, is spread evenly over `top_k`. The provenance says how many
    experts the runtime would defer with each count per token. Weights are the trace's, or its order
    where it has none.
    """
    model = source.model.quantized(BITS[options.precision], BITS[options.precision])
    layers = len(model.moe_layers)
    if options.layers is not None:
        if options.layers > layers:
            raise InputError(
                f"layers: {model.name} has {layers} with experts, not {options.layers}"
            )
        layers = options.layers
    if options.min_immediate > model.top_k:
        raise InputError(f"min_immediate: must be at most top_k = {model.top_k}")
    trace = source.stretch(layers, options.batch) if options.batch > 1 else None
    experts = _one_token(source, model, layers, options)
    if trace is not None:
        experts = _batch(source, model, trace, layers, options)
    cost = source.costs.of(model).layer(
        options.batch, options.context, quantum_ns=source.quantum_ns
    )
    factors = _factors(layers, options.variation, source.seed)
    quantum = source.quantum_ns
    most = experts.top_k - experts.min_immediate
    if options.penalty == "published" and options.batch > 1:
        raise InputError("published is for one token at a time", field="penalty")
    penalty, limit = _penalty(options, most, layers, source.model)
    return Instance(
        name=source.name or _name(source, options),
        provenance=_provenance(source, trace, options, experts),
        quantum_ns=quantum,
        layers=layers,
        top_k=experts.top_k,
        min_immediate=experts.min_immediate,
        attention_ns=to_quanta(cost.attention_ns * factors[0], quantum).tolist(),
        shared_ns=to_quanta(cost.shared_ns * factors[1], quantum).tolist(),
        sync_ns=cost.sync_ns,
        expert_cpu_ns=to_quanta(experts.expert_ns * factors[2], quantum).tolist(),
        penalty=penalty,
        max_total_penalty=limit,
    )


def assume(instance: Instance, assumption: str, value: str) -> Instance | None:
    """Return the same layers under another value of an assumption of instances.

    None if the instance does not say which penalties it has.
    """
    try:
        before = Options(**(instance.provenance or {})["options"])
        after = Options(**before.model_dump() | {"penalty": value})
    except (KeyError, TypeError, ValidationError):
        return None
    try:
        model = get_model(str((instance.provenance or {}).get("model")))
        was, now = (
            _penalty(options, instance.max_deferred, instance.layers, model)
            for options in (before, after)
        )
    except InputError:
        return None
    if assumption != "penalty" or was != (instance.penalty, instance.max_total_penalty):
        return None
    return instance.model_copy(update={"penalty": now[0], "max_total_penalty": now[1]})


def _penalty(
    options: Options, most: int, layers: int, model: ModelShape
) -> tuple[tuple[int, ...], int | None]:
    """Return the penalty of each count up to `most`, and the limit of a share of the largest."""
    if options.penalty == "published":
        penalty = published_penalty(model.name, most, len(model.moe_layers))
    else:
        penalty = tuple(d if options.penalty == "linear" else d * d for d in range(most + 1))
    share = options.penalty_share
    return penalty, None if share is None else int(share * penalty[-1] * (layers - 1))


def _factors(layers: int, variation: float, seed: int) -> NDArray[np.float64]:
    """Return lognormal factors of mean 1 and the given coefficient of variation, (3, layers)."""
    if not variation:
        return np.ones((3, layers))
    sigma = float(np.sqrt(np.log1p(variation**2)))
    rng = np.random.default_rng(seed)
    return rng.lognormal(-(sigma**2) / 2, sigma, size=(3, layers))


def _one_token(source: Source, model: ModelShape, layers: int, options: Options) -> _Experts:
    expert_ns = source.costs.of(model).path_ns("cpu_striped", 1, source.quantum_ns)
    return _Experts(model.top_k, options.min_immediate, np.full(layers, int(expert_ns)))


def _batch(
    source: Source, model: ModelShape, trace: Trace, layers: int, options: Options
) -> _Experts:
    """Return the experts of a batch, the first tokens of the trace, by the runtime's rule."""
    if trace.tokens < options.batch or trace.layers < layers:
        need = f"{options.batch} tokens in {layers} layers"
        raise InputError(f"batch: needs {need}, {trace.name} has {trace.tokens} in {trace.layers}")
    ids = trace.topk_ids[: options.batch, :layers].astype(np.int64)
    if trace.topk_weights is not None:
        order = np.argsort(-trace.topk_weights[: options.batch, :layers], axis=2, kind="stable")
        ids = np.take_along_axis(ids, order, axis=2)
    used = [_distinct(ids[:, row]) for row in range(layers)]
    rows = np.arange(options.batch)
    work = [
        source.costs.of(model)
        .path_ns("cpu_striped", trace.counts(rows, row, model.routed_experts)[used[row]], 1)
        .sum()
        for row in range(layers)
    ]
    protected = [
        float(np.mean([len(_distinct(ids[:, row, :kept])) for row in range(layers)]))
        for kept in range(model.top_k + 1)
    ]
    top_k = max(1, round(float(np.mean([len(experts) for experts in used]))))
    least = min(top_k, int(np.ceil(protected[options.min_immediate])))
    per_token = range(model.top_k - options.min_immediate + 1)
    rule = {
        "deferred_per_token": list(per_token),
        "experts_deferred": [
            round(protected[-1] - protected[model.top_k - d], 2) for d in per_token
        ],
        "experts_used": round(protected[-1], 2),
    }
    return _Experts(top_k, least, to_quanta(np.array(work) / top_k, source.quantum_ns), rule)


def _distinct(ids: Ints) -> Ints:
    """Return the experts that occur; -1 stands for none."""
    found = np.unique(ids)
    return found[found >= 0]


def _name(source: Source, options: Options) -> str:
    shape = f"{source.model.name}-{options.precision}-batch{options.batch}"
    return f"{shape}-variation{options.variation:g}-context{options.context}-seed{source.seed}"


def _provenance(
    source: Source, trace: Trace | None, options: Options, experts: _Experts
) -> dict[str, Any]:
    decided = options.model_dump()
    if trace is not None:
        return source.provenance(trace, decided) | {"batch_rule": experts.rule}
    without = Trace("none: one token", np.empty((0, 0, 0), dtype=np.int64))
    return source.provenance(without, decided)
