"""The checker: what makes a schedule valid and what it costs. Knows nothing of solvers.

Brute force: all counts and all orders on the CPU, for the checker to compare.

For given counts and a given order of the CPU's tasks nothing is better than to start everything as
early as its waits allow, since both entries of the objective do not fall with any start. The
waits are stated here once more, and not taken from the other modules. Orders against the waits are
left out: I[l] comes before the experts of all later layers, D[l] before those from layer l+2 on
(I, D: immediate, deferred experts).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise, product
from math import prod
from typing import Literal, NamedTuple, get_args

from .instance import Instance, Solution, StartTimes

CONSTRAINTS = {
    "DE-C1": "each layer defers one count of experts, from 0 to top_k - min_immediate, the last 0",
    "DE-C2": "attention waits for the immediate experts of the layer before, and a hand-over",
    "DE-C3": "attention waits for the deferred experts of two layers before, and a hand-over",
    "DE-C4": "the GPU does attention and shared experts of one layer after the other, in order",
    "DE-C5": "immediate and deferred experts wait for their layer's attention, and a hand-over",
    "DE-C6": "the CPU does one thing at a time",
    "DE-C7": "the penalties sum to at most max_total_penalty",
    "DE-C8": "everything has ended by the makespan",
}

OBJECTIVE = ("makespan_ns", "total_penalty")
"""What is minimised, in order of importance; the name of a time ends with the unit."""

Found = Iterator[tuple[str, str]]


@dataclass(frozen=True)
class Task:
    """One of the four tasks of a layer, on the GPU or the CPU, from `start_ns` to `end_ns`."""

    kind: str
    layer: int
    start_ns: int
    end_ns: int

    def __str__(self) -> str:
        return f"{self.kind}[{self.layer}]"


def tasks(instance: Instance, solution: Solution) -> dict[str, list[Task]]:
    """Return the tasks by kind: attention, shared, immediate, deferred; one of each per layer.

    The experts of a layer without a valid count take no time; `violations` reports it.
    """
    return {
        kind: [
            Task(kind, layer, start, start + length)
            for layer, (start, length) in enumerate(
                zip(getattr(solution.start_ns, kind), times, strict=False)
            )
        ]
        for kind, times in _lengths(instance, _valid(instance, solution)).items()
    }


def violations(
    instance: Instance, solution: Solution, claim: tuple[int, int] | None = None
) -> list[tuple[str, str]]:
    """Return what is wrong with a schedule, as (constraint ID, sentence); empty if it is valid.

    What takes no time waits as everything else does, but may lie within other work.

    Parameters
    ----------
    instance, solution
        The problem and the schedule to check.
    claim
        The (makespan, total penalty) claimed for the schedule, if there is a claim: DE-C8 holds it
        to the makespan. Without a claim the makespan is whatever the schedule gives.
    """
    found = list(_counts(instance, solution))
    if any("entries" in sentence for _, sentence in found):
        return found
    work = tasks(instance, solution)
    found += _waits(instance, work)
    found += _overlaps(work)
    total = _total_penalty(instance, _valid(instance, solution))
    if instance.max_total_penalty is not None and total > instance.max_total_penalty:
        limit = instance.max_total_penalty
        found.append(("DE-C7", f"the penalties sum to {total}, max_total_penalty is {limit}"))
    if claim is not None:
        for task in (task for kind in work.values() for task in kind):
            if task.end_ns > claim[0]:
                past = f"past the claimed makespan of {claim[0]} ns"
                found.append(("DE-C8", f"{task} ends at {task.end_ns} ns, {past}"))
    return found


def objective(instance: Instance, solution: Solution) -> tuple[int, int]:
    """Return when the last task ends, in ns, and the sum of the penalties."""
    counts = _valid(instance, solution)
    ends = [
        start + length
        for kind, times in _lengths(instance, counts).items()
        for start, length in zip(getattr(solution.start_ns, kind), times, strict=False)
    ]
    return max(ends, default=0), _total_penalty(instance, counts)


def _valid(instance: Instance, solution: Solution) -> list[int | None]:
    """Return each layer's count if it is one of those that the penalties know, else None."""
    most, stated = instance.max_deferred, solution.deferred[: instance.layers]
    counts = [None if count is None or count > most else count for count in stated]
    return counts + [None] * (instance.layers - len(counts))


def _lengths(instance: Instance, counts: Sequence[int | None]) -> dict[str, Sequence[int]]:
    """Return how long the tasks of each kind take, by layer."""
    per_expert, k = list(zip(counts, instance.expert_cpu_ns, strict=True)), instance.top_k
    return {
        "attention": instance.attention_ns,
        "shared": instance.shared_ns,
        "immediate": [0 if d is None else (k - d) * te for d, te in per_expert],
        "deferred": [0 if d is None else d * te for d, te in per_expert],
    }


def _total_penalty(instance: Instance, counts: Sequence[int | None]) -> int:
    return sum(instance.penalty[count] for count in counts if count is not None)


def _counts(instance: Instance, solution: Solution) -> Found:
    lists = {"deferred": solution.deferred}
    lists |= {f"start_ns.{kind}": starts for kind, starts in solution.start_ns}
    for name, entries in lists.items():
        if len(entries) != instance.layers:
            yield "DE-C1", f"{name} has {len(entries)} entries for {instance.layers} layers"
    for layer, count in enumerate(solution.deferred[: instance.layers]):
        most = max(instance.deferrable(layer))
        if count is None:
            yield "DE-C1", f"deferred[{layer}]: the layer has no count"
        elif count > most:
            yield "DE-C1", f"deferred[{layer}]: the layer may defer {most} at most, not {count}"


def _waits(instance: Instance, work: dict[str, list[Task]]) -> Found:
    attention, shared = work["attention"], work["shared"]
    immediate, deferred = work["immediate"], work["deferred"]
    for layer in range(instance.layers):
        yield from _wait("DE-C4", shared[layer], attention[layer])
        for experts in (immediate[layer], deferred[layer]):
            yield from _wait("DE-C5", experts, attention[layer], instance.sync_ns[layer])
        if layer >= 1:
            yield from _wait("DE-C4", attention[layer], shared[layer - 1])
            sync_ns = instance.sync_ns[layer - 1]
            yield from _wait("DE-C2", attention[layer], immediate[layer - 1], sync_ns)
        if layer >= 2:
            sync_ns = instance.sync_ns[layer - 2]
            yield from _wait("DE-C3", attention[layer], deferred[layer - 2], sync_ns)


def _wait(rule: str, later: Task, earlier: Task, sync_ns: int = 0) -> Found:
    due = earlier.end_ns + sync_ns
    if later.start_ns < due:
        yield rule, f"{later} starts at {later.start_ns} ns, {earlier} lets it at {due} ns"


def _overlaps(work: dict[str, list[Task]]) -> Found:
    on_cpu = [t for t in (*work["immediate"], *work["deferred"]) if t.end_ns > t.start_ns]
    on_cpu.sort(key=lambda task: (task.start_ns, task.end_ns))
    last: Task | None = None
    for task in on_cpu:
        if last is not None and task.start_ns < last.end_ns:
            yield "DE-C6", f"{task} starts at {task.start_ns} ns, {last} ends at {last.end_ns} ns"
        if last is None or task.end_ns > last.end_ns:
            last = task


MAX_CANDIDATES = 2**16


Kind = Literal["immediate", "deferred"]


class CpuTask(NamedTuple):
    """The immediate or the deferred experts of a layer."""

    layer: int
    kind: Kind


def count(instance: Instance) -> int:
    """Return how many candidates `candidates` yields, less if they are too many anyhow."""
    least = prod(len(instance.deferrable(layer)) for layer in range(instance.layers))
    if least > MAX_CANDIDATES:
        return least
    every = (_orders(_with_length(instance, counts)) for counts in _all_counts(instance))
    return sum(1 for _ in islice(chain.from_iterable(every), MAX_CANDIDATES + 1))


def candidates(instance: Instance) -> Iterator[Solution]:
    """Yield the earliest schedule of every count and order, within the penalty limit or not."""
    for counts in _all_counts(instance):
        for order in _orders(_with_length(instance, counts)):
            yield _earliest(instance, counts, order)


def _all_counts(instance: Instance) -> Iterator[tuple[int, ...]]:
    return product(*(instance.deferrable(layer) for layer in range(instance.layers)))


def _length(instance: Instance, counts: Sequence[int], task: CpuTask) -> int:
    d = counts[task.layer]
    share = d if task.kind == "deferred" else instance.top_k - d
    return share * instance.expert_cpu_ns[task.layer]


def _with_length(instance: Instance, counts: Sequence[int]) -> list[CpuTask]:
    layers = range(instance.layers)
    tasks = (CpuTask(row, kind) for row in layers for kind in get_args(Kind))
    return [task for task in tasks if _length(instance, counts, task)]


def _orders(tasks: list[CpuTask]) -> Iterator[list[CpuTask]]:
    """Yield every order of the tasks that is not against the waits."""
    if not tasks:
        yield []
    for task in tasks:
        others = [other for other in tasks if other != task]
        if not any(_must_precede(other, task) for other in others):
            yield from ([task, *rest] for rest in _orders(others))


def _must_precede(first: CpuTask, second: CpuTask) -> bool:
    apart = 1 if first.kind == "immediate" else 2
    return second.layer - first.layer >= apart


def _earliest(instance: Instance, counts: tuple[int, ...], order: list[CpuTask]) -> Solution:
    """Return the schedule in which everything starts as soon as its waits and the order allow.

    From 0 on each start is pushed behind all that the specification says it waits for, layer after
    layer, again and again until nothing moves.
    """
    layers = range(instance.layers)
    attention_ns, shared_ns, sync_ns = instance.attention_ns, instance.shared_ns, instance.sync_ns
    start = {kind: [0] * instance.layers for kind in StartTimes.model_fields}
    attention, shared = start["attention"], start["shared"]
    immediate, deferred = start["immediate"], start["deferred"]
    moving = True
    while moving:
        before = {kind: list(row) for kind, row in start.items()}
        for row in layers:
            if row >= 1:
                length = _length(instance, counts, CpuTask(row - 1, "immediate"))
                done = immediate[row - 1] + length + sync_ns[row - 1]
                attention[row] = max(attention[row], done, shared[row - 1] + shared_ns[row - 1])
            if row >= 2:
                length = _length(instance, counts, CpuTask(row - 2, "deferred"))
                attention[row] = max(attention[row], deferred[row - 2] + length + sync_ns[row - 2])
            shared[row] = max(shared[row], attention[row] + attention_ns[row])
            for of_kind in (immediate, deferred):
                of_kind[row] = max(of_kind[row], attention[row] + attention_ns[row] + sync_ns[row])
        for first, second in pairwise(order):
            end = start[first.kind][first.layer] + _length(instance, counts, first)
            start[second.kind][second.layer] = max(start[second.kind][second.layer], end)
        moving = start != before
    return Solution.model_construct(
        problem="deferral",
        instance=instance.name,
        deferred=counts,
        start_ns=StartTimes.model_construct(
            None, **{kind: tuple(row) for kind, row in start.items()}
        ),
    )
