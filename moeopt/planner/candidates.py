"""Combining the decisions: how the GPU's room is shared, and how much is deferred.

Residents and caches compete for the same room, and what is worth deferring depends on both. The
plan is the best of a grid, each point with its inner decisions solved by themselves: five shares of
the room for residents, the rest for caches, and every number of deferred experts that is allowed.
How far a plan off the grid could be ahead the problem joint says (`jointly`). A tie of half a
percent goes to fewer deferred experts, then to more residents, which need no transfers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InfeasibleError, LimitError
from moeopt.problems.bitwidth.instance import Solution as Bits
from moeopt.problems.cache.instance import Instance as Caches
from moeopt.problems.cache.instance import Solution as Ways
from moeopt.problems.deferral.instance import Instance as Deferral
from moeopt.problems.deferral.instance import Solution as Deferred
from moeopt.problems.placement.instance import Instance as Placement
from moeopt.problems.placement.instance import Solution as Residents
from moeopt.sim.plan import Plan, Times, times_of_step
from moeopt.sim.traces.trace import Trace
from moeopt.systems.loads import Loads

from . import bits, residency
from .budget import least_on_gpu, within_host
from .decision import Decision, decided, made
from .executed import Predicted, available, predicted
from .request import Request

SHARES = (1.0, 0.75, 0.5, 0.25, 0.0)
"""Parts of the room that residents get; the first is "one decision after the other"."""

PARTS = tuple(2.0**-step for step in range(1, 9))
"""Parts of all experts that plans with fewer residents than fit have."""

FEWER = 2
"""Most such numbers of residents; the largest ones below the room."""

TOLERANCE = 0.005
"""How much slower a plan that defers less may be and still be taken."""


@dataclass(frozen=True)
class Candidate:
    """A plan for the engine, the decisions behind it, and what it takes on the kept steps."""

    plan: Plan
    decisions: tuple[Decision, ...]
    kept: Predicted
    deferred: int
    share: float


@dataclass
class Search:
    """Makes candidates; what they have in common is decided once."""

    request: Request
    part: Trace
    loads: Loads
    times: Times = field(init=False)
    widths: Decision | None = field(init=False)
    whole: Placement = field(init=False)

    def __post_init__(self) -> None:
        """Decide the widths, and how much room there is."""
        r = self.request
        self.times = times_of_step(r.costs, r.batch, r.cache.depth, r.quantum_ns)
        self.widths = bits.bits(r, self.part, 0.1)
        chosen = None if self.widths is None else self.widths.solved_as(Bits)
        steps = available(r, self.part)
        whole = residency.whole_instance(r, self.part, steps, chosen, self.times)
        if not r.runs.single_experts:
            whole = whole.model_copy(update={"restriction": "whole-layers"})
        self.whole = within_host(r, whole)

    def candidates(self) -> Iterator[Candidate]:
        """Yield plans; the first is the one of decisions taken one after the other."""
        # Caches are for single tokens, and for experts of one size.
        several = self.request.caches and self.widths is None and self.whole.gpu_slots > 0
        shares = SHARES if several else SHARES[:1]
        for share in shares:
            yield from self._at(share, len(shares))
        if self.request.most_deferred:
            yield from self._with_fewer()

    def _with_fewer(self) -> Iterator[Candidate]:
        """Yield plans that leave room: with deferral more residents may make the GPU the later one.

        Residents are decided as if nothing were deferred. Their numbers are parts of all experts,
        not of the room: what a smaller GPU is offered, a larger one is offered too.
        """
        everything = int(self.whole.sizes.sum())
        least = least_on_gpu(self.whole)
        tried = (round(everything * part) for part in PARTS)
        fitting = [slots for slots in tried if least <= slots < self._room]
        for slots in fitting[:FEWER]:
            placed = residency.residency(self.request, self.whole, slots, 0.1 / FEWER)
            made, plan = self._placed(placed)
            for count in range(1, self.request.most_deferred + 1):
                yield self._candidate(plan, made, (count,), slots / self._room)

    @property
    def _room(self) -> int:
        return min(self.whole.gpu_slots, int(self.whole.sizes.sum()))

    def _placed(self, placed: Decision) -> tuple[list[Decision], Plan]:
        """Return the decisions so far, and the plan that they make."""
        residents = placed.solved_as(Residents)
        plan = Plan(name="plan", resident=residents.gpu, times=self.times)
        if self.widths is None:
            return [placed], plan
        return [self.widths, placed], plan.model_copy(update={"bits": _widths(self.widths)})

    def _at(self, share: float, parts: int) -> Iterator[Candidate]:
        """Yield the plans in which residents get a share of the room."""
        r, total = self.request, self._room
        slots = round(share * total)
        limit = 0.4 if share == 1 else 0.2 / (parts - 1)
        if slots < least_on_gpu(self.whole):  # the host has no room for the others
            return
        placed = residency.residency(r, self.whole, slots, limit)
        made, plan = self._placed(placed)
        residents = placed.solved_as(Residents)
        if slots < total:
            try:
                cached = ways(
                    r, self.part, available(r, self.part), residents.gpu, total - slots, limit
                )
            except (InfeasibleError, LimitError):  # not solved in time: a plan less
                return
            made.append(cached)
            plan = plan.model_copy(update={"cache_ways": _counts(cached.solved_as(Ways).ways)})
        counts: list[tuple[int, ...]] = [(d,) for d in range(r.most_deferred + 1)]
        if share == 1:
            try:
                chosen = deferral(r, self.whole, residents, self.times, 0.05)
            except (InfeasibleError, LimitError):  # not solved in time: every count is tried anyway
                chosen = None
            if chosen is not None:
                own = _counts(chosen.solved_as(Deferred).deferred)
                if r.runs.deferral == "by layer" or len({*own}) == 1:
                    yield self._candidate(plan, [*made, chosen], own, share)
        for count in counts:
            yield self._candidate(plan, made, count, share)

    def _candidate(
        self, plan: Plan, made: list[Decision], deferred: tuple[int, ...], share: float
    ) -> Candidate:
        plan = plan.model_copy(update={"deferred": deferred})
        layers = self.whole.layers
        total = sum(deferred) * (layers if len(deferred) == 1 else 1)
        kept = predicted(self.request, plan, self.loads)
        return Candidate(plan, tuple(made), kept, total, share)


def best_of(found: list[Candidate]) -> Candidate:
    """Return the fastest plan, or one within the tolerance that defers less."""
    limit = min(candidate.kept.mean_ms for candidate in found) * (1 + TOLERANCE)
    close = [candidate for candidate in found if candidate.kept.mean_ms <= limit]
    return min(close, key=lambda c: (c.deferred, -c.share, c.kept.mean_ms))


def _counts(decided: Sequence[int | None]) -> tuple[int, ...]:
    """Return counts of a solution, 0 where there is none."""
    return tuple(count or 0 for count in decided)


def _widths(decision: Decision) -> tuple[tuple[float, ...], ...]:
    solution = decision.solved_as(Bits)
    return tuple(tuple(float(width or 0) for width in layer) for layer in solution.bits)


def ways(
    request: Request,
    kept: Trace,
    steps: int,
    resident: Sequence[Sequence[int]],
    slots: int,
    share: float,
) -> Decision:
    """Decide the ways by what is asked for besides the residents, one token per step.

    Parameters
    ----------
    resident
        Experts of each layer that the caches are not asked for.
    slots
        Room that is left for caches.
    """
    instance = made(
        Caches,
        request,
        kept,
        tokens=steps,
        slots=slots,
        context=request.cache.depth,
        reserved_gib=request.kept_gib,
        quantum_ns=request.quantum_ns,
    )
    held = [set(layer) for layer in resident]
    accesses = tuple(
        tuple(tuple(e for e in asked if e not in held[layer]) for layer, asked in enumerate(token))
        for token in instance.accesses
    )
    named = f"{instance.name}-besides{sum(map(len, held))}"
    instance = instance.model_copy(update={"accesses": accesses, "name": named})
    instance = Caches.model_validate(instance.model_dump())

    def says(solution: Ways) -> str:
        given = _counts(solution.ways)
        return f"{sum(given)} places for an LRU cache, {min(given)} to {max(given)} per layer"

    return decided("ways", instance, Ways, "dp", request, share, says)


Floats = NDArray[np.float64]


def deferral(
    request: Request, placement: Placement, residents: Residents, times: Times, share: float
) -> Decision | None:
    """Decide the counts for an average step; None where nothing may be deferred.

    The CPU has as many experts per layer as miss on average, rounded, and each takes such a part of
    the layer's average time; the residents' average time goes along with the shared experts.
    """
    gpu_ns, host_ns, missed = averages(placement, residents)
    experts = round(float(missed.mean()))
    most = min(request.most_deferred, experts)
    if request.batch > 1 or most == 0:
        return None
    shared = times.shared_ns or (0,)
    instance = Deferral(
        name=f"{residents.instance}-deferral",
        layers=placement.layers,
        top_k=experts,
        min_immediate=experts - most,
        attention_ns=times.attention_ns[0] + times.other_ns[0],
        shared_ns=tuple(int(shared[0] + mean) for mean in gpu_ns),
        sync_ns=times.to_host_ns[0],
        expert_cpu_ns=tuple(int(mean / experts) for mean in host_ns),
        penalty=tuple(range(most + 1)),
    )

    def says(solution: Deferred) -> str:
        counts = _counts(solution.deferred)
        return f"{sum(counts)} in all, {min(counts)} to {max(counts)} of a layer's CPU experts"

    return decided("deferral", instance, Deferred, "dp", request, share, says)


def averages(placement: Placement, residents: Residents) -> tuple[Floats, Floats, Floats]:
    """Return what a step has in each layer, on average, shape (layers,) each.

    Returns
    -------
    tuple
        Time on the GPU and on the other side in ns, and experts that are not on the GPU.
    """
    found = np.zeros((3, placement.layers))
    held = [set(row) for row in residents.gpu]
    for step in placement.steps:
        for layer, active in enumerate(step):
            for expert, tokens in active:
                if expert in held[layer]:
                    found[0, layer] += placement.gpu_ns(layer, expert, tokens)
                else:
                    found[1, layer] += placement.offload_ns(layer, expert, tokens)
                    found[2, layer] += 1
    gpu_ns, host_ns, missed = found / len(placement.steps)
    return gpu_ns, host_ns, missed
