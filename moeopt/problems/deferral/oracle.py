"""Brute force: all counts and all orders on the CPU, for the checker to compare.

For given counts and a given order of the CPU's tasks nothing is better than to start everything as
early as its waits allow, since both entries of the objective do not fall with any start. The
waits are stated here once more, and not taken from the other modules. Orders against the waits are
left out: I[l] comes before the experts of all later layers, D[l] before those from layer l+2 on
(I, D: immediate, deferred experts).
"""

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise, product
from math import prod
from typing import Literal, NamedTuple, get_args

from .instance import Instance
from .solution import Solution, StartTimes

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
    orders = (order for counts in _counts(instance) for order in _orders_of(instance, counts))
    return sum(1 for _ in islice(orders, MAX_CANDIDATES + 1))


def candidates(instance: Instance) -> Iterator[Solution]:
    """Yield the earliest schedule of every count and order, within the penalty limit or not."""
    for counts in _counts(instance):
        for order in _orders_of(instance, counts):
            yield _earliest(instance, counts, order)


def _counts(instance: Instance) -> Iterator[tuple[int, ...]]:
    return product(*(instance.deferrable(layer) for layer in range(instance.layers)))


def _length(instance: Instance, counts: Sequence[int], task: CpuTask) -> int:
    d = counts[task.layer]
    share = d if task.kind == "deferred" else instance.top_k - d
    return share * instance.expert_cpu_ns[task.layer]


def _orders_of(instance: Instance, counts: Sequence[int]) -> Iterator[list[CpuTask]]:
    return _orders(_with_length(instance, counts))


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
