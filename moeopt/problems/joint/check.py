"""The checker: step by step and layer by layer, caches, GPU, CPU and copies. Knows no solvers."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain, combinations, product
from math import prod
from typing import TypeVar

from .instance import Instance, Solution

CONSTRAINTS = {
    "JT-C1": "one context; residents are experts of their layer, each once; each expert has one of "
    "the widths; 0 to max_ways ways; 0 to max_deferred deferred, none in the last layer",
    "JT-C2": "residents, caches and the KV cache fit into gpu_bytes",
    "JT-C3": "the host's experts fit into host_bytes",
    "JT-C4": "widths, KV cache and deferred experts lose at most max_loss",
    "JT-C5": "the GPU runs residents and what its cache holds, the CPU what the host has",
    "JT-C6": "the GPU does attention, shared and routed experts of one layer after the other",
    "JT-C7": "the CPU does its experts layer by layer, immediate before deferred ones, each after "
    "its layer's attention, and the next attention waits for the immediate ones; a hand-over each",
    "JT-C8": "the attention after the next one waits for deferred experts, and a hand-over",
    "JT-C9": "what a cache lacks is copied; all copies take at most as long as all steps",
}

OBJECTIVE = ("total_ns",)
"""What is minimised; the name ends with the unit."""

TIMED = ("JT-C8", "JT-C9", "JT-C6", "JT-C7")
"""The rules that make up the time; of two that explain a claim alike the first is named."""

Item = TypeVar("Item")

Found = Iterator[tuple[str, str]]


@dataclass(frozen=True)
class LayerRun:
    """One layer in one step: which experts run where, and what that takes.

    Attributes
    ----------
    gpu, now, late
        Experts on the GPU, immediate and deferred ones on the CPU, as the step lists them.
    gpu_ns, now_ns, late_ns, copy_ns
        What they take, and the copies that the cache asks for.
    loss
        Of the deferred experts.
    """

    step: int
    layer: int
    gpu: tuple[int, ...]
    now: tuple[int, ...]
    late: tuple[int, ...]
    gpu_ns: int
    now_ns: int
    late_ns: int
    copy_ns: int
    loss: int


def violations(
    instance: Instance, solution: Solution, total_ns: int | None = None
) -> list[tuple[str, str]]:
    """Return what is wrong with a solution, as (constraint ID, sentence); empty if it is valid.

    Parameters
    ----------
    instance, solution
        The problem and the decision to check.
    total_ns
        The objective claimed, if there is a claim: JT-C6 to JT-C9 hold the solution to it.
    """
    found = list(_shape(instance, solution))
    if found:
        return found  # there is no telling what missing decisions take
    found += _dispatch(instance, solution)
    found += [*_memory(instance, solution), *_quality(instance, solution)]
    if total_ns is not None:
        found += _overruns(instance, solution, total_ns)
    return found


def objective(instance: Instance, solution: Solution) -> int:
    """Return the longer of all steps, one after the other, and all copies, in ns."""
    return _time_ns(instance, solution, ())


def layer_runs(instance: Instance, solution: Solution) -> Iterator[LayerRun]:
    """Yield every layer of every step, in the order of execution.

    A layer's experts are looked up in its cache together, against what the step before left. Then
    those that are not resident become the most recent ones, in the listed order, and the cache
    keeps as many as it has ways. What is swapped runs on the other side. Of those on the CPU as
    many as the layer defers are deferred, the last ones listed. Decisions that are missing or out
    of range count as no residents, the first width, no ways and nothing deferred; `violations`
    reports them.
    """
    held = [set(row) for row in solution.resident[: instance.layers]]
    held += [set()] * (instance.layers - len(held))
    widths = [_widths(instance, solution, layer) for layer in range(instance.layers)]
    caches: list[dict[int, None]] = [{} for _ in range(instance.layers)]
    swapped = set(solution.swapped)
    for number, step in enumerate(instance.steps):
        for layer, active in enumerate(step):
            ways, cache = _entry(solution.ways, layer), caches[layer]
            gpu: list[tuple[int, int, int]] = []
            cpu: list[tuple[int, int, int]] = []
            copied = 0
            for entry in active:
                expert = entry[0]
                there = expert in held[layer] or expert in cache
                if not there and ways:
                    copied += instance.copy_ns[widths[layer][expert]]
                other = (number, layer, expert) in swapped
                (cpu if there == other else gpu).append(entry)
            for expert, _, _ in active:
                if expert not in held[layer]:
                    cache.pop(expert, None)
                    cache[expert] = None
            while len(cache) > ways:
                del cache[next(iter(cache))]
            first = max(0, len(cpu) - _entry(solution.deferred, layer))
            now, late = cpu[:first], cpu[first:]
            yield LayerRun(
                step=number,
                layer=layer,
                gpu=tuple(expert for expert, _, _ in gpu),
                now=tuple(expert for expert, _, _ in now),
                late=tuple(expert for expert, _, _ in late),
                gpu_ns=_work_ns(instance.gpu_ns, widths[layer], gpu),
                now_ns=_work_ns(instance.cpu_ns, widths[layer], now),
                late_ns=_work_ns(instance.cpu_ns, widths[layer], late),
                copy_ns=copied,
                loss=sum(loss for _, _, loss in late),
            )


def _work_ns(
    tables: tuple[tuple[int, ...], ...], widths: list[int], experts: list[tuple[int, int, int]]
) -> int:
    return sum(tables[widths[expert]][tokens] for expert, tokens, _ in experts)


def step_times_ns(
    instance: Instance, solution: Solution, without: Collection[str] = ()
) -> tuple[list[int], int]:
    """Return what every step takes, and all copies together, with some rules left out."""
    context = instance.contexts[_entry((solution.context,), 0) % len(instance.contexts)]
    times, copies = [], 0
    attention = cpu_free = due = 0
    for run in layer_runs(instance, solution):
        if run.layer == 0:
            attention, cpu_free, due = context.step_ns, 0, 0
        copies += run.copy_ns
        routed = attention + context.attention_ns[run.layer]
        end = routed + instance.shared_ns[run.layer] + run.gpu_ns
        if "JT-C6" in without:
            end = 0
        late_due = 0
        if run.now or run.late:
            if "JT-C7" not in without:
                start = max(routed + instance.hand_over_ns, cpu_free)
                end = max(end, start + run.now_ns + instance.hand_over_ns)
                cpu_free = start + run.now_ns + run.late_ns
            if run.late and "JT-C8" not in without:
                late_due = cpu_free + instance.hand_over_ns
        attention, due = max(end, due), late_due
        if run.layer == instance.layers - 1:
            times.append(max(attention, due))
    return times, copies


def memory_bytes(instance: Instance, solution: Solution) -> tuple[int, int]:
    """Return what the decisions take on the GPU, the KV cache included, and on the host."""
    context = instance.contexts[_entry((solution.context,), 0) % len(instance.contexts)]
    gpu, host = context.kv_bytes, 0
    for layer in range(instance.layers):
        row = solution.resident[layer] if layer < len(solution.resident) else ()
        sizes = [instance.expert_bytes[width] for width in _widths(instance, solution, layer)]
        held = sum(sizes[expert] for expert in set(row) if expert < instance.experts)
        others = [sizes[e] for e in range(instance.experts) if e not in set(row)]
        gpu += held + _entry(solution.ways, layer) * max(others, default=0)
        host += sum(sizes) if instance.host_copy else sum(others)
    return gpu, host


def loss(instance: Instance, solution: Solution) -> int:
    """Return what widths, KV cache and deferred experts lose together."""
    total = instance.contexts[_entry((solution.context,), 0) % len(instance.contexts)].kv_loss
    for layer in range(instance.layers):
        for expert, width in enumerate(_widths(instance, solution, layer)):
            total += instance.lost(layer, expert, width)
    return total + sum(run.loss for run in layer_runs(instance, solution))


def _time_ns(instance: Instance, solution: Solution, without: Collection[str]) -> int:
    times, copies = step_times_ns(instance, solution, without)
    return max(sum(times), 0 if "JT-C9" in without else copies)


def _entry(values: tuple[int | None, ...], place: int) -> int:
    """Return a number of a list, 0 where it is missing."""
    return (values[place] or 0) if place < len(values) else 0


def _widths(instance: Instance, solution: Solution, layer: int) -> list[int]:
    """Return the places of the experts' widths in `bits`."""
    row = solution.bits[layer] if layer < len(solution.bits) else ()
    places = [instance.bits.index(bits) if bits in instance.bits else 0 for bits in row]
    return [*places, *[0] * instance.experts][: instance.experts]


def _shape(instance: Instance, solution: Solution) -> Found:
    if solution.context is None or solution.context >= len(instance.contexts):
        known = len(instance.contexts)
        yield "JT-C1", f"context: must be one of {known}, from 0, not {solution.context}"
    for name in ("resident", "bits", "ways", "deferred"):
        if (count := len(getattr(solution, name))) != instance.layers:
            yield "JT-C1", f"{name} has {count} entries for {instance.layers} layers"
    for layer, row in enumerate(solution.resident):
        if len(set(row)) < len(row):
            yield "JT-C1", f"resident[{layer}]: names an expert twice"
        if row and max(row) >= instance.experts:
            have = f"only {instance.experts}"
            yield "JT-C1", f"resident[{layer}]: there is no expert {max(row)}, {have}"
    for layer, widths in enumerate(solution.bits):
        if len(widths) != instance.experts:
            yield "JT-C1", f"bits[{layer}]: {len(widths)} widths for {instance.experts} experts"
        for expert, bits in enumerate(widths):
            if bits not in instance.bits:
                yield "JT-C1", f"bits[{layer}][{expert}]: must be in {instance.bits}, not {bits}"
    for layer, given in enumerate(solution.ways):
        if given is None or given > instance.max_ways:
            yield "JT-C1", f"ways[{layer}]: must be from 0 to {instance.max_ways}, not {given}"
    for layer, late in enumerate(solution.deferred[: instance.layers]):
        most = max(instance.deferrable(layer))
        if late is None or late > most:
            yield "JT-C1", f"deferred[{layer}]: must be from 0 to {most}, not {late}"


def _dispatch(instance: Instance, solution: Solution) -> Found:
    """Hold what is swapped to experts that the other side has."""
    if not solution.swapped:
        return
    if len(set(solution.swapped)) < len(solution.swapped):
        yield "JT-C5", "swapped: names an expert twice"
    usual = layer_runs(instance, solution.model_copy(update={"swapped": ()}))
    sides = {}
    for run in usual:
        for expert in (*run.gpu, *run.now, *run.late):
            sides[run.step, run.layer, expert] = expert in run.gpu
    for step, layer, expert in solution.swapped:
        where = f"swapped: expert {expert} of layer {layer} in step {step}"
        if (step, layer, expert) not in sides:
            yield "JT-C5", f"{where} has no tokens"
        elif not sides[step, layer, expert]:
            yield "JT-C5", f"{where} is neither resident nor in the cache"
        elif not instance.host_copy and expert in solution.resident[layer]:
            yield "JT-C5", f"{where} is resident, and the host has no copy"


def _memory(instance: Instance, solution: Solution) -> Found:
    gpu, host = memory_bytes(instance, solution)
    if gpu > instance.gpu_bytes:
        yield "JT-C2", f"{gpu} bytes of GPU memory are taken, there are {instance.gpu_bytes}"
    if instance.host_bytes is not None and host > instance.host_bytes:
        yield "JT-C3", f"{host} bytes of host memory are taken, there are {instance.host_bytes}"


def _quality(instance: Instance, solution: Solution) -> Found:
    if instance.max_loss is not None and (lost := loss(instance, solution)) > instance.max_loss:
        yield "JT-C4", f"the decisions lose {lost}, max_loss is {instance.max_loss}"


def _overruns(instance: Instance, solution: Solution, claim: int) -> Found:
    """Name the rules that a claim below the objective leaves out.

    A claim is one sum and says nothing about steps. Named are the fewest rules without which the
    time meets it; of several such sets the one whose time is nearest to it.
    """
    total = objective(instance, solution)
    if total <= claim:
        return
    named: tuple[str, ...] = TIMED
    for size in range(1, len(TIMED) + 1):
        left = {rules: _time_ns(instance, solution, rules) for rules in combinations(TIMED, size)}
        met = [rules for rules in left if left[rules] <= claim]
        if met:
            named = max(met, key=lambda rules: left[rules])
            break
    for rule in named:
        yield rule, f"all steps and copies take {total} ns, past the claimed {claim} ns"


MAX_CANDIDATES = 2**15
"""The checker walks through all steps for each."""


def count(instance: Instance) -> int:
    """Return how many candidates `candidates` yields; far more than the limit: without dispatch."""
    experts = int((2 * len(instance.bits)) ** instance.experts) * (instance.max_ways + 1)
    lines = prod(experts * len(instance.deferrable(layer)) for layer in range(instance.layers))
    total = lines * len(instance.contexts)
    if total > MAX_CANDIDATES:
        return total
    return sum(1 << len(_movable(instance, plan)) for plan in _plans(instance))


def candidates(instance: Instance) -> Iterator[Solution]:
    """Yield all decisions, valid or not, each with every set of experts kept off the GPU."""
    for plan in _plans(instance):
        movable = _movable(instance, plan)
        for kept_off in _subsets(movable):
            yield plan.model_copy(update={"swapped": kept_off}) if kept_off else plan


def _plans(instance: Instance) -> Iterator[Solution]:
    sets = list(_subsets(list(range(instance.experts))))
    widths = list(product(instance.bits, repeat=instance.experts))
    ways = range(instance.max_ways + 1)
    layers = [
        list(product(sets, widths, ways, instance.deferrable(layer)))
        for layer in range(instance.layers)
    ]
    for context in range(len(instance.contexts)):
        for rows in product(*layers):
            resident, bits, given, deferred = zip(*rows, strict=True)
            yield Solution.model_construct(
                problem="joint",
                instance=instance.name,
                context=context,
                resident=resident,
                bits=bits,
                ways=given,
                deferred=deferred,
                swapped=(),
            )


def _movable(instance: Instance, plan: Solution) -> list[tuple[int, int, int]]:
    """Return what runs on the GPU and could run on the CPU."""
    return [
        (run.step, run.layer, expert)
        for run in layer_runs(instance, plan)
        for expert in run.gpu
        if instance.host_copy or expert not in plan.resident[run.layer]
    ]


def _subsets(items: list[Item]) -> Iterator[tuple[Item, ...]]:
    return chain.from_iterable(combinations(items, size) for size in range(len(items) + 1))
