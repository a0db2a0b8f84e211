"""How fast a pipeline of layers with deferred experts runs once it is filled."""

from collections.abc import Sequence
from fractions import Fraction

from benchmarks.rooms.deferral import Instance


def cycle_ns(instance: Instance, counts: Sequence[int]) -> Fraction:
    """Return the time per pass through the layers if they came again and again, without an end.

    In the usual order a layer turns (a, c), the start of its attention and the time when the CPU
    is free, into those of the next one, by maxima of sums. The time per pass is the growth rate
    of the composed map: of a 2 x 2 matrix over (max, +), its largest mean weight of a cycle. For
    equal layers it is `layers` times KTransformers' period max(k te, attention + 2 sync +
    (k - d) te, attention + shared).

    Parameters
    ----------
    instance
        The layers; the first follows on the last.
    counts
        Deferred experts of each layer; here the last may defer as well.
    """
    never = -4 * (instance.horizon_ns + 1)  # stays negative whatever is added on the way
    (aa, ac), (ca, cc) = (0, never), (never, 0)
    for layer, count in enumerate(counts):
        te, sync = instance.expert_cpu_ns[layer], instance.sync_ns[layer]
        attention, all_experts = instance.attention_ns[layer], instance.top_k * te
        immediate = (instance.top_k - count) * te
        handed_before = instance.sync_ns[layer - 1] if instance.expert_cpu_ns[layer - 1] else 0
        to_next = attention + max(instance.shared_ns[layer], 2 * sync + immediate)
        after_cpu = max(handed_before, immediate + sync if immediate else never)
        (aa, ac), (ca, cc) = (
            (max(to_next + aa, after_cpu + ca), max(to_next + ac, after_cpu + cc)),
            (
                max(attention + sync + all_experts + aa, all_experts + ca),
                max(attention + sync + all_experts + ac, all_experts + cc),
            ),
        )
    return max(Fraction(aa), Fraction(cc), Fraction(ac + ca, 2))
