"""Brute force: every candidate there is, for the checker to compare."""

from collections.abc import Iterator
from itertools import product

from .instance import Instance
from .solution import Solution

MAX_CANDIDATES = 2**17


def count(instance: Instance) -> int:
    """Return how many candidates `candidates` yields."""
    with_experts = sum(layer.experts_ns is not None for layer in instance.layers)
    found: int = len(instance.devices) ** (len(instance.layers) + with_experts)
    return found


def candidates(instance: Instance) -> Iterator[Solution]:
    """Yield every device for every part, valid or not: that is for the checker to say."""
    every = range(len(instance.devices))
    homes = [every if layer.experts_ns is not None else (-1,) for layer in instance.layers]
    for attention in product(every, repeat=len(instance.layers)):
        for experts in product(*homes):
            yield Solution.model_construct(
                problem="split", instance=instance.name, attention=attention, experts=experts
            )
