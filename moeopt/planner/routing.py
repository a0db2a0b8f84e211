"""What a plan knows of routing: a trace, or only counts, or a workload that stands for one."""

from dataclasses import replace
from pathlib import Path

from moeopt.errors import InputError
from moeopt.interop.traces import load_counts, read_routing
from moeopt.sim.count_sample import UNKNOWN, counts_of_model, sample_trace
from moeopt.sim.holdout.split import hold_out
from moeopt.sim.model_shape import ModelShape
from moeopt.sim.presets import find
from moeopt.sim.presets.default_workload import default_workload
from moeopt.sim.synthetic import routing_trace
from moeopt.sim.trace import Counts, Trace
from moeopt.sim.windows import MAX_SYNTHETIC_TOKENS
from moeopt.sim.workload import Workload

Routing = Trace | Counts | Workload


def routing_of(
    trace: Routing | str | Path | None,
    counts: Counts | str | Path | None,
    workload: Workload | str | Path | None,
    model: ModelShape,
) -> tuple[Routing, str | None]:
    """Return what is known of the routing, and where it comes from if that was not said.

    With none of the three it is the model's default workload.

    Raises
    ------
    InputError
        If several are given, or the counts are not of this model.
    """
    given = {"trace": trace, "counts": counts, "workload": workload}
    if len(named := [name for name, value in given.items() if value is not None]) > 1:
        raise InputError(f"{', '.join(named)}: at most one of them may be given")
    if workload is not None:
        known = workload if isinstance(workload, Workload) else _workload(workload)
        return known, None
    if isinstance(trace, str | Path):
        trace = read_routing(trace)
    if isinstance(counts, str | Path):
        counts = load_counts(counts)
    found = counts if trace is None else trace
    if isinstance(found, Counts):
        return counts_of_model(found, model), None
    if found is None:
        return default_workload(model)
    return found, None


def drawn_parts(
    routing: Counts | Workload, model: ModelShape, tokens: int, batch: int, seed: int
) -> tuple[Trace, Trace]:
    """Return tokens to decide on and as many others, drawn from counts or a workload.

    Raises
    ------
    InputError
        If they are too many to draw.
    """
    if isinstance(routing, Counts):
        first, second = (sample_trace(routing, model.top_k, tokens, 2 * seed + at) for at in (0, 1))
        return first, second
    if 2 * tokens > MAX_SYNTHETIC_TOKENS:
        raise InputError(f"steps: {2 * tokens} tokens are more than {MAX_SYNTHETIC_TOKENS}")
    layers = len(model.moe_layers)
    made = routing_trace(
        routing, model.routed_experts, model.top_k, layers, 2 * tokens, seed, batch
    )
    return hold_out(replace(made, seq_len=None), 0.5, batch, min_run=None)


def knows_order(routing: Routing) -> bool:
    """Tell whether it says which tokens follow one another, which a cache lives on."""
    return routing.recall is not None if isinstance(routing, Workload) else not _is_counts(routing)


def notes(routing: Routing, batch: int, default: str | None) -> tuple[str, ...]:
    """Return what a reader must know of steps that are no recording, a line each."""
    if isinstance(routing, Trace):
        return ()
    if isinstance(routing, Counts):
        together = f"batch {batch}: a step's tokens are drawn one by one; real ones share experts"
        left_out = f"{UNKNOWN}: no caches, no deferral, no hold-out"
        return (left_out, together) if batch > 1 else (left_out,)
    whose = "workload: its experts are made up: how many and how fast carries over, not which"
    if knows_order(routing):
        lines: tuple[str, ...] = (whose,)
    else:
        lines = (whose, f"workload {routing.name} says nothing of order: no caches")
    return lines if default is None else (f"no trace: {default}", *lines)


def _is_counts(routing: Routing) -> bool:
    return isinstance(routing, Counts)


def _workload(name: str | Path) -> Workload:
    return find("workloads", Workload, name)
