"""A machine, a model, what was routed so far, and how far the plan may go."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Self

from moeopt.core.errors import InputError
from moeopt.core.units import GIB
from moeopt.sim.costs.overheads import Overheads
from moeopt.sim.costs.runtime import priced, quantum_ns
from moeopt.sim.costs.step import StepCosts, step_costs
from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.runtimes.memory import WITH_GRAPH
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.traces.repeats import MIN_RUN
from moeopt.sim.traces.trace import Counts, Trace
from moeopt.sim.traces.windows import hold_out

from .options import PlanOptions
from .routing import Routing, drawn_parts

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
