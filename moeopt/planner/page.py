"""A finished plan as one page of text."""

from collections.abc import Iterator

from moeopt.core.units import MIB
from moeopt.sim.traces.trace import Counts, Trace

from .executed import Comparison
from .jointly import Jointly
from .planned import Planned


def page(planned: Planned) -> str:
    """Return the page: room, decisions with their proofs, and predicted latencies."""
    return "\n".join(
        [*_head(planned), "", *_decisions(planned), "", *_latencies(planned), "", *_worth(planned)]
    )


def _head(planned: Planned) -> Iterator[str]:
    r, steps = planned.request, planned.comparisons[0]
    yield f"{r.model.name} on {r.machine.name}: batch {r.batch}, {r.cache.in_words()}"
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
    yield from _memory(planned)


def _memory(planned: Planned) -> Iterator[str]:
    """Yield what the memory of GPU and host goes to, in MiB."""
    room = {name.replace("_", " "): size for name, size in planned.memory.items()}
    total = room.pop("total")
    parts = ", ".join(f"{name} {mib(size)}" for name, size in room.items())
    yield f"GPU memory {mib(total)} MiB: {parts}"
    host = planned.host
    experts = f"experts {mib(host.experts)}"
    if host.shared:
        yield "host memory: the same as the GPU's, with no room for copies"
    else:
        copies = "a copy of each" if host.holds_all else "no copies of those on the GPU"
        parts = f"{experts}, reserved {mib(host.reserved)}; {copies}"
        most = " (not stated: the most that such a host takes)" if host.assumed else ""
        yield f"host memory {mib(host.total)} MiB{most}: {parts}"


def _decisions(planned: Planned) -> Iterator[str]:
    made = planned.chosen.decisions
    joint = [decision for decision in made if decision.name == "jointly"]
    for decision in joint or made:
        yield f"{decision.name:10} {decision.says}"
        if not joint:  # what is proven of all decisions at once stands below, for any plan
            yield f"{'':10} {decision.proof()}"
    counts = planned.chosen.plan.deferred
    if planned.chosen.deferred == 0:
        yield f"{'deferral':10} none"
    elif not any(decision.name == "deferral" for decision in planned.chosen.decisions):
        yield f"{'deferral':10} {counts[0]} of a layer's CPU experts, but for the last layer"
        yield f"{'':10} the best count of {planned.request.most_deferred + 1}, tried by the engine"
    if planned.chosen.deferred:
        yield f"{'':10} changes the model's output, by how much is not known here"
    says = planned.request.model.bits_in_words(experts=planned.average_bits)
    yield f"{'bits':10} {says}"
    if (lost := planned.losses) is not None:
        others = planned.comparisons[0].others
        yield (
            f"{'loss':10} {lost.expected:.4g} expected, {lost.held_out:.4g} {others};"
            f" all experts with {lost.uniform_bits} bits: {lost.uniform:.4g} {others}"
        )
        yield f"{'':10} mean of the experts chosen, in units of the table: {lost.table}"
    if planned.candidates > 1:
        tried = f"the fastest of {planned.candidates} combinations on the steps decided on"
        yield f"{'together':10} {tried}"
    if planned.together is not None:
        yield from _bound(planned.together, planned)
    else:
        yield f"{'':10} nothing is proven of other combinations"


def _bound(together: Jointly, planned: Planned) -> Iterator[str]:
    """Yield how far ahead any plan could be on the steps decided on."""
    ahead, result = together.ahead(planned.chosen.kept), together.decision.result
    if ahead is None:
        yield f"{'':10} nothing is proven of other combinations: no bound in {result.method}'s time"
        return
    yield f"{'proven':10} no plan of these kinds is more than {ahead:.2%} faster on these steps"
    yield f"{'':10} ({together.kinds()}; problem joint, method {result.method})"


def _latencies(planned: Planned) -> Iterator[str]:
    width = max(len(comparison.plan.name) for comparison in planned.comparisons)
    yield f"{'':{width}}   {'decided on':>22}   {planned.comparisons[0].others:>33}"
    head = f"{'median ms':>10} {'tokens/s':>11}   {'median ms':>10} {'p95 ms':>10} {'tokens/s':>11}"
    yield f"{'':{width}}   {head}"
    for comparison in planned.comparisons:
        yield f"{comparison.plan.name:{width}}   {_numbers(comparison)}"
    yield from _apart(planned.comparisons[0])
    yield from _bottleneck(planned)


def _bottleneck(planned: Planned) -> Iterator[str]:
    """Yield what the plan waits for most: the resource that is busy most of the time."""
    mine = planned.comparisons[0]
    busy = sorted(mine.later.busy.items(), key=lambda item: -item[1])
    if not busy:
        return
    (name, share), *others = busy[:3]
    rest = "".join(f", {other} {part:.0%}" for other, part in others if part > 0)
    what = f"{mine.plan.name}: bottleneck {mine.others}"
    yield f"{what}: {name}, busy {share:.0%} of the time{rest}"


def _numbers(comparison: Comparison) -> str:
    kept, later = comparison.kept, comparison.later
    first = f"{kept.median_ms:10.2f} {kept.tokens_per_s:11.1f}"
    return f"{first}   {later.median_ms:10.2f} {later.p95_ms:10.2f} {later.tokens_per_s:11.1f}"


def _apart(comparison: Comparison) -> Iterator[str]:
    """Yield what median and p95 do not show of a plan's other steps: a cold start."""
    later, name = comparison.later, comparison.plan.name
    if later.first_ms > later.p95_ms:
        yield f"{name}: first step, caches empty: {later.first_ms:.2f} ms, not counted above"


def _worth(planned: Planned) -> Iterator[str]:
    """Yield what the plan is worth beside the defaults, and the default where it is worth less."""
    found = planned.verdict
    if found is None:
        return
    best, name = found.best, planned.comparisons[0].plan.name
    where = f"on steps {planned.comparisons[0].others}"
    said = {
        "faster": f"faster than every default {where}; the best is {best.plan.name}",
        "even": f"even with {best.plan.name} {where}: take that, it is simpler",
        "slower": f"slower than {best.plan.name} {where}: take that",
    }
    yield f"{name}: {said[found.word]}"
    yield f"  tokens/s: {found.gain}"
    if best.default is not None and found.word != "faster":
        yield f"  {best.default.runtime}: {best.default.flags}"
    if found.counting is not None:
        yield "what counting alone brings, ktransformers frequency over the best default without:"
        yield f"  tokens/s: {found.counting}; the plan over that: {found.deciding}"
    if found.elsewhere is not None and found.elsewhere.default is not None:
        other = found.elsewhere.default.runtime
        yield f"another runtime, by the times of {other}: {found.elsewhere.plan.name}"
        yield f"  tokens/s: {found.elsewhere.later.tokens_per_s:.1f}, {found.brings} over {name}"


def mib(size: int) -> str:
    """Return bytes in MiB for people, rounded to the nearest."""
    return f"{round(size / MIB):,}"
