"""Brute force: every set of experts, for the checker to compare.

With free dispatch each comes with its best dispatch. The objective is a sum over steps and layers,
and what the GPU computes of one layer in one step changes that layer's time alone: so for each of
them every subset is tried with the rest of the GPU empty, and the checker says which is best.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, combinations, product

from .check import objective
from .instance import Instance
from .solution import Solution

MAX_CANDIDATES = 2**14
"""The checker walks through all steps for each."""

Experts = tuple[int, ...]


def count(instance: Instance) -> int:
    """Return how many candidates `candidates` yields."""
    return int(2 ** (instance.layers * instance.experts))


def candidates(instance: Instance) -> Iterator[Solution]:
    """Yield all sets, whether they fit into the slots or not: checking is the checker's work."""
    layers, steps = range(instance.layers), range(len(instance.steps))

    def placed(
        gpu: tuple[Experts, ...], computed: tuple[tuple[Experts, ...], ...] | None = None
    ) -> Solution:
        return Solution.model_construct(
            problem="placement", instance=instance.name, gpu=gpu, computed_on_gpu=computed
        )

    @cache
    def best(step: int, layer: int, held: Experts) -> Experts:
        """Return what the GPU computes there if it holds these experts and nothing else."""
        gpu = tuple(held if row == layer else () for row in layers)

        def total_ns(runs: Experts) -> int:
            rows = (tuple(runs if (t, r) == (step, layer) else () for r in layers) for t in steps)
            return objective(instance, placed(gpu, tuple(rows)))

        active = [expert for expert, _ in instance.steps[step][layer] if expert in held]
        return min(_subsets(active), key=total_ns)

    for gpu in product(list(_subsets(range(instance.experts))), repeat=instance.layers):
        if instance.dispatch == "free":
            rows = (tuple(best(t, layer, gpu[layer]) for layer in layers) for t in steps)
            yield placed(gpu, tuple(rows))
        else:
            yield placed(gpu)


def _subsets(items: Sequence[int]) -> Iterator[Experts]:
    """Yield all subsets, the largest ones last."""
    return chain.from_iterable(combinations(items, size) for size in range(len(items) + 1))
