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


def kept_off(
    instance: Instance, plan: Solution, on_gpu: Collection[tuple[int, int, int]]
) -> Solution:
    """Return a plan in which nothing but some (step, layer, expert) runs on the GPU."""
    off = tuple(
        (run.step, run.layer, expert)
        for run in layer_runs(instance, plan)
        for expert in run.gpu
        if (run.step, run.layer, expert) not in on_gpu
    )
    return plan.model_copy(update={"on_cpu": off})
