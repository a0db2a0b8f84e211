"""Brute force: every choice of widths, for the checker to compare. Ground truth of the tests."""

from collections.abc import Iterator
from itertools import product

from .instance import Instance
from .solution import Solution

MAX_CANDIDATES = 4**9


def count(instance: Instance) -> int:
    """Return how many candidates `candidates` yields."""
    experts = sum(len(layer.experts) for layer in instance.layers)
    return int(len(instance.bits) ** experts)


def candidates(instance: Instance) -> Iterator[Solution]:
    """Yield every choice of a width per expert, valid or not: checking is the checker's work."""
    sizes = [len(layer.experts) for layer in instance.layers]
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    for flat in product(instance.bits, repeat=ends[-1]):
        bits = tuple(flat[end - size : end] for size, end in zip(sizes, ends, strict=True))
        yield Solution.model_construct(problem="bitwidth", instance=instance.name, bits=bits)
