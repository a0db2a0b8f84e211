"""Experts with several copies: a bracket by local search and relaxation, closed where it can be.

Where no expert has two localized copies, the search over thresholds and striped reads of
`separable` is exact. Otherwise the Lagrangian bound holds, and what is left open goes to CP-SAT.
Channels and the PCIe link are relaxed in bounds; the local search sees them.

The local search is an iterated one over domains and copies at once: one expert moved, or two. The
table is that of `moeopt.problems.device_loads` with a column per copy; columns ``first[i]`` to
``first[i + 1]`` are those of expert i, of which one has a domain and the others are `IDLE`.
"""

from typing import Any

import numpy as np

from moeopt.core.clock import spend
from moeopt.core.compiled import compiled, inner
from moeopt.core.search import Search
from moeopt.problems.device_loads import (
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
    put,
)
from moeopt.problems.tri_domain.bounds import lower_bound, objective_grid
from moeopt.problems.tri_domain.check import objective
from moeopt.problems.tri_domain.instance import DOMAINS, Instance, Run, Solution, solution_of

from .separable import NODE, OF, Groups, chosen_within, labels_of, modes_within, multipliers

SMOOTHING = 0.05
"""Weight of the devices' mean square against the makespan."""

KICKS = 3
"""Experts that run elsewhere at random between two descents."""

NOBODY = -1


@compiled
def improve(
    experts: Ints, first: Ints, domain: Ints, dimms: int, rounds: int, target: int, seed: int
) -> Any:
    """Improve a schedule, by column, in place and return its makespan; at `target` it ends.

    Of `rounds` descents the first starts from the schedule, each later one near the best so far.
    """
    load = loads_of(experts, domain, dimms)
    now, size = domain.copy(), len(first) - 1
    best = makespan_of(load, dimms)
    state = seed % 2147483646 + 1
    for _ in range(rounds):
        _descend(experts, first, now, load, dimms)
        makespan = makespan_of(load, dimms)
        if makespan < best:
            best = makespan
            for k in range(len(domain)):
                domain[k] = now[k]
        if best <= target:
            break
        for k in range(len(domain)):
            now[k] = domain[k]
        for _ in range(KICKS):
            state = state * 48271 % 2147483647
            i = state % size
            state = state * 48271 % 2147483647
            to = state % (3 * (first[i + 1] - first[i]))
            column, to = first[i] + to // 3, to % 3
            if to != NDP or experts[PLACE, column] != STRIPED_READS:
                _run(experts, first, now, load, dimms, i, column, to)
        load = loads_of(experts, now, dimms)
    return best


@inner
def score(load: Ints, dimms: int) -> Any:
    """Return the makespan, smoothed by the devices' mean square: relief counts before it shows."""
    makespan = makespan_of(load, dimms)
    squares = float(load[0]) ** 2 + float(load[1]) ** 2
    for d in range(dimms):
        squares += float(load[STRIPED_READS] + load[OWN + d]) ** 2
    return makespan + SMOOTHING * squares / ((dimms + 2) * max(makespan, 1))


@inner
def _descend(experts: Ints, first: Ints, domain: Ints, load: Ints, dimms: int) -> None:
    """Move single experts while that helps, then pairs with one expert of the busiest device."""
    size = len(first) - 1
    value = score(load, dimms)
    gained = True
    while gained:
        gained = False
        for i in range(size):
            after = _best_run(experts, first, domain, load, dimms, i, value)
            gained, value = gained or after < value, after
        if gained:
            continue
        makespan = makespan_of(load, dimms)
        for i in range(size):
            if not _is_busy(experts, first, domain, load, dimms, i, makespan):
                continue
            before = _column(first, domain, i)
            was = domain[before]
            for k in range(first[i], first[i + 1]):
                for to in range(2 if experts[PLACE, k] == STRIPED_READS else 3):
                    if k == before and to == was:
                        continue
                    _run(experts, first, domain, load, dimms, i, k, to)
                    for j in range(size):
                        if j == i:
                            continue
                        after = _best_run(experts, first, domain, load, dimms, j, value)
                        if after < value:
                            gained, value = True, after
                            break
                    if gained:
                        break
                    _run(experts, first, domain, load, dimms, i, before, was)
                if gained:
                    break
            if gained:
                break


@inner
def _best_run(
    experts: Ints, first: Ints, domain: Ints, load: Ints, dimms: int, i: int, value: float
) -> float:
    """Let an expert run where the score is least, if that is below `value`; return the score."""
    column = _column(first, domain, i)
    was = domain[column]
    best, best_column, best_to = value - 1e-9 * value, NOBODY, IDLE
    put(experts, load, dimms, column, was, -1)
    for k in range(first[i], first[i + 1]):
        for to in range(2 if experts[PLACE, k] == STRIPED_READS else 3):
            put(experts, load, dimms, k, to, 1)
            after = score(load, dimms)
            put(experts, load, dimms, k, to, -1)
            if after < best:
                best, best_column, best_to = after, k, to
    if best_column == NOBODY:
        put(experts, load, dimms, column, was, 1)
        return value
    put(experts, load, dimms, best_column, best_to, 1)
    domain[column] = IDLE
    domain[best_column] = best_to
    return best


@inner
def _run(
    experts: Ints, first: Ints, domain: Ints, load: Ints, dimms: int, i: int, column: int, to: int
) -> None:
    """Let an expert run in a domain from a copy."""
    before = _column(first, domain, i)
    put(experts, load, dimms, before, domain[before], -1)
    put(experts, load, dimms, column, to, 1)
    domain[before] = IDLE
    domain[column] = to


@inner
def _column(first: Ints, domain: Ints, i: int) -> Any:
    """Return the column of the copy that an expert is run from."""
    for k in range(first[i], first[i + 1]):
        if domain[k] != IDLE:
            return k
    return first[i]


@inner
def _is_busy(
    experts: Ints, first: Ints, domain: Ints, load: Ints, dimms: int, i: int, makespan: int
) -> Any:
    """Tell whether an expert loads some device at the makespan, links and channels apart."""
    column = _column(first, domain, i)
    to, place = domain[column], experts[PLACE, column]
    if to != NDP and load[to] == makespan:
        return True
    if place == STRIPED_READS:
        return to != GPU and to != NDP
    return load[STRIPED_READS] + load[place] == makespan


DESCENTS = 24
"""Of the local search before anything is proven."""

MOST_READS = 2048
"""So many different limits on the striped reads are looked at."""

THRESHOLD = 2e-3
"""Units of work for one threshold with one limit of striped reads."""


def solve(instance: Instance, search: Search) -> None:
    """Find a schedule of domains and copies, and prove it as far as that goes quickly."""
    owner, columns = instance.copy_columns
    table = instance.table_of(columns)
    first = np.searchsorted(owner, np.arange(len(instance.experts) + 1))
    bound = lower_bound(instance)
    grid = objective_grid(instance)
    search.prove(-(-bound // grid) * grid)
    domain = _cheapest(table, first)
    improve(table, first, domain, instance.dimms, DESCENTS, bound, search.seed)
    _offer(instance, search, first, domain)
    groups = _groups(table, first)
    if groups is not None and not search.closed:
        _Separable(instance, search, table, first, groups).run()
    search.note = "OPTIMAL" if search.closed else "OPEN"


def quick_schedule(instance: Instance) -> Solution:
    """Return the schedule of one descent: to compare layouts, a hundred times faster than `solve`.

    Also for experts without further copies.
    """
    owner, columns = instance.copy_columns
    table = instance.table_of(columns)
    first = np.searchsorted(owner, np.arange(len(instance.experts) + 1))
    domain = _cheapest(table, first)
    improve(table, first, domain, instance.dimms, 1, 0, 0)
    search = Search()
    _offer(instance, search, first, domain)
    found: Solution = search.solution
    return found


def _cheapest(table: Ints, first: Ints) -> Ints:
    """Return a schedule: each expert on NDP where it has a copy for that, else on the CPU."""
    domain = np.full(first[-1], IDLE, dtype=np.int64)
    for begin, end in zip(first[:-1].tolist(), first[1:].tolist(), strict=True):
        local = [k for k in range(begin, end) if table[PLACE, k] != STRIPED_READS]
        domain[local[0] if local else begin] = NDP if local else CPU
    return domain


def _offer(instance: Instance, search: Search, first: Ints, domain: Ints) -> None:
    runs: list[Run | None] = []
    for begin, end in zip(first[:-1].tolist(), first[1:].tolist(), strict=True):
        at = next(k for k in range(begin, end) if domain[k] != IDLE)
        runs.append((DOMAINS[int(domain[at])], at - begin))
    solution: Solution = solution_of(instance, runs)
    search.offer(solution, objective(instance, solution))


def _groups(table: Ints, first: Ints) -> tuple[Ints, int] | None:
    """Return each expert's group and their number: by DIMM, or alone; None if not separable."""
    group: list[int] = []
    seen: dict[int, int] = {}
    for i, (begin, end) in enumerate(zip(first[:-1].tolist(), first[1:].tolist(), strict=True)):
        places = [int(p) for p in table[PLACE, begin:end] if p != STRIPED_READS]
        if len(places) > 1:
            return None
        group.append(seen.setdefault(places[0] if places else -1 - i, len(seen)))
    return np.array(group, dtype=np.int64), len(seen)


class _Separable:
    """Every limit on the striped reads in turn, at the threshold below the incumbent."""

    def __init__(
        self,
        instance: Instance,
        search: Search,
        table: Ints,
        first: Ints,
        groups: tuple[Ints, int],
    ) -> None:
        self.instance, self.search, self.table, self.first = instance, search, table, first
        self.group, self.number = groups
        self.grid = objective_grid(instance)

    def run(self) -> None:
        """Improve the incumbent until every limit is refuted, or something is not decided."""
        limits = self._limits()
        upper = self._upper()
        labels = labels_of(self.table, self.first, self.group, self.number, upper)
        decided = labels.complete and limits is not None
        for limit in limits if decided and limits is not None else ():
            found: bool | None = True
            while found and not self.search.closed:
                found = None if self.search.stopped else self._within(labels, limit)
            if found is None:
                return
        if decided and not self.search.closed:
            # No channel or link is in these refutations, all of which are below the incumbent.
            self.search.prove(self.threshold + self.grid)

    @property
    def threshold(self) -> int:
        """The largest makespan that would be an improvement."""
        return self._upper() - self.grid

    def _upper(self) -> int:
        upper: Any = self.search.objective  # of one part, and there since the first schedule
        return int(upper)

    def _limits(self) -> list[int] | None:
        """Return all sums that striped reads may have, in steps of their divisor."""
        striped = self.table[PLACE, : self.first[-1]] == STRIPED_READS
        reads = self.table[DRAM : DRAM + NDP, : self.first[-1]][:, striped]
        step = int(np.gcd.reduce(reads.ravel())) if reads.size else 0
        most = min(int(reads.max(axis=0).sum()) if reads.size else 0, self._upper())
        if step == 0:
            return [0]
        return None if most // step > MOST_READS else list(range(0, most + step, step))

    def _within(self, labels: Groups, reads: int) -> bool | None:
        """Tell whether a schedule below the incumbent reads no more than so long; None: unknown."""
        threshold = self.threshold
        base = self.instance.base_ns
        if threshold < max(reads, base):
            return False
        limit = np.array([threshold - base, threshold, reads])
        modes, start, any_left = modes_within(labels, threshold - reads, limit)
        if not any_left:
            return False
        weight, value = multipliers(modes, start, limit)
        if value > 1 + 1e-9:
            return False
        chosen, answer = chosen_within(modes, start, limit, weight)
        spend(THRESHOLD)
        if answer <= 0:
            return None if answer < 0 else False
        domain = np.full(self.first[-1], IDLE, dtype=np.int64)
        for mode in chosen.tolist():
            node = labels.table[NODE, modes[OF, mode]]
            while node >= 0:
                domain[labels.nodes[1, node] // 3] = labels.nodes[1, node] % 3
                node = labels.nodes[0, node]
        before = self._upper()
        if makespan_of(loads_of(self.table, domain, self.instance.dimms), self.instance.dimms) > (
            threshold
        ):
            improve(self.table, self.first, domain, self.instance.dimms, 4, 0, self.search.seed)
        _offer(self.instance, self.search, self.first, domain)
        return True if self._upper() < before else None
