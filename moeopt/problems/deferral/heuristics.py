"""KTransformers' rule for the number of deferred experts, and the uniform counts around it.

All defer the same number in every layer but the last, and keep the usual order on the CPU. Where
there is a limit on the penalty, only counts within it are tried.

From counts to a schedule, and how fast the pipeline of layers runs once it is filled.

Notation, of layer l: A attention, S shared experts, I immediate and D deferred experts.
"""

from collections.abc import Iterable, Sequence

from .check import objective
from .instance import Instance, Solution, StartTimes


def schedule(instance: Instance, counts: Sequence[int]) -> Solution:
    """Return the schedule in which everything starts as early as it can, in the usual order.

    On the CPU that is immediate, deferred experts of layer 0, then those of layer 1, and so on;
    `bounds` has the proof that no other order is better. What takes no time keeps no place in it.

    Parameters
    ----------
    instance, counts
        The problem, and how many experts each layer defers.
    """
    starts: dict[str, list[int]] = {kind: [] for kind in StartTimes.model_fields}
    cpu_free = attention = 0
    deferred_due = deferred_due_later = 0
    for layer, count in enumerate(counts):
        sync, expert = instance.sync_ns[layer], instance.expert_cpu_ns[layer]
        attention_end = attention + instance.attention_ns[layer]
        shared_end = attention_end + instance.shared_ns[layer]
        starts["attention"].append(attention)
        starts["shared"].append(attention_end)
        ended = []
        for kind, experts in (("immediate", instance.top_k - count), ("deferred", count)):
            start = ready = attention_end + sync
            if experts * expert:
                start = max(ready, cpu_free)
                cpu_free = start + experts * expert
            starts[kind].append(start)
            ended.append(start + experts * expert)
        deferred_due, deferred_due_later = deferred_due_later, ended[1] + sync
        attention = max(shared_end, ended[0] + sync, deferred_due)
    return Solution(
        instance=instance.name,
        deferred=tuple(counts),
        start_ns=StartTimes(**{kind: tuple(times) for kind, times in starts.items()}),
    )


def total_penalty(instance: Instance, counts: Iterable[int]) -> int:
    """Return the sum of the layers' penalties."""
    return sum(instance.penalty[count] for count in counts)


def uniform(instance: Instance, deferred: int) -> Solution:
    """Return the schedule in which every layer but the last defers `deferred` experts."""
    return schedule(instance, _counts(instance, deferred))


def none(instance: Instance) -> Solution | None:
    """Defer nothing: the execution that KTransformers starts from (its Figure 10, first row)."""
    return uniform(instance, 0) if _affordable(instance) else None


def saturate(instance: Instance) -> Solution | None:
    """Defer the least number that saturates: KTransformers 4.2.

    The paper: "the minimum number of experts required to achieve full CPU utilization while
    ensuring at least 2 immediate experts per layer". The period of a layer that defers d experts is
    max(k te, A + 2 sync + (k - d) te, A + S). Of the counts within the limit on the penalty the
    least one that reaches the smallest period is taken: one number for all layers, from the sums of
    their times.
    """
    affordable = _affordable(instance)
    if not affordable:
        return None
    periods = {count: period_ns(instance, count) for count in affordable}
    return uniform(instance, min(affordable, key=lambda count: (periods[count], count)))


def uniform_d(instance: Instance) -> Solution | None:
    """Defer the best uniform number: every count is tried, none of the paper's rules followed."""
    tried = [uniform(instance, count) for count in _affordable(instance)]
    return min(tried, key=lambda solution: objective(instance, solution), default=None)


def period_ns(instance: Instance, deferred: int) -> int:
    """Return the sum of the layers' periods under a uniform count.

    It is the period of the average layer, times the number of layers.
    """
    attention, shared, sync, expert = (
        sum(times)
        for times in (
            instance.attention_ns,
            instance.shared_ns,
            instance.sync_ns,
            instance.expert_cpu_ns,
        )
    )
    immediate = (instance.top_k - deferred) * expert
    return max(instance.top_k * expert, attention + 2 * sync + immediate, attention + shared)


def _counts(instance: Instance, deferred: int) -> list[int]:
    return [deferred] * (instance.layers - 1) + [0]


def _affordable(instance: Instance) -> list[int]:
    """Return the uniform counts whose penalty is within the limit."""
    limit = instance.max_total_penalty
    counts = range(instance.max_deferred + 1)
    cost = {d: total_penalty(instance, _counts(instance, d)) for d in counts}
    return [d for d in counts if limit is None or cost[d] <= limit]


WARM_START = uniform_d
"""The heuristic whose solution the exact methods start from."""
