"""Brute force: every layout there is, each with its best schedules. Ground truth of the tests."""

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from math import comb

from .check import scenario_loads
from .instance import Instance
from .solution import DOMAINS, Domain, Solution

MAX_CANDIDATES = 10**6


def count(instance: Instance) -> int:
    """Return how many schedules `candidates` compares, at most: layouts x assignments."""
    rows = active_rows(instance)
    slots = min(instance.hbm_slots, len(rows))
    residents = sum(comb(len(rows), size) for size in range(slots + 1))
    ways = {0: 1}  # DIMMs in use -> numbered layouts so far
    for _ in rows:
        following: dict[int, int] = {}
        for used, number in ways.items():
            following[used] = following.get(used, 0) + number * (1 + used)
            if used < instance.dimms:
                following[used + 1] = following.get(used + 1, 0) + number
        ways = following
    schedules = sum(
        int(len(DOMAINS) ** sum(1 for tokens in scenario.tokens if tokens))
        for scenario in instance.scenarios
    )
    return residents * sum(ways.values()) * schedules


def candidates(instance: Instance) -> Iterator[Solution]:
    """Yield every layout with the best assignment of each scenario under it.

    Given a layout the scenarios have nothing to do with each other, and the objective is a weighted
    sum, so each scenario's least makespan gives the least objective. Layouts that exceed
    `dimm_slots` are yielded as well: checking is the checker's work.
    """
    rows = active_rows(instance)
    for size in range(min(instance.hbm_slots, len(rows)) + 1):
        for chosen in combinations(rows, size):
            resident = tuple(row in chosen for row in range(instance.experts))
            for places in numbered_layouts(len(rows), instance.dimms):
                dimm: list[int | None] = [None] * instance.experts
                for row, place in zip(rows, places, strict=True):
                    dimm[row] = place
                assignment = tuple(
                    _best_assignment(instance, number, resident, dimm)
                    for number in range(len(instance.scenarios))
                )
                # The pieces are valid by construction; skipping validation is much faster.
                yield Solution.model_construct(
                    problem="layout",
                    instance=instance.name,
                    resident=resident,
                    dimm=tuple(dimm),
                    assignment=assignment,
                )


def active_rows(instance: Instance) -> list[int]:
    """Return the experts that have tokens in some scenario; only those have a layout."""
    return [
        row for row in range(instance.experts) if any(s.tokens[row] for s in instance.scenarios)
    ]


def numbered_layouts(experts: int, dimms: int) -> Iterator[tuple[int | None, ...]]:
    """Yield the ways to stripe each expert or put it on a DIMM, DIMMs numbered by first use.

    The DIMMs are identical, so that any layout becomes one of these when they are renumbered.
    """
    if experts == 0:
        yield ()
        return
    for before in numbered_layouts(experts - 1, dimms):
        used = len({place for place in before if place is not None})
        for place in (None, *range(min(used + 1, dimms))):
            yield (*before, place)


def _best_assignment(
    instance: Instance, number: int, resident: Sequence[bool], dimm: Sequence[int | None]
) -> tuple[Domain | None, ...]:
    """Return an assignment of least makespan among all that the layout allows."""
    able: list[tuple[Domain | None, ...]] = [
        (None,) if not tokens else DOMAINS if dimm[row] is not None else ("gpu", "cpu")
        for row, tokens in enumerate(instance.scenarios[number].tokens)
    ]
    return min(
        product(*able),
        key=lambda chosen: scenario_loads(instance, number, resident, dimm, chosen).makespan_ns,
    )
