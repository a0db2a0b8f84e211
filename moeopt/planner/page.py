"""A finished plan as one page of text."""

from collections.abc import Iterator

from .planned import Comparison, Planned

GIB = 2**30


def page(planned: Planned) -> str:
    """Return the page: room, decisions with their proofs, and predicted latencies."""
    return "\n".join([*_head(planned), "", *_decisions(planned), "", *_latencies(planned)])


def _head(planned: Planned) -> Iterator[str]:
    r, steps = planned.request, planned.comparisons[0]
    yield f"{r.model.name} on {r.machine.name}: batch {r.batch}, context {r.context}"
    yield (
        f"decided on {steps.kept.steps} steps of {r.trace.name},"
        f" checked on {steps.held_out.steps} held-out ones"
    )
    if planned.removed_tokens:
        yield (
            f"left out: {planned.removed_tokens} of {r.trace.tokens} tokens, in runs that occurred"
            " before (--keep-repeats)"
        )
    if planned.known_steps:
        yield f"{planned.known_steps} of the held-out steps load the experts as one decided on does"
    room = {name.replace("_", " "): size / GIB for name, size in planned.memory.items()}
    total, experts = room.pop("total"), room.pop("experts")
    parts = ", ".join(f"{size:.2f} {name}" for name, size in room.items())
    yield f"GPU memory {total:.2f} GiB: {parts}, {experts:.2f} for experts"


def _decisions(planned: Planned) -> Iterator[str]:
    for decision in planned.chosen.decisions:
        yield f"{decision.name:10} {decision.says}"
        yield f"{'':10} {decision.proof()}"
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
    yield f"{'':{width}}   {'decided on':>22}   {'held out':>33}"
    yield f"{'':{width}}   {'ms':>8} {'tokens/s':>13}   {'ms':>8} {'p95 ms':>10} {'tokens/s':>13}"
    for comparison in planned.comparisons:
        yield f"{comparison.plan.name:{width}}   {_numbers(comparison)}"


def _numbers(comparison: Comparison) -> str:
    kept, later = comparison.kept, comparison.held_out
    first = f"{kept.mean_ms:8.2f} {kept.tokens_per_s:13.1f}"
    return f"{first}   {later.mean_ms:8.2f} {later.p95_ms:10.2f} {later.tokens_per_s:13.1f}"
