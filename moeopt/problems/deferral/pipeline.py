"""From counts to a schedule, and how fast the pipeline of layers runs once it is filled.

Notation, of layer l: A attention, S shared experts, I immediate and D deferred experts.
"""

from collections.abc import Iterable, Sequence

from .instance import Instance, Solution, StartTimes


def schedule(instance: Instance, counts: Sequence[int]) -> Solution:
    """Return the schedule in which everything starts as early as it can, in the usual order.

    On the CPU that is immediate, deferred experts of layer 0, then those of layer 1, and so on;
    `states` has the proof that no other order is better. What takes no time keeps no place in it.

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
