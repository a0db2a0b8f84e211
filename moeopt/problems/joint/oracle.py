"""Brute force: every decision and every dispatch, for the checker to compare."""

from collections.abc import Iterator
from itertools import chain, combinations, product
from math import prod
from typing import Any

from .check import layer_runs
from .instance import Instance
from .solution import Solution

MAX_CANDIDATES = 2**15
"""The checker walks through all steps for each."""


def count(instance: Instance) -> int:
    """Return how many candidates `candidates` yields; far more than the limit: without dispatch."""
    experts = int((2 * len(instance.bits)) ** instance.experts) * (instance.max_ways + 1)
    lines = prod(experts * len(instance.deferrable(layer)) for layer in range(instance.layers))
    total = lines * len(instance.contexts)
    if total > MAX_CANDIDATES:
        return total
    return sum(1 << len(_movable(instance, plan)) for plan in _plans(instance))


def candidates(instance: Instance) -> Iterator[Solution]:
    """Yield all decisions, valid or not, each with every set of experts kept off the GPU."""
    for plan in _plans(instance):
        movable = _movable(instance, plan)
        for kept_off in _subsets(movable):
            yield plan.model_copy(update={"swapped": kept_off}) if kept_off else plan


def _plans(instance: Instance) -> Iterator[Solution]:
    sets = list(_subsets(list(range(instance.experts))))
    widths = list(product(instance.bits, repeat=instance.experts))
    ways = range(instance.max_ways + 1)
    layers = [
        list(product(sets, widths, ways, instance.deferrable(layer)))
        for layer in range(instance.layers)
    ]
    for context in range(len(instance.contexts)):
        for rows in product(*layers):
            resident, bits, given, deferred = zip(*rows, strict=True)
            yield Solution.model_construct(
                problem="joint",
                instance=instance.name,
                context=context,
                resident=resident,
                bits=bits,
                ways=given,
                deferred=deferred,
                swapped=(),
            )


def _movable(instance: Instance, plan: Solution) -> list[tuple[int, int, int]]:
    """Return what runs on the GPU and could run on the CPU."""
    return [
        (run.step, run.layer, expert)
        for run in layer_runs(instance, plan)
        for expert in run.gpu
        if instance.host_copy or expert not in plan.resident[run.layer]
    ]


def _subsets(items: list[Any]) -> Iterator[tuple[Any, ...]]:
    return chain.from_iterable(combinations(items, size) for size in range(len(items) + 1))
