"""The checker. Written first; imports its own instance and solution and no solver."""

from collections.abc import Iterator
from itertools import compress, product

from .instance import Instance, Solution

CONSTRAINTS = {
    "TM-C1": "the kept experts fit into the capacity",
    "TM-C2": "at least min_kept experts are kept",
}


OBJECTIVE = ("missed_ns",)
"""What is minimised, in order of importance; the name ends with the unit."""


def violations(
    instance: Instance, solution: Solution, claim_ns: int | None = None
) -> list[tuple[str, str]]:
    """Return what is wrong, as (constraint ID, sentence); empty if the solution is valid.

    `claim_ns` is the objective that a method claims. Where a constraint ties the objective, as a
    makespan is tied, hold the solution to the claim there; a plain sum has nothing to hold it to.
    """
    found = []
    used = sum(expert.size_bytes for expert in compress(instance.experts, solution.kept))
    if used > instance.capacity_bytes:
        found.append(("TM-C1", f"{used} bytes kept, the capacity is {instance.capacity_bytes}"))
    if sum(solution.kept) < instance.min_kept:
        found.append(("TM-C2", f"{sum(solution.kept)} experts kept, not {instance.min_kept}"))
    if len(solution.kept) != len(instance.experts):
        found.append(("TM-C2", f"{len(solution.kept)} flags for {len(instance.experts)} experts"))
    return found


def objective(instance: Instance, solution: Solution) -> int:
    """Return the cost of all experts that are not kept, in ns."""
    pairs = zip(instance.experts, solution.kept, strict=False)
    return sum(expert.miss_ns for expert, kept in pairs if not kept)


MAX_CANDIDATES = 2**16


def count(instance: Instance) -> int:
    """Return how many candidates `candidates` yields."""
    return 1 << len(instance.experts)


def candidates(instance: Instance) -> Iterator[Solution]:
    """Yield every set of kept experts, valid or not: that is for the checker to say."""
    name = instance.name
    for kept in product((False, True), repeat=len(instance.experts)):
        yield Solution.model_construct(problem="TEMPLATE", instance=name, kept=kept)
