"""A finished plan as one page of text."""

from collections.abc import Iterator

from moeopt.sim.trace import Counts, Trace

from .planned import Comparison, Planned

GIB = 2**30


def page(planned: Planned) -> str:
    """Return the page: room, decisions with their proofs, and predicted latencies."""
    return "\n".join([*_head(planned), "", *_decisions(planned), "", *_latencies(planned)])


def _head(planned: Planned) -> Iterator[str]:
    r, steps = planned.request, planned.comparisons[0]
    yield f"{r.model.name} on {r.machine.name}: batch {r.batch}, context {r.context}"
    if isinstance(r.trace, Trace):
        checked = f"checked on {steps.later.steps} held-out ones"
        yield f"decided on {steps.kept.steps} steps of {r.trace.name}, {checked}"
    else:
        whose = "counts" if isinstance(r.trace, Counts) else "workload"
        drawn = f"steps drawn from the {whose} {r.trace.name}"
        yield f"decided on {steps.kept.steps} {drawn}, checked on {steps.later.steps} drawn anew"
    yield r.expect
    yield from planned.notes
    if planned.removed_tokens and isinstance(r.trace, Trace):
        yield (
            f"left out: {planned.removed_tokens} of {r.trace.tokens} tokens, in runs that occurred"
            " before (--keep-repeats)"
        )
    if planned.known_steps and isinstance(r.trace, Trace):
        yield f"{planned.known_steps} of the held-out steps load the experts as one decided on does"
    room = {name.replace("_", " "): size / GIB for name, size in planned.memory.items()}
    total, experts = room.pop("total"), room.pop("experts")
    parts = ", ".join(f"{size:.2f} {name}" for name, size in room.items())
    yield f"GPU memory {total:.2f} GiB: {parts}, {experts:.2f} for experts"


def _decisions(planned: Planned) -> Iterator[str]:
    for decision in planned.chosen.decisions:
        result = decision.result
        yield f"{decision.name:10} {decision.says}"
        yield f"{'':10} {decision.proof()} (problem {result.problem}, method {result.method})"
    counts = planned.chosen.plan.deferred
    if planned.chosen.deferred == 0:
        yield f"{'deferral':10} none"
    elif not any(decision.name == "deferral" for decision in planned.chosen.decisions):
        yield f"{'deferral':10} {counts[0]} of a layer's CPU experts, but for the last layer"
        yield f"{'':10} the best count of {planned.request.most_deferred + 1}, tried by the engine"
    if planned.chosen.deferred:
        yield f"{'':10} changes the model's output a little; --max-deferred 0 does not"
    says = planned.request.model.bits_in_words(experts=planned.request.average_bits)
    yield f"{'bits':10} {says}"
    yield f"{'jointly':10} the best of {planned.candidates} plans on the steps decided on"


def _latencies(planned: Planned) -> Iterator[str]:
    width = max(len(comparison.plan.name) for comparison in planned.comparisons)
    others = "held out" if planned.comparisons[0].held_out is not None else "drawn anew"
    yield f"{'':{width}}   {'decided on':>22}   {others:>33}"
    head = f"{'median ms':>10} {'tokens/s':>11}   {'median ms':>10} {'p95 ms':>10} {'tokens/s':>11}"
    yield f"{'':{width}}   {head}"
    for comparison in planned.comparisons:
        yield f"{comparison.plan.name:{width}}   {_numbers(comparison)}"
    yield from _apart(planned.comparisons[0])


def _numbers(comparison: Comparison) -> str:
    kept, later = comparison.kept, comparison.later
    first = f"{kept.median_ms:10.2f} {kept.tokens_per_s:11.1f}"
    return f"{first}   {later.median_ms:10.2f} {later.p95_ms:10.2f} {later.tokens_per_s:11.1f}"


def _apart(comparison: Comparison) -> Iterator[str]:
    """Yield what median and p95 do not show of a plan's other steps: a cold start, slow copies."""
    later, name = comparison.later, comparison.plan.name
    if later.first_ms > later.p95_ms:
        yield f"{name}: first step, caches empty: {later.first_ms:.2f} ms, not counted above"
    if later.mean_ms > later.p95_ms:
        yield (
            f"{name}: copies into the caches outlast the steps:"
            f" {later.mean_ms:.2f} ms per step with them, which tokens/s goes by"
        )
