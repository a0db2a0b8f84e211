"""A solution as a schedule to look at, and the facts about it that reports ask for."""

from collections.abc import Iterator

from moeopt.core.view import Bar, Changes, Difference, Lane, expert_words, replaced

from .check import sides
from .heuristics import balanced_experts, fluid_makespan
from .instance import Instance, Solution


def lanes(instance: Instance, solution: Solution) -> list[Lane]:
    """Return one lane each for the link, the GPU and every NDP unit.

    Slices pass link and GPU in the best order; slices of one expert are one bar, labelled with
    the expert, where nothing idles between them. Activations are bars labelled "act": on the link
    after the slices, since they delay the GPU's side, and on the units before their work. The GPU
    side ends with the later of link and GPU.
    """
    both = sides(instance, solution)
    link, gpu = _flow_shop(instance, [sum(row) for row in solution.gpu_slices])
    if both.gpu_overhead_ns:
        end = both.flow_shop_ns
        link.append(Bar(end, end + both.gpu_overhead_ns, "act", "transfer"))
    found = [Lane("link", tuple(link)), Lane("GPU", tuple(gpu))]
    for unit in range(instance.ndp_units):
        bars = _unit(instance, solution, unit, both.ndp_overhead_ns)
        found.append(Lane(f"NDP {unit}", tuple(bars)))
    return found


def facts(instance: Instance, solution: Solution) -> dict[str, str | int]:
    """Return the later side, how many slices the GPU takes and pulls, and what the equation says.

    `balanced_slices` is E_g in slices, `fluid_ns` the makespan that it predicts, both rounded down.
    The prediction is no bound.
    """
    both = sides(instance, solution)
    pulled = zip(instance.experts, solution.gpu_slices, strict=True)
    return {
        "bottleneck": "gpu" if both.gpu_ns >= both.ndp_ns else "ndp",
        "gpu_slices": sum(map(sum, solution.gpu_slices)),
        "pulled_slices": sum(sum(row) for expert, row in pulled if not expert.resident),
        "balanced_slices": int(balanced_experts(instance) * instance.slices),
        "fluid_ns": int(fluid_makespan(instance)),
    }


def differences(instance: Instance, ours: Solution, best: Solution) -> Iterator[Difference]:
    """Yield the experts of which the GPU takes more or fewer slices, by tokens times slices."""
    whole = instance.ndp_units * instance.slices_per_unit
    rows = zip(instance.experts, ours.gpu_slices, best.gpu_slices, strict=True)
    for expert, mine, theirs in rows:
        a, b = sum(mine), sum(theirs)
        if a != b:
            what = f"the GPU's part of {expert_words(expert.expert, expert.tokens)}"
            yield (
                expert.tokens * abs(a - b),
                what,
                f"{a} of {whole} slices",
                f"{b} of {whole} slices",
            )


def changes(instance: Instance, solution: Solution) -> Changes:
    """Yield one slice more or less, or all or none, that the GPU takes from a unit's expert."""
    whole = instance.slices_per_unit
    for row, (expert, counts) in enumerate(zip(instance.experts, solution.gpu_slices, strict=True)):
        what = expert_words(expert.expert, expert.tokens)
        for unit, count in enumerate(counts):
            for other in sorted({count - 1, count + 1, 0, whole} - {count}):
                if 0 <= other <= whole:
                    slices = replaced(solution.gpu_slices, row, replaced(counts, unit, other))
                    words = (
                        f"the GPU takes {other} and not {count} slices of {what} from unit {unit}"
                    )
                    yield words, solution.model_copy(update={"gpu_slices": slices})


def _flow_shop(instance: Instance, pulled: list[int]) -> tuple[list[Bar], list[Bar]]:
    """Run the pulled slices one by one, and return the link's bars and the GPU's."""
    link: list[Bar] = []
    gpu: list[Bar] = []
    sent = computed = 0
    for row in instance.flow_shop_order:
        expert = instance.experts[row]
        transfer = 0 if expert.resident else instance.slice_transfer_ns
        label = str(expert.expert)
        for _ in range(pulled[row]):
            _extend(link, Bar(sent, sent + transfer, label, "transfer"))
            sent += transfer
            start = max(sent, computed)
            computed = start + expert.slice_gpu_ns
            _extend(gpu, Bar(start, computed, label, "work"))
    return link, gpu


def _extend(bars: list[Bar], bar: Bar) -> None:
    """Add a bar, as a part of the last one if it goes on with the same expert."""
    if bar.start_ns == bar.end_ns:
        return
    if bars and (bars[-1].end_ns, bars[-1].label) == (bar.start_ns, bar.label):
        bar = Bar(bars.pop().start_ns, bar.end_ns, bar.label, bar.kind)
    bars.append(bar)


def _unit(instance: Instance, solution: Solution, unit: int, overhead_ns: int) -> Iterator[Bar]:
    if overhead_ns:
        yield Bar(0, overhead_ns, "act", "transfer")
    clock = overhead_ns
    for expert, row in zip(instance.experts, solution.gpu_slices, strict=True):
        work = expert.slice_ndp_ns * (instance.slices_per_unit - row[unit])
        if work:
            yield Bar(clock, clock + work, str(expert.expert), "work")
            clock += work
