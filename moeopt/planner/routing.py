"""What is known of the routing: a trace, counts or a workload, and steps drawn from these."""

from dataclasses import replace
from pathlib import Path
from types import NoneType

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError, expect
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.presets import default_workload, find
from moeopt.sim.traces.count_sample import UNKNOWN, counts_of_model, sample_trace
from moeopt.sim.traces.files import load_counts, read_routing
from moeopt.sim.traces.synthetic import routing_trace
from moeopt.sim.traces.trace import Counts, Trace
from moeopt.sim.traces.workload import Workload

Routing = Trace | Counts | Workload

COUNTS = f"{UNKNOWN}: no caches, no deferral, no hold-out"
WORKLOAD = (
    "a workload's experts and their order are made up: no caches, and which is hot means nothing"
)

COUNTED = 4096
"""Tokens that are drawn of a workload to see how often each expert is used."""


ORDERLESS = {"recall": None, "topic": None, "sequences": None, "affinity": None, "drift": 0.0}
"""Changes that leave of a workload how popular experts are."""


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
    expect("trace", trace, str, Path, Trace, Counts, NoneType, what="a trace, counts or a file")
    expect("counts", counts, str, Path, Counts, NoneType, what="counts or a file")
    given = {"trace": trace, "counts": counts, "workload": workload}
    if len(named := [name for name, value in given.items() if value is not None]) > 1:
        raise InputError(f"{', '.join(named)}: at most one of them may be given")
    if workload is not None:
        if not isinstance(workload, Workload):
            workload = find("workloads", Workload, workload)
        return workload, None
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
    routing: Counts | Workload, model: ModelShape, tokens: int, seed: int
) -> tuple[Trace, Trace]:
    """Return tokens to decide on and as many others, drawn from counts or a workload.

    Of a workload, how often each expert is used is drawn first, with `COUNTED` tokens; what it says
    of order is left aside. So a few steps show its popularities without the noise of a few tokens,
    for which residents would be chosen that are no good later.

    Raises
    ------
    InputError
        If they are too many to draw.
    """
    known = routing if isinstance(routing, Counts) else _counted(routing, model, seed)
    first, second = (sample_trace(known, model.top_k, tokens, 2 * seed + at) for at in (0, 1))
    return first, second


def _counted(workload: Workload, model: ModelShape, seed: int) -> Counts:
    law, experts = workload.model_copy(update=ORDERLESS), model.routed_experts
    made = routing_trace(law, experts, model.top_k, len(model.moe_layers), COUNTED, seed)
    counts = made.step_counts(COUNTED, experts=experts)
    return replace(counts, facts={"workload": workload.facts(), "drawn_tokens": COUNTED})


def counts_known(routing: Routing, kept: Trace, experts: int) -> NDArray[np.int64]:
    """Return how often each expert was chosen as far as is known, shape (layers, experts).

    Parameters
    ----------
    kept
        The part that is decided on, all of it; counts are known before steps are drawn from them.
    """
    if isinstance(routing, Counts):
        counts: NDArray[np.int64] = routing.counts.sum(axis=0)
        return counts
    tokens = np.arange(kept.tokens)
    return np.array([kept.counts(tokens, layer, experts) for layer in range(kept.layers)])


def notes(routing: Routing, batch: int, default: str | None) -> tuple[str, ...]:
    """Return what a reader must know of steps that are no recording, a line each."""
    if isinstance(routing, Trace):
        return ()
    lines = [WORKLOAD if isinstance(routing, Workload) else COUNTS]
    if default is not None:
        lines.insert(0, f"no trace: {default}")
    if batch > 1:
        lines.append(f"batch {batch}: tokens are drawn one by one; real ones share more experts")
    return tuple(lines)
