"""Destructive bounds: raising the wait-and-see bounds of a few scenarios at a time.

Take a value, prove that no solution is as good, take a larger one (Klein and Scholl 1999). The
nearer the value to the scenarios' least makespans, the less capacity is left on the DIMMs and the
sooner the feasibility subproblem is infeasible; each step up costs more than the one before.

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
from dataclasses import dataclass, replace
from itertools import pairwise
from math import gcd

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, vstack

from moeopt.numeric.feasibility import Feasibility
from moeopt.numeric.highs import Program, minimize
from moeopt.problems.layout.bounds import makespan_grid
from moeopt.problems.layout.instance import Instance
from moeopt.problems.layout.paths import Path
from moeopt.problems.search import Search

from .aggregated import Model, aggregated

GROUP = 4
"""Scenarios taken together at most: their programs grow, and so does the slack of each."""

STEPS = 1000
"""The first step up is such a part of the bound."""

QUICK = 0.05
"""Part of the time left in which a step must be done for the next one to be twice as long."""

PATIENCE = 0.5
"""Part of the time left that one step may take: half as long a step may still succeed."""

MARGIN = 0.005
"""Added to makespans in the model's units, of which the largest cost has 1000."""

PARTS = (1, 2, 3, 4)
"""The functions used: the k-th sees pieces that need more than 1 / (k + 1) of a DIMM's capacity."""

ANY_SOLUTION = 10.0
"""Relative gap at which the first solution found ends the search."""

Reads = tuple[int, int]
"""At least and at most so many striped reads."""

Counts = list[int]
"""Numbers of striped reads that a scenario may have, rising."""

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
    found = []
    for number, group in enumerate(groups):
        share = (search.remaining_s - until_s) / (len(groups) - number)
        found.append(_raised(instance, search, alone, group, search.remaining_s - share))
    return found


def _raised(
    instance: Instance,
    search: Search,
    alone: list[int],
    scenarios: list[int],
    until_s: float,
) -> int:
    """Return the bound of one group: its scenarios' bounds, and all slack proven infeasible."""
    least, total = sum(alone[s] for s in scenarios), sum(alone)
    weight = [instance.scenarios[s].weight for s in scenarios]
    least_ns = [alone[s] // w for s, w in zip(scenarios, weight, strict=True)]
    grid = gcd(*(w * makespan_grid(instance, s) for s, w in zip(scenarios, weight, strict=True)))
    step, bound = max(grid, least // STEPS), least
    group = Group.of(instance, scenarios, least_ns)
    while bound - least < _gap(search, total) and search.remaining_s > until_s:
        slack = min(bound + step, least + _gap(search, total) - 1) // grid * grid - least
        begin = search.remaining_s
        enough = begin - PATIENCE * (begin - until_s)

        def patience(enough: float = enough) -> float:
            return max(0.0, search.remaining_s - enough)

        if decide(group, slack, patience) == Feasibility.INFEASIBLE:
            bound = -(-(least + slack + 1) // grid) * grid
            if begin - search.remaining_s < QUICK * (begin - until_s):
                step *= 2
        elif step <= grid:
            break
        else:
            step //= 2
    return bound


def _gap(search: Search, bound: int) -> int:
    """Return by how much the incumbent exceeds a bound; 0 without an incumbent."""
    return search.objective - bound if isinstance(search.objective, int) else 0


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
    weight, least_ns
        Of each scenario in the group: its weight, and a makespan that is known to be the least.
    """

    instance: Instance
    model: Model
    program: Program
    cutoff: int
    reads: list[int]
    weight: list[int]
    least_ns: list[int]

    @classmethod
    def of(cls, instance: Instance, scenarios: list[int], least_ns: list[int]) -> "GroupProgram":
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
        return cls(instance, model, program, cutoff, reads, weight, least_ns)

    def most_ns(self, number: int, slack: int) -> int:
        """Return the makespan of a scenario if all of the `slack` in the objective is its own."""
        return self.least_ns[number] + slack // self.weight[number]

    def decide(self, reads: list[Reads], slack: int, whole: bool, limit_s: float) -> Feasibility:
        """Decide whether a relaxation with so many striped reads exceeds the least sum by `slack`.

        Parameters
        ----------
        reads
            For each scenario.
        slack
            The weighted makespans sum to at most their least sum and this.
        whole
            Whether experts and their paths are not divided; otherwise the linear relaxation.
        limit_s
            Seconds for HiGHS.
        """
        unit, program = self.model.unit_ns, self.program
        lower, upper = program.lower.copy(), program.upper.copy()
        row_lower, row_upper = program.row_lower.copy(), program.row_upper.copy()
        total = slack + sum(w * t for w, t in zip(self.weight, self.least_ns, strict=True))
        row_upper[self.cutoff] = total / unit + MARGIN * sum(self.weight)
        packed: list[tuple[NDArray[np.int64], Values, float]] = []
        for number, (columns, (fewest, most)) in enumerate(
            zip(self.model.scenarios, reads, strict=True)
        ):
            row_lower[self.reads[number]], row_upper[self.reads[number]] = fewest, most
            latest = self.most_ns(number, slack)
            capacity = latest - fewest * int(self.instance.path_times.read[Path.GPU_STRIPED])
            if capacity < 0:
                return Feasibility.INFEASIBLE
            lower[columns.makespan] = self.least_ns[number] / unit
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
        status = minimize(asked, limit_s, relative_gap=ANY_SOLUTION).status
        if status == "infeasible":
            return Feasibility.INFEASIBLE
        return Feasibility.FEASIBLE if status == "optimal" else Feasibility.UNKNOWN


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
    """Some scenarios, together and each by itself."""

    together: GroupProgram
    alone: list[GroupProgram]

    @classmethod
    def of(cls, instance: Instance, scenarios: list[int], least_ns: list[int]) -> "Group":
        """Return a group; `least_ns` are proven bounds on the makespans."""
        alone = [
            GroupProgram.of(instance, [s], [least])
            for s, least in zip(scenarios, least_ns, strict=True)
        ]
        return cls(GroupProgram.of(instance, scenarios, least_ns), alone)


def decide(group: Group, slack: int, remaining_s: Callable[[], float]) -> Feasibility:
    """Decide whether the group has a solution whose objective exceeds the least sum by `slack`.

    Every solution has some number of striped reads in each scenario: INFEASIBLE says that all of
    them are, first for each scenario by itself, then together. FEASIBLE is not proven: some numbers
    are left for which the program with undivided paths has a solution.
    """
    counts = []
    for program in group.alone:
        top = len(program.model.scenarios[0].striped) // 2
        first = [list(range(top + 1))]
        survivors = _survivors(program, first, slack, remaining_s)
        if survivors is None:
            return Feasibility.UNKNOWN
        counts.append(sorted(only[0] for (only,) in survivors))
    survivors = _survivors(group.together, counts, slack, remaining_s)
    if survivors is None:
        return Feasibility.UNKNOWN
    for node in survivors:
        reads = [(only[0], only[0]) for only in node]
        answer = group.together.decide(reads, slack, True, remaining_s())
        if answer != Feasibility.INFEASIBLE:
            return answer
    return Feasibility.INFEASIBLE


def _survivors(
    program: GroupProgram,
    counts: list[Counts],
    slack: int,
    remaining_s: Callable[[], float],
) -> list[list[Counts]] | None:
    """Return the single counts for which the linear relaxation is feasible; None if stopped.

    The scenario with most counts left is divided in the middle: the upper half leaves its DIMMs
    less capacity.
    """
    nodes, found = [counts], []
    while nodes:
        node = nodes.pop()
        if not all(node):
            continue
        if remaining_s() <= 0:
            return None
        reads = [(c[0], c[-1]) for c in node]
        if program.decide(reads, slack, False, remaining_s()) == Feasibility.INFEASIBLE:
            continue
        longest = max(range(len(node)), key=lambda s: len(node[s]))
        middle = len(node[longest]) // 2
        if not middle:
            found.append(node)
            continue
        for half in (node[longest][:middle], node[longest][middle:]):
            nodes.append([*node[:longest], half, *node[longest + 1 :]])
    return found
