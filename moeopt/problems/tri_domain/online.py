"""One window's schedule from plain tables: what `moeopt.tri_domain.Scheduler` asks each time."""

from collections.abc import Callable
from typing import Any

import numpy as np

from moeopt.core.compiled import compile_all, compiled
from moeopt.core.device_loads import (
    CPU,
    DRAM,
    GPU,
    IDLE,
    NDP,
    OWN,
    PLACE,
    STRIPED_READS,
    Ints,
    loads_of,
    makespan_of,
    refine,
)

from .threshold import FIRST_WORK, MOST_WORK, NO_CUTOFF, Bracket
from .threshold.incumbent import simple_bound

HIT, MISS, ON_CPU, ON_NDP = 0, 1, 3, 5
"""Rows of a table of costs, in the order of `moeopt.sim.machines.cost.Path`.

Of `MISS` and `ON_CPU` there are two, of striped and then of localized experts.
"""


@compiled
def price(tokens: Ints, path_ns: Ints, read_ns: Ints, dimm: Ints, resident: Any, out: Ints) -> int:
    """Fill in the table of the experts that have tokens; return how many, -1 if some has too many.

    Parameters
    ----------
    tokens
        Of each expert, shape (experts,).
    path_ns, read_ns
        Costs by tokens, shape (6, tokens), rows as `HIT` and so on; how long a host's read of a
        striped and of a localized expert keeps a DIMM busy, shape (2,).
    dimm, resident
        The layout: shape (experts,); `dimm` is negative where an expert is striped.
    out
        Room for 7 times as many numbers as there are experts: the table of
        `moeopt.core.device_loads`, row after row.
    """
    active = 0
    for i in range(len(tokens)):
        if tokens[i] < 0 or tokens[i] >= path_ns.shape[1]:
            return -1
        active += tokens[i] > 0
    at = 0
    for i in range(len(tokens)):
        count = tokens[i]
        if count == 0:
            continue
        localized = 0 if dimm[i] < 0 else 1
        out[GPU * active + at] = path_ns[HIT if resident[i] else MISS + localized, count]
        out[CPU * active + at] = path_ns[ON_CPU + localized, count]
        out[NDP * active + at] = 0
        read = read_ns[localized]
        out[(DRAM + GPU) * active + at] = 0 if resident[i] else read
        out[(DRAM + CPU) * active + at] = read
        out[(DRAM + NDP) * active + at] = path_ns[ON_NDP, count] if localized else 0
        out[PLACE * active + at] = OWN + dimm[i] if localized else STRIPED_READS
        at += 1
    return active


WHOLE_WAY = (
    (7, 3, 4, 6),
    (5, 1, 1, 7),
    (0, 0, 0, 0),
    (4, 0, 3, 0),
    (4, 5, 3, 5),
    (3, 0, 4, 0),
    (4, 2, 3, 2),
)
"""Four experts on two DIMMs, as a table: the search for their schedule goes all its ways.

Thresholds are refuted, left open, decided by states, and by binding a striped resident to a host.
"""


def prepare(method: str) -> None:
    """Make every call that a schedule may need, so that no later one compiles or loads code."""
    compile_all()
    experts = np.array(WHOLE_WAY, np.int64)
    tokens = np.ones(experts.shape[1], np.int64)
    scheduled(experts, 2, method, tokens, np.empty_like(tokens))


def scheduled(experts: Ints, dimms: int, method: str, tokens: Ints, out: Ints) -> tuple[int, int]:
    """Schedule the experts of a table; return the makespan and a proven lower bound, in ns.

    Parameters
    ----------
    experts, dimms
        The table of `moeopt.core.device_loads`, and the number of DIMMs.
    method
        One of `METHODS`.
    tokens, out
        Tokens of all experts; the domain of each is written to `out`, `IDLE` without tokens.
    """
    if not experts.shape[1]:
        out[:] = IDLE
        return 0, 0
    domain, makespan, bound = METHODS[method](experts, dimms)
    spread(tokens, domain, out)
    return int(makespan), int(bound)


@compiled
def spread(tokens: Ints, domain: Ints, out: Ints) -> None:
    """Write the domains of the experts with tokens to the places of all experts."""
    at = 0
    for i in range(len(tokens)):
        out[i] = IDLE
        if tokens[i] > 0:
            out[i] = domain[at]
            at += 1


def _threshold(experts: Ints, dimms: int) -> tuple[Ints, int, int]:
    """Search as `threshold.solve` does, with the same effort."""
    bracket, work = Bracket(experts, experts.shape[1], dimms), FIRST_WORK
    bracket.narrow(NO_CUTOFF, work)
    while bracket.is_open and work < MOST_WORK:
        work *= 4
        bracket.narrow(NO_CUTOFF, work)
    return bracket.domain, bracket.upper, bracket.lower


def _greedy(experts: Ints, dimms: int) -> tuple[Ints, int, int]:
    domain = cheapest(experts)
    makespan = makespan_of(loads_of(experts, domain, dimms), dimms)
    return domain, makespan, simple_bound(experts, dimms)[0]


def _trimoe(experts: Ints, dimms: int) -> tuple[Ints, int, int]:
    domain = cheapest(experts)
    makespan = refine(experts, domain, dimms, False, True)
    return domain, makespan, simple_bound(experts, dimms)[0]


@compiled
def cheapest(experts: Ints) -> Ints:
    """Return each expert's cheapest path; ties as `heuristics.greedy` has them: CPU, GPU, NDP."""
    domain = np.empty(experts.shape[1], np.int64)
    for i in range(experts.shape[1]):
        domain[i] = CPU
        if experts[GPU, i] < experts[CPU, i]:
            domain[i] = GPU
        localized = experts[PLACE, i] != STRIPED_READS
        if localized and experts[DRAM + NDP, i] < experts[domain[i], i]:
            domain[i] = NDP
    return domain


METHODS: dict[str, Callable[[Ints, int], tuple[Ints, int, int]]] = {
    "threshold": _threshold,
    "trimoe": _trimoe,
    "greedy": _greedy,
}
"""Method -> the schedule of a table: the domain of each expert, the makespan, a lower bound."""
