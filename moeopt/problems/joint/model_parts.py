"""What both models of a joint plan share: what caches would hold, and from values to a solution.

The cache of a layer is a list of its non-residents by recency, of which it keeps as many as it has
ways. So an expert that is no resident is found if and only if fewer non-residents than ways have
been used since its own last use; these stand here, residents or not (`Access.since`).
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .check import layer_runs
from .instance import Instance, Solution


@dataclass(frozen=True)
class Access:
    """An expert with tokens in a layer of a step.

    Attributes
    ----------
    place
        Where the step lists it, from 0.
    since
        Other experts of the layer whose last use is more recent than its own last use, both before
        this step; None if it was not used before.
    """

    step: int
    layer: int
    place: int
    expert: int
    tokens: int
    loss: int
    since: frozenset[int] | None


def accesses(steps: Sequence[Sequence[Sequence[tuple[int, int, int]]]]) -> Iterator[list[Access]]:
    """Yield the accesses of every layer of every step, in the order of execution."""
    recent: list[list[int]] = [[] for _ in steps[0]]
    for number, step in enumerate(steps):
        for layer, active in enumerate(step):
            order = recent[layer]  # most recent last
            yield [
                Access(
                    number,
                    layer,
                    place,
                    expert,
                    tokens,
                    loss,
                    frozenset(order[order.index(expert) + 1 :]) if expert in order else None,
                )
                for place, (expert, tokens, loss) in enumerate(active)
            ]
            used = [expert for expert, _, _ in active]
            recent[layer] = [expert for expert in order if expert not in used] + used


def decoded(model: Any, value: Callable[[Any], int]) -> Solution:
    """Return the decisions of a model's flags, without dispatch; None where no flag is set."""
    instance: Instance = model.instance

    def first(flags: list[Any]) -> int | None:
        return next((place for place, flag in enumerate(flags) if value(flag)), None)

    places = [[first(flags) for flags in layer] for layer in model.width]
    return Solution(
        instance=instance.name,
        context=first(model.kap),
        resident=tuple(
            tuple(e for e, flag in enumerate(layer) if value(flag)) for layer in model.resident
        ),
        bits=tuple(
            tuple(None if place is None else instance.bits[place] for place in layer)
            for layer in places
        ),
        ways=tuple(first(flags) for flags in model.ways),
        deferred=tuple(first(flags) for flags in model.defers),
    )


def dispatched(
    instance: Instance, plan: Solution, on_gpu: Collection[tuple[int, int, int]]
) -> Solution:
    """Return a plan in which exactly some (step, layer, expert) run on the GPU."""
    swapped = tuple(
        (run.step, run.layer, expert)
        for run in layer_runs(instance, plan)
        for expert in (*run.gpu, *run.now, *run.late)
        if (expert in run.gpu) != ((run.step, run.layer, expert) in on_gpu)
    )
    return plan.model_copy(update={"swapped": swapped})
