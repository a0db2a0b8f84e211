"""A machine, a model, what was routed so far, and how far the plan may go."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import NoneType
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError, expect
from moeopt.core.units import GIB
from moeopt.sim.costs.overheads import Overheads
from moeopt.sim.costs.runtime import priced, quantum_ns
from moeopt.sim.costs.step import StepCosts, step_costs
from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.runtimes.memory import WITH_GRAPH
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.presets import default_workload, find
from moeopt.sim.traces.count_sample import UNKNOWN, counts_of_model, sample_trace
from moeopt.sim.traces.files import load_counts, read_routing
from moeopt.sim.traces.repeats import MIN_RUN
from moeopt.sim.traces.synthetic import routing_trace
from moeopt.sim.traces.trace import Counts, Trace
from moeopt.sim.traces.windows import hold_out
from moeopt.sim.traces.workload import Workload

from .options import PlanOptions

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


HELD_OUT_SHARE = 0.3


@dataclass(frozen=True)
class Runs:
    """What a runtime can run of a plan.

    Attributes
    ----------
    single_experts
        Some experts of a layer on the GPU and others not.
    caches
        Of experts on the GPU.
    deferral
        Nothing; "one count" for all layers; or one "by layer".
    """

    single_experts: bool = True
    caches: bool = True
    deferral: Literal["nothing", "one count", "by layer"] = "by layer"


RUNS = {
    **dict.fromkeys(WITH_GRAPH, Runs(single_experts=False, caches=False, deferral="nothing")),
    "ktransformers": Runs(caches=False, deferral="one count"),
}
"""Of the runtimes that have a profile. A machine's own times are of no runtime: of everything."""


@dataclass(frozen=True, kw_only=True)
class Request(PlanOptions):
    """Options with what they are for; nothing is left to defaults of machine or runtime.

    Attributes
    ----------
    machine
        With as many cores as compute.
    overheads
        Those of `runtime`; None: as the machine's file says.
    trace
        A trace; or counts or a workload, from which steps are drawn.
    expect
        Where the times come from and what to expect of them, in words.
    by_file
        The machine as its file says, for other runtimes' times; None where these are not asked for.
    """

    machine: Machine
    model: ModelShape
    trace: Routing
    reserved_gib: float = 1.0
    host_reserved_gib: float = 1.0
    expect: str = ""
    by_file: Machine | None = None
    overheads: Overheads | None = None

    def __post_init__(self) -> None:
        """Raise InputError unless the machine can run such a plan, from such a routing."""
        super().__post_init__()
        if not self.machine.nodes:
            name = self.machine.name
            raise InputError(f"machine {name}: cpu: is missing; a plan is for a GPU beside a CPU")
        if self.max_deferred and self.runs.deferral == "nothing":
            reason = f"{self.runtime} defers nothing; --runtime ktransformers does"
            raise InputError(f"{reason}", field="max_deferred")
        if isinstance(self.trace, Trace):
            return
        what = "a file of counts" if isinstance(self.trace, Counts) else "a workload"
        if self.held_out is not None or self.keep_repeats:
            name = "keep_repeats" if self.held_out is None else "held_out"
            raise InputError(
                f"needs a trace: {what} has no tokens in order to leave out", field=name
            )
        if isinstance(self.trace, Counts) and self.max_deferred:
            raise InputError(
                "needs a trace: counts have no scores to defer by", field="max_deferred"
            )

    @property
    def spare_cache_bytes(self) -> int:
        """Bytes of the KV cache that are allocated beside those of the tokens in it.

        Problems count the tokens of every sequence; a runtime allocates one cache for all of them.
        """
        depth = self.cache.depth
        used = self.model.layers * self.batch * (self.model.kv_bytes(depth) if depth else 0)
        return max(0, self.model.cache_bytes(self.cache.allocated) - used)

    @property
    def kept_gib(self) -> float:
        """GiB of GPU memory that problems keep free: what is reserved, and the spare cache."""
        return self.reserved_gib + self.spare_cache_bytes / GIB

    @cached_property
    def quantum_ns(self) -> int:
        """What times are multiples of."""
        return quantum_ns(self.costs)

    @property
    def costs(self) -> StepCosts:
        """What the model's parts take on the machine, as the runtime has them."""
        return step_costs(self.machine, self.model, self.overheads)

    @property
    def runs(self) -> Runs:
        """What the runtime whose times these are can run.

        Where single experts have widths of their own, no runtime here does, and nothing is barred.
        """
        asked = self.average_bits is not None or self.quality_loss is not None
        return Runs() if self.runtime is None or asked else RUNS[self.runtime]

    def timed_as(self, runtime: str) -> Self:
        """Return the request by the times of another runtime; the same where there are none."""
        if self.by_file is None or self.runtime in (None, runtime):
            return self
        timed = priced(self.by_file, self.model, runtime, self.cache.depth)
        return replace(
            self,
            machine=timed.machine,
            overheads=timed.overheads,
            runtime=timed.runtime,
            max_deferred=0,
        )

    @property
    def caches(self) -> bool:
        """Whether caches are possible: for single tokens whose order is known."""
        return self.batch == 1 and isinstance(self.trace, Trace) and self.runs.caches

    @property
    def most_deferred(self) -> int:
        """Most experts of a layer that may be deferred."""
        cap = 0 if isinstance(self.trace, Counts) else max(0, self.model.top_k - 2)
        return min(self.max_deferred, cap)

    def parts(self) -> tuple[Trace, Trace]:
        """Return the part of the trace that is decided on, and the held-out one.

        Of counts and workloads both are drawn, the second one anew.
        """
        if not isinstance(self.trace, Trace):
            most = max(self.most_decided_on, self.most_held_out)
            return drawn_parts(self.trace, self.model, most * self.batch, self.seed)
        min_run = None if self.keep_repeats else MIN_RUN
        share = HELD_OUT_SHARE if self.held_out is None else self.held_out
        return hold_out(self.trace, share, self.batch, min_run=min_run)
