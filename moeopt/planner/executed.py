"""Plans executed by the event engine: what their steps take, on loads that came and later ones."""

from dataclasses import asdict, dataclass, field

import numpy as np
from numpy.typing import NDArray

from moeopt.sim.plan import Plan, times_of_step
from moeopt.sim.traces.trace import Trace
from moeopt.systems.loads import Loads, loads_of_trace

from .defaults import Default
from .request import Request
from .simulate import simulated


@dataclass(frozen=True)
class Predicted:
    """Latencies of executed steps after the first one, whose caches are empty.

    Attributes
    ----------
    mean_ms, median_ms, p95_ms
        Of the steps' latencies. Copies into caches that still wait at the end are in none of them:
        their experts were missed.
    tokens_per_s
        By the mean.
    first_ms
        Latency of the first step; where there is but one, the others are it as well.
    busy
        Resource -> share of the time that it is busy.
    step_ns
        The latencies themselves, without that of the first step.
    """

    steps: int
    mean_ms: float
    median_ms: float
    p95_ms: float
    tokens_per_s: float
    first_ms: float
    busy: dict[str, float] = field(default_factory=dict)
    step_ns: NDArray[np.int64] = field(
        default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False, compare=False
    )

    def to_dict(self) -> dict[str, object]:
        """Return the numbers as JSON values, without the single latencies."""
        data = asdict(self)
        del data["step_ns"]
        return data


def loads_of(request: Request, part: Trace, most: int | None = None) -> Loads:
    """Return the first steps of a part of the trace, at most so many; by default those decided on.

    A part has at least one step: the trace was split so.
    """
    steps = available(request, part, most)
    return loads_of_trace(part, request.model, request.batch, steps)


def known_steps(decided: Loads, held_out: Loads) -> int:
    """Return how many held-out steps put the loads of a decided step on every expert."""
    seen = {counts.tobytes() for counts in decided.counts}
    return sum(counts.tobytes() in seen for counts in held_out.counts)


def available(request: Request, part: Trace, most: int | None = None) -> int:
    """Return how many steps of a part are used."""
    return min(most or request.most_decided_on, part.tokens // request.batch)


def predicted(request: Request, plan: Plan, loads: Loads) -> Predicted:
    """Execute a plan."""
    found = simulated(plan, request.costs, loads, request.quantum_ns)
    warm = slice(1 if found.steps > 1 else 0, None)
    later_ns, tokens = found.step_ns[warm], int(loads.tokens[warm].sum())
    past_ns = int(later_ns.sum())
    median, p95 = np.quantile(later_ns, [0.5, 0.95]) / 1e6
    return Predicted(
        steps=found.steps,
        mean_ms=past_ns / len(later_ns) / 1e6,
        median_ms=float(median),
        p95_ms=float(p95),
        tokens_per_s=tokens * 1e9 / past_ns if past_ns else float("inf"),
        first_ms=int(found.step_ns[0]) / 1e6,
        busy={used.resource: round(used.utilisation or 0.0, 4) for used in found.usage},
        step_ns=later_ns,
    )


@dataclass(frozen=True)
class Comparison:
    """A plan by name, on the steps that were decided on and on others.

    Attributes
    ----------
    kept, later
        On the steps decided on, and on others: of the held-out part of a trace, or drawn anew.
    drawn
        Whether those are drawn anew, as there is no trace.
    default
        The runtime whose own plan it is, with its flags; None for a plan of ours.
    """

    plan: Plan
    kept: Predicted
    later: Predicted
    drawn: bool = False
    default: Default | None = None

    @property
    def others(self) -> str:
        """What the steps are that were not decided on."""
        return "drawn anew" if self.drawn else "held out"

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values; what there is none of is null, as flags of a plan of ours."""
        on_others: dict[str, object] = {"held_out": None, "drawn_anew": None}
        on_others["drawn_anew" if self.drawn else "held_out"] = self.later.to_dict()
        flags = None if self.default is None else self.default.flags
        known: dict[str, object] = {"name": self.plan.name, "kept": self.kept.to_dict()}
        return known | on_others | {"flags": flags}


def compared(
    request: Request, plan: Plan, default: Default | None, loads: Loads, later: Loads
) -> Comparison:
    """Execute a plan on the loads that were decided on, and on later ones.

    A runtime's own plan takes what that runtime takes, where times are of a runtime.
    """
    if default is not None and (own := request.timed_as(default.runtime)) is not request:
        times = times_of_step(own.costs, own.batch, own.cache.depth, request.quantum_ns)
        request, plan = own, plan.model_copy(update={"times": times})
    kept, others = predicted(request, plan, loads), predicted(request, plan, later)
    return Comparison(plan, kept, others, not isinstance(request.trace, Trace), default)
