"""deferral: the usual order on the CPU, and two clocks per layer."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moeopt.library.lemmas.rows import LemmaModel

if TYPE_CHECKING:
    from moeopt.problems.deferral import Instance

USUAL_ORDER = "immediate before deferred experts, layer by layer, loses nothing on the CPU"


def usual_order(instance: "Instance", below: int, form: Mapping[str, Any]) -> LemmaModel:
    """Return the model: when each layer's attention starts and when the CPU is free for it.

    The recurrences are those of the specification, as inequalities. An expert that takes no time
    waits for nobody on the CPU, nor do no immediate ones: where either may be, less is said.
    """
    made = LemmaModel(USUAL_ORDER, tighten=True)
    radix = instance.layers * instance.penalty[-1] + 1
    most = below // radix
    attention = [made.whole(0, most) for _ in range(instance.layers)]
    free = [made.whole(0, most) for _ in range(instance.layers + 1)]
    makespan = made.whole(0, most)
    cost = []
    for layer, (start, before) in enumerate(zip(attention, free, strict=False)):
        gpu, sync = instance.attention_ns[layer], instance.sync_ns[layer]
        expert, top = instance.expert_cpu_ns[layer], instance.top_k
        counts = instance.deferrable(layer)
        flags = made.flags(len(counts))
        made.one(flags, "DE-C1")
        cost += [(flag, instance.penalty[d]) for flag, d in zip(flags, counts, strict=True)]
        count = made.whole(0, counts[-1])
        made.first.append(count)
        made.row([(count, -1), *zip(flags, counts, strict=True)], "=", 0, "DE-C1")
        begin = made.whole(0, most)  # of the immediate experts
        made.row([(begin, 1), (start, -1)], ">=", gpu + sync, "DE-C5")
        if expert and instance.min_immediate:
            made.row([(begin, 1), (before, -1)], ">=", 0, "DE-C6")
        after = free[layer + 1]
        made.row([(after, 1), (begin, -1)], ">=", top * expert if expert else -most, "DE-C6")
        made.row([(after, 1), (before, -1)], ">=", top * expert, "DE-C6")
        done = gpu + instance.shared_ns[layer]
        if layer + 1 == instance.layers:
            made.row([(makespan, 1), (start, -1)], ">=", done, "DE-C8")
            continue
        follows = attention[layer + 1]
        made.row([(follows, 1), (start, -1)], ">=", done, "DE-C4")
        made.row([(follows, 1), (begin, -1), (count, expert)], ">=", top * expert + sync, "DE-C2")
        if layer + 2 < instance.layers and expert:
            made.row([(attention[layer + 2], 1), (after, -1)], ">=", sync, "DE-C3")
    made.row([(makespan, 1), (free[-1], -1)], ">=", 0, "DE-C8")
    if instance.max_total_penalty is not None:
        made.row(cost, "<=", instance.max_total_penalty, "DE-C7")
    made.objective = [[makespan, radix], *([flag, w] for flag, w in cost if w)]
    return made
