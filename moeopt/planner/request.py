"""What a plan is asked for."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypedDict

from moeopt.core.errors import InputError
from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.runtimes.applied import quantum_ns
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.traces.repeats import MIN_RUN
from moeopt.sim.traces.split import hold_out
from moeopt.sim.traces.trace import Counts, Trace
from moeopt.solvers.arguments import Asked

from .routing import Routing, drawn_parts

DECIDED_ON = 1000
"""Steps that are decided on unless it is said how many. With 200 of them the plan of ``moeopt plan
--machine rtx4090-7960x --model deepseek-v2-lite --trace law.npz --hold-out-steps 1000`` has 42.0
tokens/s on held-out steps, with 1,000 44.0, with 4,000 44.1 (``--decide-steps``)."""

HELD_OUT = 500
"""Steps that are held out unless it is said how many."""


class Limits(TypedDict, total=False):
    """What `moeopt.solve` is given of a request's limits."""

    time_limit_s: float
    work_limit: float
    workers: int
    seed: int


@dataclass(frozen=True)
class Request:
    """A machine, a model, what was routed so far, and how far the plan may go.

    Attributes
    ----------
    trace
        A trace; or counts or a workload, from which steps are drawn.
    batch, context
        Tokens in a step, and tokens in the KV cache of each of them.
    steps
        Most steps that are decided on, and most that are held out; None: `DECIDED_ON`, `HELD_OUT`.
    decide_steps, hold_out_steps
        The one or the other alone; None: `steps`.
    held_out
        Share of the trace that is held out; None: 0.3. Only of a trace.
    keep_repeats
        Whether runs of tokens that occurred before stay in the trace; held-out steps may then equal
        steps that were decided on.
    reserved_gib, host_reserved_gib
        Memory of the GPU, and of the host, that stays free.
    max_deferred
        Most experts of a layer that may be deferred, which changes the model's output; at most all
        but two of the model's top-k, the least that KTransformers keeps immediate (4.2).
    average_bits, bits
        Bits per weight of the experts on average, and the widths to choose from, by default
        "2,4,8,16"; without `average_bits` every expert has the model's.
    other_bits
        Bits per weight of everything but the routed experts, where they were asked for; the model
        has them already.
    loss_table
        Measured losses at these widths (``moeopt losses``); without one those of random experts.
    expect
        Where the times come from and what to expect of them, in words.
    quality_loss
        Share of the layers' outputs that widths and deferral together may lose, in the units of the
        loss table; then widths are free, decided jointly. None: widths by `average_bits`.
    joint_time_s
        Of the time limit, what deciding everything at once may take; None: half of it; 0: decisions
        are taken one after the other, without a bound on all of them.
    time_limit_s, workers, seed
        For all solving together; threads; seed of everything random.
    work_limit
        In place of the time limit, units of work for all solving together: with it the same plan on
        every machine, busy or not.
    """

    machine: Machine
    model: ModelShape
    trace: Routing
    batch: int = 1
    context: int = 512
    steps: int | None = None
    decide_steps: int | None = None
    hold_out_steps: int | None = None
    held_out: float | None = None
    keep_repeats: bool = False
    reserved_gib: float = 1.0
    host_reserved_gib: float = 1.0
    max_deferred: int = 0
    average_bits: float | None = None
    bits: str | None = None
    other_bits: float | None = None
    loss_table: Path | None = None
    expect: str = ""
    quality_loss: float | None = None
    joint_time_s: float | None = None
    time_limit_s: float = 60.0
    work_limit: float | None = None
    workers: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise InputError unless the numbers make sense and the machine can run such a plan."""
        for name in ("batch", "steps", "decide_steps", "hold_out_steps", "workers"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name}: must be at least 1, not {value}")
        if not 0 < self.time_limit_s < float("inf"):
            raise InputError(f"time_limit_s: must be above 0, not {self.time_limit_s}")
        if self.work_limit is not None:
            if not 0 < self.work_limit < float("inf"):
                raise InputError(f"work_limit: must be above 0, not {self.work_limit}")
            if self.workers != 1:
                raise InputError(f"work_limit: goes with one worker only, not {self.workers}")
        if self.quality_loss is not None:
            self._check_quality(self.quality_loss)
        if not 0 <= self.joint_limit_s < self.time_limit_s:
            most = f"from 0 to below the time limit, {self.time_limit_s:g}"
            raise InputError(f"joint_time_s: must be {most}, not {self.joint_time_s}")
        for name in ("context", "max_deferred", "reserved_gib", "host_reserved_gib"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise InputError(f"{name}: must not be negative, not {getattr(self, name)}")
        if self.machine.cpu is None:
            name = self.machine.name
            raise InputError(f"machine {name}: cpu: is missing; a plan is for a GPU beside a CPU")

        if not isinstance(self.trace, Trace):
            self._check_drawn(self.trace)

    def _check_quality(self, budget: float) -> None:
        """Raise InputError unless a budget of quality can be used."""
        if not 0 <= budget <= 1:
            raise InputError(f"quality_loss: must be from 0 to 1, not {budget}")
        if self.average_bits is not None:
            raise InputError("quality_loss: not with average_bits: one budget of widths is enough")
        if self.joint_time_s == 0:
            raise InputError("quality_loss: is for all decisions at once; joint_time_s is 0")

    def _check_drawn(self, known: Routing) -> None:
        """Raise InputError if something is asked for that only a trace can give."""
        what = "a file of counts" if isinstance(known, Counts) else "a workload"
        if self.held_out is not None or self.keep_repeats:
            name = "keep_repeats" if self.held_out is None else "held_out"
            raise InputError(f"{name}: needs a trace: {what} has no tokens in order to leave out")
        if isinstance(known, Counts) and self.max_deferred:
            raise InputError("max_deferred: needs a trace: counts have no scores to defer by")

    @property
    def joint_limit_s(self) -> float:
        """Of the time limit, what deciding everything at once may take."""
        return self.time_limit_s / 2 if self.joint_time_s is None else self.joint_time_s

    def limits(self, share: float) -> Limits:
        """Return what `moeopt.solve` is given of the limits: so large a share."""
        if self.work_limit is not None:
            return {"work_limit": share * self.work_limit, "workers": 1, "seed": self.seed}
        time_s = share * self.time_limit_s
        return {"time_limit_s": time_s, "workers": self.workers, "seed": self.seed}

    @property
    def whole_limit(self) -> Asked:
        """The limit for everything, as the arguments that ask for it."""
        seconds = self.time_limit_s if self.work_limit is None else None
        return Asked(time_limit_s=seconds, work_limit=self.work_limit)

    @cached_property
    def quantum_ns(self) -> int:
        """What times are multiples of."""
        return quantum_ns(self.machine, self.model)

    @property
    def knows_order(self) -> bool:
        """Whether it is known which tokens follow one another, which a cache lives on."""
        return isinstance(self.trace, Trace)

    @property
    def most_decided_on(self) -> int:
        """Most steps that are decided on."""
        return self.decide_steps or self.steps or DECIDED_ON

    @property
    def most_held_out(self) -> int:
        """Most steps that are held out, or drawn anew."""
        return self.hold_out_steps or self.steps or HELD_OUT

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
        share = 0.3 if self.held_out is None else self.held_out
        return hold_out(self.trace, share, self.batch, min_run=min_run)
