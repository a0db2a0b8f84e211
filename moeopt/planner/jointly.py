"""All decisions at once: the problem joint on the plan's steps, with a bound on every plan.

Residents, widths of single experts, cache ways and deferral share the memory of the GPU and one
budget of quality. The plan of separate decisions is one of the plans that the bound is about, so
that it says of any plan, this one too, how far ahead another could be at most.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from moeopt.core.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.core.errors import HeuristicError
from moeopt.problems.bitwidth.instance import Solution as Bits
from moeopt.problems.joint.check import loss
from moeopt.problems.joint.heuristics import plain_plans
from moeopt.problems.joint.instance import Instance, Solution
from moeopt.problems.placement.instance import Solution as Residents
from moeopt.sim.plan import Plan, Times
from moeopt.sim.traces.trace import Trace
from moeopt.solvers.result import Result
from moeopt.solvers.run import solve
from moeopt.systems.loads import Loads

from .bits import WIDTHS
from .budget import host_memory, within_host
from .candidates import Candidate
from .decision import Decision, made, solved
from .executed import Predicted, available, predicted
from .request import Request
from .residency import whole_instance

METHOD = "column-lagrangian"
"""The exact method of joint."""

PRICE = "0.04"
"""Loss of a deferred expert per score: 0.5 of 13.3 points (KTransformers Fig. 13)."""

ENOUGH_GAP = 0.002
"""A proof of that is enough: real steps differ by more."""


@dataclass(frozen=True)
class Jointly:
    """What the joint problem says.

    Attributes
    ----------
    decision
        The instance and its result.
    candidate
        Its plan, executed on the steps decided on; None if none was found in time.
    bound_ms
        No plan of these kinds takes less for all of these steps, with caches as the problem has
        them; None without a bound.
    """

    decision: Decision
    candidate: Candidate | None
    bound_ms: float | None

    def ahead(self, kept: Predicted) -> float | None:
        """Return by how much another plan could be faster at most; None without a bound."""
        return None if not self.bound_ms else max(0.0, total_ms(kept) / self.bound_ms - 1.0)

    def kinds(self) -> str:
        """Return what the plans that the bound is about may decide."""
        instance = self.decision.of(Instance)
        parts = ["residents"]
        if len(instance.bits) > 1:
            parts.append(f"widths {', '.join(map(str, instance.bits))} within the quality budget")
        if instance.max_ways:
            parts.append("caches whose copies are all made, and usable at once")
        parts += [f"up to {instance.max_deferred} deferred"] if instance.max_deferred else []
        return ", ".join(parts)

    def to_dict(self, kept: Predicted) -> dict[str, object]:
        """Return it as JSON values; `kept` is what the chosen plan takes."""
        return self.decision.to_dict() | {
            "bound_ms": self.bound_ms,
            "plan_ms": total_ms(kept),
            "ahead": self.ahead(kept),
            "kinds": self.kinds(),
        }


def jointly(
    request: Request, part: Trace, loads: Loads, times: Times, widths: Decision | None
) -> Jointly:
    """Decide everything at once.

    Parameters
    ----------
    part, loads
        The steps that are decided on.
    times
        What a step costs besides its routed experts.
    widths
        Widths of single experts that were decided by themselves: no plan may lose more than they
        do, nor have a larger average.
    """
    instance = _instance(request, part, widths)
    share = request.joint_limit_s / request.seconds
    result = solved(instance, METHOD, request, share, ENOUGH_GAP)
    bound = result.bound
    bound_ms = bound / 1e6 if isinstance(bound, int) else None
    solution = result.solution
    if not isinstance(solution, Solution):
        return Jointly(Decision("jointly", instance, result, "no plan in time"), None, bound_ms)
    plan = _plan(instance, solution, times)
    kept = predicted(request, plan, loads)
    counts = [len(layer) for layer in plan.resident or ()]
    says = f"{sum(counts)} experts on the GPU, {min(counts)} to {max(counts)} per layer"
    says += f", {sum(plan.cache_ways)} cache ways" if sum(plan.cache_ways) else ""
    decision = Decision("jointly", instance, result, f"{says}, decided at once")
    made = (*_for_runtimes(request, part, times, plan, widths), decision)
    share = sum(counts) / max(1, sum(counts) + sum(plan.cache_ways))
    found = Candidate(plan, made, kept, sum(plan.deferred), share)
    return Jointly(decision, found, bound_ms)


def _for_runtimes(
    request: Request, part: Trace, times: Times, plan: Plan, widths: Decision | None
) -> Iterator[Decision]:
    """Yield widths and residents as decisions of their own problems, which exporters take.

    What does not pass their checkers, such as widths within another budget, is left out.
    """
    chosen = None
    if plan.bits is not None:
        bits = tuple(tuple(int(width) for width in layer) for layer in plan.bits)
        chosen = Bits(instance="jointly" if widths is None else widths.instance.name, bits=bits)
    if widths is not None and chosen is not None:
        found = _checked(widths.instance, chosen)
        if found is not None:
            yield Decision("bits", widths.instance, found, "decided jointly")
    whole = whole_instance(request, part, available(request, part), chosen, times)
    whole = within_host(request, whole)
    residents = Residents(instance=whole.name, gpu=plan.resident or ())
    found = _checked(whole, residents)
    if found is not None:
        yield Decision("residency", whole, found, "decided jointly")


def _checked(instance: InstanceEnvelope, solution: SolutionEnvelope) -> Result | None:
    """Return a solution as a result of its problem; None if the checker refuses it."""
    try:
        return solve(instance, lambda _: solution)
    except HeuristicError:
        return None


def total_ms(kept: Predicted) -> float:
    """Return what all steps take, the first one too."""
    return kept.first_ms + kept.mean_ms * (kept.steps - 1) if kept.steps > 1 else kept.first_ms


def _instance(request: Request, part: Trace, widths: Decision | None) -> Instance:
    several = widths is not None or request.quality_loss is not None
    instance = made(
        Instance,
        request,
        part,
        batch=request.batch,
        steps=available(request, part),
        context=request.cache.depth,
        bits=_widths(request) if several else "",
        reserved_gib=request.kept_gib,
        max_ways=request.model.routed_experts if request.caches and not several else 0,
        max_deferred=request.most_deferred if request.runs.deferral == "by layer" else 0,
        deferral_price="0" if request.quality_loss is None else PRICE,
        quality_loss=request.quality_loss,
        loss_table=request.loss_table,
        quantum_ns=request.quantum_ns,
    )
    host = host_memory(request)
    if widths is None:
        # what runtimes do: the GPU's experts run there, and the host need not hold them
        most = None if host.holds_all else host.room
        return instance.model_copy(update={"host_copy": False, "host_bytes": most})
    room = min(host.experts, host.room)
    return instance.model_copy(update={"host_bytes": room, "max_loss": _loss_of(instance, widths)})


def _widths(request: Request) -> str:
    """Return the widths to choose from; by default none above the model's own."""
    if request.bits is not None or request.average_bits is not None:
        return request.bits or WIDTHS
    own = [width for width in WIDTHS.split(",") if int(width) <= request.model.bits]
    return ",".join(own) or WIDTHS


def _loss_of(instance: Instance, widths: Decision) -> int:
    """Return what widths that were decided before lose."""
    decided = widths.solved_as(Bits)
    plan = next(plain_plans(instance))  # no budgets yet: all experts on the CPU
    bits = tuple(tuple(int(width or 0) for width in layer) for layer in decided.bits)
    return loss(instance, plan.model_copy(update={"bits": bits}))


def _plan(instance: Instance, solution: Solution, times: Times) -> Plan:
    """Return the plan for the engine; room that is left goes to experts that were not seen."""
    bits = np.array(solution.bits, dtype=np.int64)
    resident = [set(layer) for layer in solution.resident]
    place = np.searchsorted(np.array(instance.bits), bits)
    size = np.array(instance.expert_bytes)[place]
    ways = [count or 0 for count in solution.ways]
    context = instance.contexts[solution.context or 0]
    room = instance.gpu_bytes - context.kv_bytes
    for layer, held in enumerate(resident):
        room -= int(size[layer, list(held)].sum())
        others = [e for e in range(instance.experts) if e not in held]
        room -= ways[layer] * max((int(size[layer, e]) for e in others), default=0)
    rows = instance.rows
    seen = np.zeros((instance.layers, instance.experts), dtype=bool)
    row = np.repeat(np.arange(len(rows.start) - 1), np.diff(rows.start))
    seen[row % instance.layers, rows.expert] = True
    for cell in np.flatnonzero(~seen.T.ravel()).tolist():  # layers in turn
        expert, layer = divmod(cell, instance.layers)
        if expert not in resident[layer] and size[layer, expert] <= room:
            resident[layer].add(expert)
            room -= int(size[layer, expert])
    changed = {"bits": tuple(map(tuple, bits.astype(float).tolist()))}
    plan = Plan(
        name="plan",
        resident=tuple(tuple(sorted(held)) for held in resident),
        cache_ways=tuple(ways),
        deferred=tuple(count or 0 for count in solution.deferred),
        times=times,
    )
    return plan.model_copy(update=changed) if len(instance.bits) > 1 else plan
