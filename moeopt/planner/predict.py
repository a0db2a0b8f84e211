"""What a plan's steps take, by the event engine on loads that came."""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.planner.decode.loads import Loads, loads_of_trace
from moeopt.planner.simulate import simulate
from moeopt.sim.plan.schema import Plan
from moeopt.sim.traces.trace import Trace

from .request import Request


@dataclass(frozen=True)
class Predicted:
    """Latencies of executed steps after the first one, whose caches are empty.

    Attributes
    ----------
    mean_ms
        From the end of the first step until everything has ended, transfers included, over the
        number of the other steps. Above `p95_ms` if copies outlast the steps.
    median_ms, p95_ms
        Of the steps' own latencies.
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

    def to_dict(self) -> dict[str, Any]:
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
    found = simulate(plan, request.machine, request.model, loads, quantum_ns=request.quantum_ns)
    warm = slice(1 if found.steps > 1 else 0, None)
    later_ns, tokens = found.step_ns[warm], int(loads.tokens[warm].sum())
    total_ns = int(found.step_ns.sum())
    past_ns = max(found.makespan_ns, total_ns) - total_ns + int(later_ns.sum())
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
