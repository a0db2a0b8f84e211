"""Brute force: every layout there is, each with its best schedules. Ground truth of the tests.

Written from the spec's text alone: all experts, with tokens or without, all residents and places,
nothing left out as equal or useless. What is valid and what it costs, the checker says.
"""

from collections.abc import Iterator
from itertools import product
from math import comb

from .check import scenario_loads, violations
from .instance import Instance
from .solution import DOMAINS, Domain, Solution

MAX_CANDIDATES = 10**6

OF_LAYOUTS = {"LA-C2", "LA-C4", "LA-C10", "LA-C11"}
"""The rules that a layout keeps or breaks whatever runs on it."""

Run = tuple[Domain | None, int | None]
"""The domain of an expert, and the DIMM of the copy that it is run from; None: the first."""


def count(instance: Instance) -> int:
    """Return how many schedules `candidates` compares at most: layouts times assignments."""
    places = _places(instance)
    ways = len(DOMAINS) * max(len(of) for of in places)
    schedules = sum(
        int(ways ** sum(1 for tokens in scenario.tokens if tokens))
        for scenario in instance.scenarios
    )
    slots = min(instance.hbm_slots, instance.experts)
    residents = sum(comb(instance.experts, size) for size in range(slots + 1))
    return residents * int(len(places) ** instance.experts) * schedules


def candidates(instance: Instance) -> Iterator[Solution]:
    """Yield every valid layout with the best assignment of each scenario under it.

    Given a layout the scenarios have nothing to do with each other, and the objective is a weighted
    sum, so each scenario's least makespan gives the least objective.
    """
    several = instance.copies is not None
    nobody: tuple[Domain | None, ...] = (None,) * instance.experts
    for resident in product((False, True), repeat=instance.experts):
        if sum(resident) > instance.hbm_slots:
            continue
        for places in product(_places(instance), repeat=instance.experts):
            # The pieces are well-formed by construction; skipping validation is much faster.
            layout = Solution.model_construct(
                problem="layout",
                instance=instance.name,
                resident=resident,
                dimm=tuple(of[0] for of in places),
                copies=tuple(tuple(d for d in of[1:] if d is not None) for of in places)
                if several
                else None,
                source=None,
                assignment=(nobody,) * len(instance.scenarios),
            )
            if any(rule in OF_LAYOUTS for rule, _ in violations(instance, layout)):
                continue
            runs = [_best(instance, number, layout) for number in range(len(instance.scenarios))]
            yield layout.model_copy(
                update={
                    "assignment": tuple(tuple(of for of, _ in row) for row in runs),
                    "source": tuple(tuple(of for _, of in row) for row in runs)
                    if several
                    else None,
                }
            )


def _places(instance: Instance) -> list[tuple[int | None, ...]]:
    """Return where an expert may lie at once, the first copy first; None: striped."""
    most = 1 if instance.copies is None else instance.copies.max_per_expert
    everywhere = (None, *range(instance.dimms))
    sets = product((False, True), repeat=len(everywhere))
    return [
        tuple(place for place, lies in zip(everywhere, flags, strict=True) if lies)
        for flags in sets
        if 1 <= sum(flags) <= most
    ]


def _best(instance: Instance, number: int, layout: Solution) -> tuple[Run, ...]:
    """Return the runs of least makespan among all that a layout allows in a scenario."""
    able: list[list[Run]] = []
    for row, tokens in enumerate(instance.scenarios[number].tokens):
        sources = (None, *(layout.copies[row] if layout.copies else ()))
        able.append(
            [
                (domain, source)
                for domain, source in product(DOMAINS, sources)
                if domain != "ndp" or source is not None or layout.dimm[row] is not None
            ]
            if tokens
            else [(None, None)]
        )

    def makespan(runs: tuple[Run, ...]) -> int:
        domains, source = zip(*runs, strict=True)
        fixed = (layout.resident, layout.dimm, domains, source)
        return scenario_loads(instance, number, *fixed).makespan_ns

    return min(product(*able), key=makespan)
