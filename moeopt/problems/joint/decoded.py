"""From a model's values to a solution, for all models alike."""

from collections.abc import Callable, Collection
from typing import Any

from .check import layer_runs
from .instance import Instance
from .solution import Solution


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
