"""Tokens that are still to come: ways stay, and several stretches of tokens are one instance."""

from collections.abc import Sequence

from moeopt.core.errors import InputError

from .instance import MAX_CELLS, MAX_EXPERTS, Instance, Solution


def joined(instances: Sequence[Instance]) -> Instance:
    """Return the instance of all stretches, one after the other, each with experts of its own.

    What is left in a cache from an earlier stretch is never found again and goes first, so that an
    LRU cache is as good as empty: a layer takes as long as in all stretches together. Fetches of
    one stretch may hide behind the layers of another (CA-C4 holds for the sum), so that ways cost
    at most what they do in all.
    """
    first = instances[0]
    experts = len(instances) * first.experts
    if experts > MAX_EXPERTS or experts * first.layers > MAX_CELLS:
        raise InputError(f"{len(instances)} stretches of {first.experts} experts are too many")
    accesses = tuple(
        tuple(tuple(number * first.experts + expert for expert in used) for used in token)
        for number, one in enumerate(instances)
        for token in one.accesses
    )
    change = {"experts": experts, "accesses": accesses, "provenance": None}
    return first.model_copy(update=change)


def separated(instance: Instance, decision: Solution) -> Solution:
    """Return ways decided on joined stretches for one of them: more than its experts are idle."""
    ways = tuple(None if of is None else min(of, instance.experts) for of in decision.ways)
    return decision.model_copy(update={"ways": ways})
