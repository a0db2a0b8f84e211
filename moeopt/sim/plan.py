"""What a plan file holds: every decision of the problems, each part optional.

Whether a plan fits a model, a machine and a number of steps, and what its steps cost besides routed
experts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from moeopt.core.envelope import Count, Frozen, Name, Nanoseconds, field_error, validated
from moeopt.core.errors import InputError, expect
from moeopt.core.json_files import read_object
from moeopt.sim.costs.quanta import DEFAULT_QUANTUM_NS
from moeopt.sim.costs.step import StepCosts

MAX_LAYERS = 4096
MAX_EXPERTS = 4096

Domain = Literal["gpu", "cpu", "ndp"]
Kind = Literal["prefetch", "localize", "stripe", "rebalance"]


def _as_list(value: object) -> object:
    """Let a bare number stand for a list of one."""
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else value


Layers = Field(min_length=1, max_length=MAX_LAYERS)
Experts = Field(max_length=MAX_EXPERTS)
Rows = Field(max_length=100_000)
EachLayerNs = Annotated[tuple[Nanoseconds, ...], Layers, BeforeValidator(_as_list)]
EachLayerCount = Annotated[tuple[Count, ...], Layers, BeforeValidator(_as_list)]
Ids = Annotated[tuple[Count, ...], Experts]
Bits = Annotated[float, Field(ge=0.5, le=64, allow_inf_nan=False)]


class Times(Frozen):
    """What a step costs besides its routed experts, in ns; one number, or one per layer.

    Parameters
    ----------
    attention_ns, other_ns
        On the GPU, one after the other, before a layer's experts; by default 0.
    shared_ns
        Shared experts, on the GPU beside the routed ones; by default the cost of the model's
        shared experts for the whole batch.
    to_host_ns, to_gpu_ns
        Handing activations to CPU and NDP units, and their results back; by default 0. The
        one-way `sync_ns` of expert deferral is both; `activation_ns` of the expert cache, which
        covers both ways, is the first alone.
    step_ns
        On the GPU before each step's first layer: dense layers, head, framework; by default 0.
    """

    attention_ns: EachLayerNs = (0,)
    other_ns: EachLayerNs = (0,)
    shared_ns: EachLayerNs | None = None
    to_host_ns: EachLayerNs = (0,)
    to_gpu_ns: EachLayerNs = (0,)
    step_ns: Nanoseconds = 0


class Assignment(Frozen):
    """Domains fixed for some experts of a layer in one step, or in every step (`step` null)."""

    step: Count | None = None
    layer: Count
    gpu: Ids = ()
    cpu: Ids = ()
    ndp: Ids = ()


class Migration(Frozen):
    """One expert moved before a layer, in one step, or in every step (`step` null).

    It happens in the window before the experts of `layer` run, and holds for them. A prefetched
    expert is on the GPU for that layer of that step; the other kinds change the layout for good.
    `dimm` is the new place, given for "localize" and "rebalance" only.
    """

    step: Count | None = None
    layer: Count
    expert: Count
    kind: Kind
    dimm: Count | None = Field(default=None, validate_default=True)

    @field_validator("dimm")
    @classmethod
    def _place_where_there_is_one(cls, dimm: int | None, info: ValidationInfo) -> int | None:
        kind = info.data.get("kind")
        if kind is not None and (dimm is None) == (kind in ("localize", "rebalance")):
            if dimm is None:
                raise field_error([], f"must be an integer because kind is {kind}")
            raise field_error([], f"must be null because kind is {kind}, not {dimm}")
        return dimm


class Plan(Frozen):
    """A plan. Lists over layers have one entry per layer, or a single one for all layers.

    Parameters
    ----------
    resident
        Experts whose weights stay on the GPU, per layer; by default none. They keep a host copy.
    layout
        Per layer and expert the DIMM that holds it (localized), or null if it is striped over all;
        by default all are striped.
    policy
        How the domain of each expert is chosen from the loads that come: "gpu-only",
        "cpu-for-misses" (the default: residents on the GPU, the rest on the CPU), "threshold" (each
        layer's optimal schedule), or a heuristic of tri_domain by name.
    assignments
        Domains that are fixed in advance, 100,000 entries at most; a later entry wins, and `policy`
        has the rest.
    cache_ways
        Places of a layer's LRU cache on the GPU; by default 0, no cache.
    deferred
        How many of a layer's CPU experts are deferred; by default 0, and 0 in the last layer.
    bits
        Bits per weight, per layer and expert (or one number for a layer); by default the model's.
    migrations
        In order of priority, 100,000 at most.
    window
        Which migrations fit: those whose time on each link adds up to at most the time of the
        layer's `attention_ns` and `other_ns` ("attention", the default), to `pcie_window_ns` and
        `dimm_link_window_ns` ("given"), or all of them ("unlimited"). One that does not fit is
        left out, and smaller ones after it may still fit.
    dimm_links
        Whether moves between DIMMs share one link or have one per DIMM.
    gpu_work
        What an expert without weights on the GPU keeps busy: PCIe, and then the GPU, which may
        compute others meanwhile ("two parts", the default, as in `moeopt.compare`); or the GPU
        alone for the longer of both ("one path", TriMoE Eq. 2 and 5), as in problem tri_domain.
    times
        Everything that is not a routed expert.
    """

    schema_version: Annotated[int, Field(strict=True, ge=1, le=1)] = 1
    name: Name = "plan"
    resident: Annotated[tuple[Ids, ...], Layers] | None = None
    layout: Annotated[
        tuple[Annotated[tuple[Count | None, ...], Experts], ...], Layers
    ] | None = None  # fmt: skip
    policy: Name = "cpu-for-misses"
    assignments: Annotated[tuple[Assignment, ...], Rows] = ()
    cache_ways: EachLayerCount = (0,)
    deferred: EachLayerCount = (0,)
    bits: Annotated[
        tuple[Annotated[tuple[Bits, ...], Experts, BeforeValidator(_as_list)], ...],
        Layers,
    ] | None = None  # fmt: skip
    migrations: Annotated[tuple[Migration, ...], Rows] = ()
    window: Literal["attention", "given", "unlimited"] = "attention"
    pcie_window_ns: Nanoseconds = 0
    dimm_link_window_ns: Nanoseconds = 0
    dimm_links: Literal["shared", "per-dimm"] = "shared"
    gpu_work: Literal["two parts", "one path"] = "two parts"
    times: Times = Times()


def load_plan(path: str | Path) -> Plan:
    """Read a plan from a ``.json`` or ``.json.gz`` file.

    Parameters
    ----------
    path
        The file, as `moeopt.save` and ``moeopt plan --out`` write it.

    Returns
    -------
    Plan
        With every default filled in.

    Raises
    ------
    InputError
        If the file cannot be read or is not a valid plan; one line: file, field, reason.

    Examples
    --------
    >>> import moeopt
    >>> moeopt.save(moeopt.Plan(deferred=(2,)), "plan.json")
    >>> moeopt.load_plan("plan.json").deferred
    (2,)
    """
    expect("path", path, str, Path, what="a path")
    path = Path(path)
    with validated(path, Plan):
        return Plan.model_validate(read_object(path))


@dataclass(frozen=True)
class Extent:
    """How much there is of everything that a plan may name."""

    steps: int
    layers: int
    experts: int
    dimms: int


def check_fits(plan: Plan, extent: Extent) -> None:
    """Raise InputError, one line with the field, unless the plan fits."""
    for name in ("resident", "layout", "cache_ways", "deferred", "bits"):
        _check_layers(name, getattr(plan, name), extent)
    for name in ("attention_ns", "other_ns", "shared_ns", "to_host_ns", "to_gpu_ns"):
        _check_layers(f"times.{name}", getattr(plan.times, name), extent)
    for layer, ids in enumerate(plan.resident or ()):
        _check_ids(f"resident[{layer}]", ids, extent)
    for layer, row in enumerate(plan.layout or ()):
        _check_row(f"layout[{layer}]", row, extent)
        for expert, dimm in enumerate(row):
            if dimm is not None:
                _below(f"layout[{layer}][{expert}]", dimm, extent.dimms, "dimms")
    for layer, widths in enumerate(plan.bits or ()):
        if len(widths) != 1:
            _check_row(f"bits[{layer}]", widths, extent)
    for layer, ways in enumerate(plan.cache_ways):
        _below(f"cache_ways[{layer}]", ways, extent.experts + 1, "experts + 1")
    for number, fixed in enumerate(plan.assignments):
        _check_when(f"assignments[{number}]", fixed.step, fixed.layer, extent)
        _check_ids(f"assignments[{number}]", [*fixed.gpu, *fixed.cpu, *fixed.ndp], extent)
    for number, move in enumerate(plan.migrations):
        _check_when(f"migrations[{number}]", move.step, move.layer, extent)
        _below(f"migrations[{number}].expert", move.expert, extent.experts, "experts")
        if move.dimm is not None:
            _below(f"migrations[{number}].dimm", move.dimm, extent.dimms, "dimms")


def _check_layers(name: str, value: Sequence[object] | None, extent: Extent) -> None:
    if value is not None and len(value) not in (1, extent.layers):
        raise InputError(
            f"{name}: has {len(value)} entries for {extent.layers} layers", field="plan"
        )


def _check_row(field: str, row: Sequence[object], extent: Extent) -> None:
    if len(row) != extent.experts:
        raise InputError(
            f"{field}: has {len(row)} entries for {extent.experts} experts", field="plan"
        )


def _check_ids(field: str, ids: Iterable[int], extent: Extent) -> None:
    seen = set()
    for expert in ids:
        _below(field, expert, extent.experts, "experts")
        if expert in seen:
            raise InputError(f"{field}: expert {expert} stands there twice", field="plan")
        seen.add(expert)


def _check_when(field: str, step: int | None, layer: int, extent: Extent) -> None:
    _below(f"{field}.layer", layer, extent.layers, "layers")
    if step is not None:
        _below(f"{field}.step", step, extent.steps, "steps")


def _below(field: str, value: int, limit: int, what: str) -> None:
    if value >= limit:
        raise InputError(f"{field}: must be below {what} = {limit}, not {value}", field="plan")


def times_of_step(
    costs: StepCosts, tokens: int, context: int, quantum_ns: int = DEFAULT_QUANTUM_NS
) -> Times:
    """Return attention, shared experts, synchronisations, and once per step dense layers and head.

    Parameters
    ----------
    tokens
        Tokens in a step.
    context
        Tokens in the KV cache of each of them.
    quantum_ns
        Every time is rounded up to a multiple of this.

    Raises
    ------
    InputError
        As `moeopt.sim.costs.step.StepCosts.layer`, whose assumptions these times have.
    """
    cost, model = costs.layer(tokens, context, quantum_ns), costs.model
    dense_layers = model.layers - len(model.moe_layers)
    fixed, beside = costs.step_ns(quantum_ns), costs.overheads.beside
    return Times(
        attention_ns=(cost.attention_ns,),
        other_ns=(0 if beside else cost.shared_ns,),
        shared_ns=(cost.shared_ns if beside else 0,),
        to_host_ns=(cost.sync_ns,),
        to_gpu_ns=(cost.sync_ns,),
        step_ns=dense_layers * (cost.attention_ns + cost.dense_ns) + cost.head_ns + fixed,
    )
