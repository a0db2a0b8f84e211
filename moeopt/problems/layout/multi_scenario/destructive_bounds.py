"""Destructive bounds: raising the wait-and-see bounds of a few scenarios at a time.

Take a value, prove that no solution is as good, take a larger one (Klein and Scholl 1999). The
nearer the value to the scenarios' least makespans, the less capacity is left on the DIMMs and the
sooner the feasibility subproblem is infeasible; each step up costs more than the one before.

A scenario by itself has a least makespan for every number of striped reads, which the search for
one scenario proves in milliseconds. Few numbers near the best leave all scenarios of a group within
the value, and with the others at their least none of them has much slack left.

The aggregated model takes the DIMMs together. Once it is known how many striped reads a scenario
has at least, and how long it lasts at most, it is also known what capacity a DIMM has for work of
its own, and large pieces cannot share a DIMM as their average would have it. Dual feasible
functions say so in linear rows: if f gives at most 1 to all that fits into a DIMM, then all pieces
on the DIMMs get at most as much as there are DIMMs.

Why INFEASIBLE is a proof. Makespans are raised by `MARGIN`, a thousand times what HiGHS's
tolerances are worth, and so are the right-hand sides of the new rows: a solution that exists
satisfies every row with a cost in it by a margin. All other rows have entries of -1, 0
and 1 and integer right-hand sides, which a solution satisfies exactly. FEASIBLE speaks of the
relaxation only. `formulations/layout/spec.md`, section "Several scenarios", has the lemma.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import combinations, pairwise
from math import gcd

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, vstack

from moeopt.core.highs import Program, minimize
from moeopt.core.search import Search
from moeopt.problems.layout.bounds import makespan_grid
from moeopt.problems.layout.instance import Instance
from moeopt.problems.layout.paths import Path
from moeopt.problems.layout.single_scenario import least_by_striped_reads

from .aggregated import Model, aggregated

GROUP = 4
"""Scenarios taken together at most: their programs grow, and so does the slack of each."""

MARGIN = 0.005
"""Added to makespans in the model's units, of which the largest cost has 1000."""

PROFILES_SHARE = 0.4
"""Part of a group's time that the scenarios by themselves may take; they mostly need little."""

FIRST_RISE = 64
"""By such a part a group's bound is to rise at first: makespans far above the least take long."""

SHORT_S = 1.0
"""Seconds of a first try with all scenarios of a group, and of every two: most take a third."""

LEVELS = 4
"""In so many steps."""

PARTS = (1, 2, 3, 4)
"""The functions used: the k-th sees pieces that need more than 1 / (k + 1) of a DIMM's capacity."""

Reads = tuple[int, int]
"""At least and at most so many striped reads."""

Node = tuple[tuple[int, ...], ...]
"""For each scenario, numbers of striped reads that it may have, rising."""

Values = NDArray[np.float64]


def groups_of(scenarios: int) -> list[list[int]]:
    """Return the scenarios in groups of neighbours, of nearly equal size."""
    count = -(-scenarios // GROUP)
    ends = [n * scenarios // count for n in range(count + 1)]
    return [list(range(a, b)) for a, b in pairwise(ends)]


def grouped_bounds(
    instance: Instance, search: Search, alone: list[int], until_s: float
) -> list[int]:
    """Return a proven bound on the weighted makespans of each group of scenarios.

    Parameters
    ----------
    instance
        The problem.
    search
        Its incumbent says which values are worth asking for; its clock runs.
    alone
        Proven bounds on each scenario's weighted makespan.
    until_s
        Stop when so many seconds are left.
    """
    groups = groups_of(len(alone))
    gap = search.objective - sum(alone) if isinstance(search.objective, int) else 0
    found = []
    for number, of in enumerate(groups):
        end = search.remaining_s - (search.remaining_s - until_s) / (len(groups) - number)
        scenarios = {s: alone[s] for s in of}
        needed = -(-gap // len(groups)) - 1  # once each group's bound rises beyond, all is proven
        bound = least = sum(scenarios.values())
        rise = min(needed, least // FIRST_RISE)
        while rise >= 0:
            group = Group.of(instance, search, scenarios, rise, end)
            bound = group.raised(least, rise, search, end)
            if bound <= least + rise or rise == needed:
                break
            rise = min(needed, 2 * rise + group.program.grid)
        found.append(bound)
    return found


def shares(sizes: NDArray[np.int64], capacity: int, parts: int) -> Values:
    """Return `parts` times the dual feasible function of pieces in a DIMM of positive `capacity`.

    ``u(x) = x`` if ``(k + 1) x`` is an integer, else ``floor((k + 1) x) / k``, for x the share of
    the capacity: pieces that fit together get at most 1 (Fekete and Schepers 2001).
    """
    times = (parts + 1) * sizes
    return np.where(times % capacity == 0, parts * sizes / capacity, times // capacity)


@dataclass(frozen=True)
class GroupProgram:
    """The program of a group of scenarios; what a subproblem changes is changed in a copy.

    Attributes
    ----------
    instance, model, program
        The aggregated model with two rows more: `cutoff` holds the weighted sum of the makespans,
        and `reads` has, for each scenario, the row of its striped reads.
    weight
        Of each scenario in the group.
    grid
        The weighted makespans come to a multiple of this.
    """

    instance: Instance
    model: Model
    program: Program
    cutoff: int
    reads: list[int]
    weight: list[int]
    grid: int

    @classmethod
    def of(cls, instance: Instance, scenarios: list[int]) -> "GroupProgram":
        """Return the program of some scenarios."""
        model = aggregated(instance, scenarios)
        weight = [instance.scenarios[s].weight for s in scenarios]
        reads = []
        for columns in model.scenarios:
            reads.append(len(model.row_upper))
            model.at_most([(column, 1.0) for column in columns.striped.tolist()], np.inf)
        cutoff = len(model.row_upper)
        model.at_most([(c.makespan, w) for c, w in zip(model.scenarios, weight, strict=True)], 0.0)
        integer = np.ones(len(model.cost), dtype=np.int64)
        for columns in model.scenarios:
            integer[[columns.makespan, columns.own]] = 0
        program = replace(model.program(integer=True), integer=integer)
        grids = (w * makespan_grid(instance, s) for s, w in zip(scenarios, weight, strict=True))
        return cls(instance, model, program, cutoff, reads, weight, gcd(*grids))

    def bound(
        self,
        reads: list[Reads],
        least_ns: list[int],
        total: int,
        whole: bool,
        limit_s: float,
    ) -> int:
        """Return a bound on the weighted makespans with so many striped reads, by a relaxation.

        Above `total` if the relaxation has no solution within it.

        Parameters
        ----------
        reads
            For each scenario.
        least_ns
            A makespan of each scenario that none with so many reads is below.
        total
            The weighted makespans sum to at most this.
        whole
            Whether experts and their paths are not divided; otherwise the linear relaxation.
        limit_s
            Seconds for HiGHS.
        """
        least = sum(w * t for w, t in zip(self.weight, least_ns, strict=True))
        slack = total - least
        if slack < 0:
            return least
        unit, program = self.model.unit_ns, self.program
        lower, upper = program.lower.copy(), program.upper.copy()
        row_lower, row_upper = program.row_lower.copy(), program.row_upper.copy()
        row_upper[self.cutoff] = total / unit + MARGIN * sum(self.weight)
        packed: list[tuple[NDArray[np.int64], Values, float]] = []
        for number, (columns, (fewest, most)) in enumerate(
            zip(self.model.scenarios, reads, strict=True)
        ):
            row_lower[self.reads[number]], row_upper[self.reads[number]] = fewest, most
            latest = least_ns[number] + slack // self.weight[number]
            capacity = latest - fewest * int(self.instance.path_times.read[Path.GPU_STRIPED])
            if capacity < 0:
                return total + 1
            lower[columns.makespan] = least_ns[number] / unit
            upper[columns.makespan] = latest / unit + MARGIN
            upper[columns.own] = capacity / unit + MARGIN
            upper[columns.items[columns.sizes_ns > capacity]] = 0.0
            fits = columns.sizes_ns <= capacity
            for parts in PARTS if capacity else ():
                share = shares(columns.sizes_ns[fits], capacity, parts)
                packed.append((columns.items[fits], share, parts * self.instance.dimms))
        matrix, limits = _rows(packed, len(lower))
        asked = Program(
            cost=program.cost * int(whole),
            lower=lower,
            upper=upper,
            integer=program.integer * int(whole),
            rows=csr_array(vstack([program.rows, matrix])),
            row_lower=np.concatenate([row_lower, np.full(len(limits), -np.inf)]),
            row_upper=np.concatenate([row_upper, limits + MARGIN]),
        )
        found = minimize(asked, limit_s)
        if found.status == "infeasible":
            return total + 1
        unit *= float(self.instance.path_times.weight.max())
        proven = (found.safe_bound(unit, self.grid) or 0) if whole else 0
        return min(max(least, proven), total)


def _rows(
    packed: list[tuple[NDArray[np.int64], Values, float]], width: int
) -> tuple[csr_array, Values]:
    """Return rows from columns, values and upper limits."""
    columns = np.concatenate([np.zeros(0, dtype=np.int64), *(c for c, _, _ in packed)])
    values = np.concatenate([np.zeros(0), *(v for _, v, _ in packed)])
    row = np.repeat(np.arange(len(packed)), [len(c) for c, _, _ in packed])
    matrix = csr_array(coo_array((values, (row, columns)), shape=(len(packed), width)))
    matrix.eliminate_zeros()
    return matrix, np.array([limit for _, _, limit in packed], dtype=np.float64)


@dataclass
class Group:
    """Some scenarios together.

    Attributes
    ----------
    program
        Theirs.
    least_ns
        For each, the least makespan by the number of striped reads; numbers with which the
        incumbent could not be improved are left out.
    pairs
        The programs of every two of them, where there are more.
    known
        By two scenarios and their numbers: up to which slack there is no solution, and from which
        on that was not found out.
    """

    program: GroupProgram
    least_ns: list[dict[int, int]]
    pairs: dict[tuple[int, int], GroupProgram]
    known: dict[tuple[int, int, int, int], tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, instance: Instance, search: Search, alone: dict[int, int], gap: int, until_s: float
    ) -> "Group":
        """Return a group.

        Parameters
        ----------
        alone
            A proven bound on each scenario's weighted makespan.
        gap
            By so much weighted makespans may exceed these bounds where the incumbent is improved.
        until_s
            Stop when so many seconds are left; what is not done by then has lower bounds.
        """
        program, least_ns = GroupProgram.of(instance, list(alone)), list[dict[int, int]]()
        end = search.remaining_s - PROFILES_SHARE * (search.remaining_s - until_s)
        for number, (s, least) in enumerate(alone.items()):
            left = (search.remaining_s - end) / (len(alone) - number)

            def remaining(until: float = search.remaining_s - left) -> float:
                return max(0.0, search.remaining_s - until)

            upper = (least + gap) // program.weight[number] + 1
            found = least_by_striped_reads(instance, s, remaining, upper, search.seed)
            own = -(-least // program.weight[number])
            least_ns.append({reads: max(of, own) for reads, of in found.items()})
        scenarios = list(alone)
        pairs = {
            (a, b): GroupProgram.of(instance, [scenarios[a], scenarios[b]])
            for a, b in combinations(range(len(scenarios)), 2)
            if len(scenarios) > 2
        }
        return cls(program, least_ns, pairs)

    def least(self, node: Node) -> list[int]:
        """Return the least makespans with numbers of striped reads among those given."""
        rows = zip(self.least_ns, node, strict=True)
        return [min(of[reads] for reads in among) for of, among in rows]

    def sum(self, node: Node) -> int:
        """Return the weighted sum of the least makespans."""
        return sum(w * t for w, t in zip(self.program.weight, self.least(node), strict=True))

    def raised(self, bound: int, rise: int, search: Search, until_s: float) -> int:
        """Return a bound on the weighted makespans: from `bound` on, by at most `rise` and a step.

        Best first over numbers of striped reads. A node is asked for solutions a quarter of the
        rise above, and later for more: the less slack, the sooner there are none.
        """
        grid, top = self.program.grid, bound + rise
        root = tuple(tuple(of) for of in self.least_ns)
        heap = [(self.sum(root), root)] if all(root) else []
        solved = set[Node]()
        while heap and heap[0][0] <= top and search.remaining_s > until_s and not search.closed:
            if heap[0][1] in solved:
                break
            least, node = heappop(heap)
            single = all(len(among) == 1 for among in node)
            level = max(-(-rise // LEVELS), 1)
            total = min(top, bound + ((least - bound) // level + 1) * level)
            found = self._bound(node, total, single, lambda: search.remaining_s - until_s)
            if found > total or single:
                heappush(heap, (max(least, found), node))
                if found <= total:
                    solved.add(node)
            else:
                for child in halves(node):
                    heappush(heap, (max(least, self.sum(child)), child))
        proven = min(heap[0][0], top + 1) if heap else top + 1
        return -(-proven // grid) * grid

    def _bound(self, node: Node, total: int, single: bool, remaining_s: Callable[[], float]) -> int:
        """Return a bound on a node's weighted makespans, above `total` if that is refuted.

        Single numbers: all scenarios for a short time, then every two with the others at their
        least, first those furthest from their own best, and then all for what time is left.
        """
        reads, least = [(among[0], among[-1]) for among in node], self.least(node)
        if single and self.pairs:
            short_s = min(SHORT_S, remaining_s())
            if self.program.bound(reads, least, total, True, short_s) > total:
                return total + 1
            slack = total - self.sum(node)
            above = [
                of - min(known.values()) for of, known in zip(least, self.least_ns, strict=True)
            ]
            pairs = sorted(self.pairs, key=lambda pair: -above[pair[0]] - above[pair[1]])
            if any(self._refuted(a, b, node, slack, remaining_s()) for a, b in pairs):
                return total + 1
        return self.program.bound(reads, least, total, single, remaining_s())

    def _refuted(self, a: int, b: int, node: Node, slack: int, limit_s: float) -> bool:
        """Tell whether two scenarios exceed the sum of their least makespans by more than slack."""
        key = (a, b, node[a][0], node[b][0])
        refuted, open_from = self.known.get(key, (-1, slack + 1))
        if refuted < slack < open_from and limit_s > 0:
            pair, least = self.pairs[a, b], [self.least(node)[s] for s in (a, b)]
            total = sum(w * t for w, t in zip(pair.weight, least, strict=True)) + slack
            reads = [(node[s][0], node[s][0]) for s in (a, b)]
            if pair.bound(reads, least, total, True, min(SHORT_S, limit_s)) > total:
                refuted = slack
            else:
                open_from = slack
            self.known[key] = refuted, open_from
        return slack <= refuted


def halves(node: Node) -> list[Node]:
    """Return a node's children: most numbers divided in the middle.

    The upper half leaves its DIMMs less capacity.
    """
    at = max(range(len(node)), key=lambda s: len(node[s]))
    middle = len(node[at]) // 2
    parts = (node[at][:middle], node[at][middle:])
    return [(*node[:at], part, *node[at + 1 :]) for part in parts]
