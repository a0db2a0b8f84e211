"""Brute force: all migrations with all assignments, for the checker. The tests' ground truth."""

from collections.abc import Iterator
from itertools import product
from math import prod

from .instance import Expert, Instance
from .solution import DOMAINS, Domain, Migration, Solution

MAX_CANDIDATES = 12**5


def count(instance: Instance) -> int:
    """Return how many candidates `candidates` yields."""
    return prod(
        len(_migrations(instance, expert)) * len(_domains(expert)) for expert in instance.experts
    )


def candidates(instance: Instance) -> Iterator[Solution]:
    """Yield every choice of one fitting migration or none, and one domain, for each expert.

    Migrations stand in the order of the instance's experts: their order means nothing. The windows
    and whether a domain is allowed are left to the checker.
    """
    migrations = [_migrations(instance, expert) for expert in instance.experts]
    domains = [_domains(expert) for expert in instance.experts]
    for chosen in product(*migrations):
        migrating = tuple(migration for migration in chosen if migration is not None)
        for assignment in product(*domains):
            # The pieces are valid by construction; skipping validation is ten times faster.
            yield Solution.model_construct(
                problem="relayout",
                instance=instance.name,
                migrations=migrating,
                assignment=assignment,
            )


def _migrations(instance: Instance, expert: Expert) -> list[Migration | None]:
    """Return the migrations that RE-C4 allows the expert, first that it stays."""
    found: list[Migration | None] = [None]
    if not expert.tokens:
        return found
    if not expert.resident:
        found.append(Migration(expert=expert.expert, kind="prefetch"))
    if expert.dimm is not None:
        found.append(Migration(expert=expert.expert, kind="stripe"))
    for dimm in range(instance.dimms):
        if expert.dimm is None:
            found.append(Migration(expert=expert.expert, kind="localize", dimm=dimm))
        elif expert.dimm != dimm:
            found.append(Migration(expert=expert.expert, kind="rebalance", dimm=dimm))
    return found


def _domains(expert: Expert) -> tuple[Domain | None, ...]:
    return DOMAINS if expert.tokens else (None,)
