"""Brute force: every set of experts, for the checker to compare.

With free dispatch each comes with the best of all its dispatches. Steps and layers do not depend on
each other once the set is chosen, so that each takes its own best.
"""

from collections.abc import Iterator
from functools import lru_cache, partial
from itertools import chain, combinations, product

from .instance import Instance
from .solution import Solution

MAX_CANDIDATES = 2**14
"""The checker walks through all steps for each."""


def count(instance: Instance) -> int:
    """Return how many candidates `candidates` yields."""
    return int(2 ** (instance.layers * instance.experts))


def candidates(instance: Instance) -> Iterator[Solution]:
    """Yield all sets, whether they fit into the slots or not: checking is the checker's work."""
    sizes = range(instance.experts + 1)
    rows = list(chain(*(combinations(range(instance.experts), size) for size in sizes)))
    free = instance.dispatch == "free"
    best = lru_cache(maxsize=2**16)(partial(_best_dispatch, instance))
    for gpu in product(rows, repeat=instance.layers):
        computed = None
        if free:
            steps = range(len(instance.steps))
            computed = tuple(
                tuple(best(step, layer, held) for layer, held in enumerate(gpu)) for step in steps
            )
        yield Solution.model_construct(
            problem="placement", instance=instance.name, gpu=gpu, computed_on_gpu=computed
        )


def _best_dispatch(
    instance: Instance, step: int, layer: int, held: tuple[int, ...]
) -> tuple[int, ...]:
    """Return what the GPU computes of one layer in one step, by trying every subset."""
    active = instance.steps[step][layer]
    able = [expert for expert, _ in active if expert in held]
    subsets = chain(*(combinations(able, size) for size in range(len(able), -1, -1)))

    def layer_ns(runs: tuple[int, ...]) -> int:
        gpu_ns = sum(instance.gpu_ns(layer, e, n) for e, n in active if e in runs)
        away = [(e, n) for e, n in active if e not in runs]
        off_ns = sum(instance.offload_ns(layer, e, n) for e, n in away)
        return max(gpu_ns, off_ns + (instance.layer_offload_fixed_ns if away else 0))

    return min(subsets, key=layer_ns)
