"""Whether a plan fits a model, a machine and a number of steps."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from moeopt.core.errors import InputError
from moeopt.sim.plan.schema import Plan


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
    _check_assignments(plan, extent)
    _check_migrations(plan, extent)


def _check_assignments(plan: Plan, extent: Extent) -> None:
    for row, entry in enumerate(plan.assignments):
        field = f"assignments[{row}]"
        _check_when(field, entry.step, entry.layer, extent)
        _check_ids(field, [*entry.gpu, *entry.cpu, *entry.ndp], extent)


def _check_migrations(plan: Plan, extent: Extent) -> None:
    for row, entry in enumerate(plan.migrations):
        field = f"migrations[{row}]"
        _check_when(field, entry.step, entry.layer, extent)
        _below(f"{field}.expert", entry.expert, extent.experts, "experts")
        if entry.dimm is not None:
            _below(f"{field}.dimm", entry.dimm, extent.dimms, "dimms")


def _check_layers(name: str, value: Sequence[object] | None, extent: Extent) -> None:
    if value is not None and len(value) not in (1, extent.layers):
        raise InputError(f"plan: {name}: has {len(value)} entries for {extent.layers} layers")


def _check_row(field: str, row: Sequence[object], extent: Extent) -> None:
    if len(row) != extent.experts:
        raise InputError(f"plan: {field}: has {len(row)} entries for {extent.experts} experts")


def _check_ids(field: str, ids: Iterable[int], extent: Extent) -> None:
    seen = set()
    for expert in ids:
        _below(field, expert, extent.experts, "experts")
        if expert in seen:
            raise InputError(f"plan: {field}: expert {expert} stands there twice")
        seen.add(expert)


def _check_when(field: str, step: int | None, layer: int, extent: Extent) -> None:
    _below(f"{field}.layer", layer, extent.layers, "layers")
    if step is not None:
        _below(f"{field}.step", step, extent.steps, "steps")


def _below(field: str, value: int, limit: int, what: str) -> None:
    if value >= limit:
        raise InputError(f"plan: {field}: must be below {what} = {limit}, not {value}")
