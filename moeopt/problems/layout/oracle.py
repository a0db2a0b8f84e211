"""Brute force: every layout there is, each with its best schedules. Ground truth of the tests."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, product
from math import comb

import numpy as np

from .check import scenario_loads
from .copies import fields_of, fits
from .instance import Instance
from .solution import DOMAINS, Domain, Solution

MAX_CANDIDATES = 10**6

MANY_STATES = 1000
"""From so many ways of using DIMMs on, layouts are counted without numbering: too many."""


def count(instance: Instance) -> int:
    """Return how many schedules `candidates` compares, at most: layouts x assignments."""
    rows = active_rows(instance)
    slots = min(instance.hbm_slots, len(rows))
    residents = sum(comb(len(rows), size) for size in range(slots + 1))
    ways = len(DOMAINS)
    if instance.copies is not None:
        ways *= min(instance.copies.max_per_expert, 1 + instance.dimms)
    schedules = sum(
        int(ways ** sum(1 for tokens in scenario.tokens if tokens))
        for scenario in instance.scenarios
    )
    if instance.copies is not None:
        return residents * int(len(_places(instance)) ** len(rows)) * schedules
    # DIMMs and used DIMMs of each channel, sorted -> numbered layouts so far
    sizes = Counter(_channels(instance)).values()
    layouts = {tuple(sorted((size, 0) for size in sizes)): 1}
    for _ in rows:
        following = Counter[tuple[tuple[int, int], ...]]()
        for state, number in layouts.items():
            if len(layouts) > MANY_STATES:
                following[state] += number * (1 + instance.dimms)
                continue
            following[state] += number * (1 + sum(used for _, used in state))
            for at, (size, used) in enumerate(state):
                if used < size and (used or (size, used) not in state[:at]):
                    opened = (*state[:at], (size, used + 1), *state[at + 1 :])
                    following[tuple(sorted(opened))] += number
        layouts = dict(following)
    return residents * sum(layouts.values()) * schedules


def candidates(instance: Instance) -> Iterator[Solution]:
    """Yield every layout with the best assignment of each scenario under it.

    Given a layout the scenarios have nothing to do with each other, and the objective is a weighted
    sum, so each scenario's least makespan gives the least objective. Layouts that exceed
    `dimm_slots` are yielded as well: checking is the checker's work.
    """
    if instance.copies is not None:
        yield from _with_copies(instance)
        return
    rows = active_rows(instance)
    for size in range(min(instance.hbm_slots, len(rows)) + 1):
        for chosen in combinations(rows, size):
            resident = tuple(row in chosen for row in range(instance.experts))
            for places in numbered_layouts(len(rows), _channels(instance)):
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


def _with_copies(instance: Instance) -> Iterator[Solution]:
    """Yield every set of copies for every expert, each layout with its best schedules."""
    rows, none = active_rows(instance), (True,) + (False,) * instance.dimms
    for size in range(min(instance.hbm_slots, len(rows)) + 1):
        for chosen in combinations(rows, size):
            resident = tuple(row in chosen for row in range(instance.experts))
            for places in product(_places(instance), repeat=len(rows)):
                of = dict(zip(rows, places, strict=True))
                lies = np.array([of.get(row, none) for row in range(instance.experts)])
                if not fits(instance, lies):
                    continue
                dimm, copies = fields_of(lies)
                runs = [
                    _best_runs(instance, number, resident, dimm, copies)
                    for number in range(len(instance.scenarios))
                ]
                yield Solution.model_construct(
                    problem="layout",
                    instance=instance.name,
                    resident=resident,
                    dimm=dimm,
                    assignment=tuple(domains for domains, _ in runs),
                    copies=copies,
                    source=tuple(source for _, source in runs),
                )


def _places(instance: Instance) -> list[tuple[bool, ...]]:
    """Return every set of copies that an expert may have, as rows of flags: striped, then DIMMs."""
    most = instance.copies.max_per_expert if instance.copies is not None else 1
    flags = product((False, True), repeat=1 + instance.dimms)
    return [row for row in flags if 1 <= sum(row) <= most]


def _best_runs(
    instance: Instance,
    number: int,
    resident: Sequence[bool],
    dimm: Sequence[int | None],
    copies: Sequence[Sequence[int]],
) -> tuple[tuple[Domain | None, ...], tuple[int | None, ...]]:
    """Return domains and copies of least makespan among all that a layout allows."""
    able: list[list[tuple[Domain | None, int | None]]] = []
    for row, tokens in enumerate(instance.scenarios[number].tokens):
        ways: list[tuple[Domain | None, int | None]] = [("gpu", None), ("cpu", None)]
        ways += [("ndp", None)] if dimm[row] is not None else []
        ways += [(domain, other) for other in copies[row] for domain in DOMAINS]
        able.append(ways if tokens else [(None, None)])

    def makespan(runs: tuple[tuple[Domain | None, int | None], ...]) -> int:
        domains, source = zip(*runs, strict=True)
        return scenario_loads(instance, number, resident, dimm, domains, source).makespan_ns

    domains, source = zip(*min(product(*able), key=makespan), strict=True)
    return domains, source


def active_rows(instance: Instance) -> list[int]:
    """Return the experts that have tokens in some scenario; only those have a layout."""
    return [
        row for row in range(instance.experts) if any(s.tokens[row] for s in instance.scenarios)
    ]


def numbered_layouts(experts: int, channels: Sequence[int]) -> Iterator[tuple[int | None, ...]]:
    """Yield the ways to stripe each expert or put it on a DIMM, DIMMs numbered by first use.

    DIMMs of one channel are identical, and so are channels of as many DIMMs: any layout becomes one
    of these when they are renumbered. `channels` has the channel of each DIMM, the same for all
    where channels are no limit.
    """
    if experts == 0:
        yield ()
        return
    for before in numbered_layouts(experts - 1, channels):
        used = {place for place in before if place is not None}
        for place in (None, *sorted(used), *_first_unused(used, channels)):
            yield (*before, place)


def _first_unused(used: set[int], channels: Sequence[int]) -> list[int]:
    """Return the lowest unused DIMM of each kind, alike in all that is there already."""
    dimms_of = Counter(channels)
    in_use = {channels[dimm] for dimm in used}
    lowest: dict[tuple[str, int], int] = {}
    for dimm, channel in enumerate(channels):
        if dimm not in used:
            kind = ("channel", channel) if channel in in_use else ("size", dimms_of[channel])
            lowest.setdefault(kind, dimm)
    return list(lowest.values())


def _channels(instance: Instance) -> Sequence[int]:
    return (0,) * instance.dimms if instance.channels is None else instance.channels


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
