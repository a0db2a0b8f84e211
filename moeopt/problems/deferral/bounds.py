"""Lower bounds on makespan and penalty that need no solver, each with its proof."""

from .instance import Instance
from .states import boxes, earliest, layers_of


def lower_bound(instance: Instance) -> tuple[int, int]:
    """Return a bound on (makespan, total penalty), in lexicographic order.

    Proof. The least makespan T* is that of maximal deferral (proof in `states`). A schedule with
    makespan T* costs at least `least_penalty`; one with a larger makespan comes later in
    lexicographic order whatever it costs.
    """
    makespan_ns = earliest(instance)[-1].a
    return makespan_ns, least_penalty(instance, makespan_ns)


def objective_grid(instance: Instance) -> int:
    """Return a number that every packed objective is a multiple of.

    Makespans are multiples of the times' common divisor, but penalties of nothing in common.
    """
    return 1


def second_key_radix(instance: Instance) -> int:
    """Return a number above every total penalty."""
    return instance.layers * instance.penalty[-1] + 1


def least_penalty(instance: Instance, makespan_ns: int) -> int:
    """Return a bound on the total penalty of schedules with a makespan of at most `makespan_ns`.

    Proof. In every schedule a layer is reached no earlier than under maximal deferral, and must be
    left no later than the latest box that maximal deferral can still finish from. So each layer's
    count is at least the least that leads from the earliest to the latest box, and penalties do
    not fall with the count. The last layer defers nothing.
    """
    reached, due = earliest(instance), boxes(instance, makespan_ns)
    total = instance.penalty[0]
    for number, layer in enumerate(layers_of(instance)[:-1]):
        counts = instance.deferrable(number)
        fits = (d for d in counts if layer.after(*reached[number], d)[0] <= due[number + 1].a)
        total += instance.penalty[next(fits, instance.max_deferred)]
    return total
