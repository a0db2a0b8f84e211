"""Lower bounds that need no solver, each with its proof."""

from math import gcd

from .instance import Instance


def objective_grid(instance: Instance) -> int:
    """Return a number that every objective is a multiple of; 1 if nothing better is known."""
    return gcd(*(expert.miss_ns for expert in instance.experts)) or 1


def lower_bound(instance: Instance) -> int:
    """Return the bound of the fractional knapsack.

    Proof. Dropping TH-C2 and allowing fractions only adds solutions. Then the capacity is filled
    best in order of miss cost per byte (Dantzig): exchanging any two pieces out of that order
    saves no more. Every integer saving is at most the fractional one, rounded down.
    """
    free, saved = instance.capacity_bytes, 0
    total = sum(expert.miss_ns for expert in instance.experts)
    by_density = sorted(instance.experts, key=lambda e: -e.miss_ns / max(e.size_bytes, 1e-9))
    for expert in by_density:
        if expert.size_bytes > free:
            return total - saved - expert.miss_ns * free // expert.size_bytes
        free, saved = free - expert.size_bytes, saved + expert.miss_ns
    return total - saved
