"""Experts with further copies: for a limit on the striped reads the DIMMs are separate.

Where each expert has at most one localized copy, and neither channels nor the PCIe link are
modelled, a schedule of makespan C whose striped reads take r in all leaves each DIMM C - r for its
own work: NDP runs and reads of what lies on it alone. A *label* is one choice for all experts that
have a copy on a DIMM: GPU time, CPU time, striped reads, own work. So a schedule of makespan C is
one label of each group with GPU and CPU times within C, reads within r, and own work within C - r
(TD-C3 to TD-C5); of labels that another one is nowhere above none is missed.

1. For reads from r1 to r2 the relaxation has reads within r2 and own work within C - r1: what
   refutes it refutes all of them. Lagrangian multipliers of the three sums, those of the linear
   relaxation rounded to integers, refute most intervals; the others are halved.
2. A single r is decided by `moeopt.algorithms.labels`. Striped reads are multiples of their common
   divisor, so that there are few.
3. Every makespan is a multiple of the costs' common divisor, and a refutation of C is one of all
   below: bisection between the combinatorial bound and the best schedule ends with both equal.

CP-SAT has the rest: experts with copies on several DIMMs, channels, the PCIe link, and what has too
many labels or sums of reads.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from moeopt.algorithms.labels import LabelSetting, undominated, whole_prices
from moeopt.core.clock import spend
from moeopt.core.search import Feasibility, Search
from moeopt.problems.three_domains import ALL, ModeTable
from moeopt.problems.tri_domain.bounds import lower_bound, objective_grid
from moeopt.problems.tri_domain.check import objective
from moeopt.problems.tri_domain.heuristics import quick_schedule
from moeopt.problems.tri_domain.instance import Instance, Solution, solution_of

Ints = NDArray[np.int64]

GPU, CPU, READS, OWN = range(4)
"""Columns of what labels use."""

MOST_LABELS = 4_096
"""Labels that a group may have, and choices of groups that are open at once, times eight."""

MOST_GROWN = 2**17
"""Labels of a group before the dominated ones are dropped."""

GROWN_PER_UNIT = 1_000_000
"""Labels made in a unit of work."""

LINEAR = 500_000
"""Entries of a linear relaxation that is solved in a unit of work."""

MOST_INTERVALS = 300
"""Intervals of striped reads that are looked at for a makespan: lengths that share no divisor have
millions of sums."""

INTERVAL = 2e-4
"""Units of work that an interval takes besides its linear relaxation."""

EFFORT = 4.0
"""CP-SAT's deterministic time where the search has no limit: layouts are executed by thousands."""


@dataclass(frozen=True)
class DimmLabels:
    """The labels of the experts with a copy on one DIMM, or of one that has none.

    Attributes
    ----------
    experts
        Their numbers.
    uses, modes
        Shape (labels, 4), in steps, and (labels, experts): what each label uses, and its modes.
    """

    experts: list[int]
    uses: Ints
    modes: Ints


def solve(instance: Instance, search: Search) -> None:
    """Begin with combinatorial bounds and a descent; labels or CP-SAT close what they leave."""
    grid = objective_grid(instance)
    search.prove(-(-lower_bound(instance) // grid) * grid)
    found = quick_schedule(instance)
    search.offer(found, objective(instance, found))
    if not search.closed and not search.stopped:
        groups = groups_of(instance.modes, grid, search.objective // grid)  # type: ignore[operator]
        if groups is not None:
            _Bisection(instance, search, grid, groups).close()
        if not search.closed and not search.stopped:
            _by_cpsat(instance, search, grid)
    search.note = "OPTIMAL" if search.closed else "OPEN"


def groups_of(table: ModeTable, grid: int, upper: int) -> list[DimmLabels] | None:
    """Return the labels of all groups that may be in a schedule below `upper` steps.

    None if the DIMMs are not separate, or there are too many labels.
    """
    if {group.name for group in table.groups if group.members} - {"gpu", "cpu", "dimm"}:
        return None
    uses, place = _uses_and_places(table)
    if uses is None:
        return None
    members: dict[tuple[bool, int], list[int]] = {}
    for expert in range(table.experts):
        at = place[expert]
        members.setdefault((at >= 0, at if at >= 0 else expert), []).append(expert)
    groups = []
    for experts in members.values():
        labels, modes = np.zeros((1, 4), np.int64), np.zeros((1, 0), np.int64)
        for expert in experts:
            of = np.flatnonzero(table.owner == expert)
            if len(labels) * len(of) > MOST_GROWN:
                return None
            spend(len(labels) * len(of) / GROWN_PER_UNIT)
            labels = (labels[:, None] + uses[of] // grid).reshape(-1, 4)
            modes = np.hstack([np.repeat(modes, len(of), axis=0), np.tile(of, len(modes))[:, None]])
            fits = labels[:, :READS].max(axis=1) < upper
            fits &= labels[:, READS] + labels[:, OWN] < upper
            labels, modes = labels[fits], modes[fits]
            kept = undominated(labels)
            labels, modes = labels[kept], modes[kept]
            if len(labels) > MOST_LABELS:
                return None
        groups.append(DimmLabels(experts, labels, modes))
    return groups


def _uses_and_places(table: ModeTable) -> tuple[Ints | None, list[int]]:
    """Return what each mode uses, in ns, and the one DIMM of each expert, -1 for none.

    No uses where an expert's modes are on several DIMMs.
    """
    names = [group.name for group in table.groups]
    of = np.repeat(np.arange(len(table.owner)), np.diff(table.start))
    uses, place = np.zeros((len(table.owner), 4), np.int64), [-1] * table.experts
    for at, mode in enumerate(of.tolist()):
        name, member = names[table.resource[at]], int(table.member[at])
        if name == "dimm":
            column, expert = READS if member == ALL else OWN, int(table.owner[mode])
            if member != ALL and place[expert] not in (-1, member):
                return None, place
            place[expert] = place[expert] if member == ALL else member
        else:
            column = GPU if name == "gpu" else CPU
        uses[mode, column] += table.ns[at]
    return uses, place


class _Bisection:
    """The least makespan that is not refuted, in steps, and the best schedule."""

    def __init__(
        self, instance: Instance, search: Search, grid: int, groups: list[DimmLabels]
    ) -> None:
        self.instance, self.search, self.grid, self.groups = instance, search, grid, groups
        bases = {group.name: group.base // grid for group in instance.modes.groups}  # on the grid
        self._base = np.array([bases["gpu"].max(), bases["cpu"].max()])
        self._dimm_base = int(bases["dimm"].max())
        reads = np.concatenate([group.uses[:, READS] for group in groups])
        self._step = int(np.gcd.reduce(reads)) or 1
        self._prices: Ints | None = None

    def close(self) -> None:
        """Go on until bound and schedule meet, something is not decided, or the time is up."""
        search = self.search
        if not all(len(group.uses) for group in self.groups):
            search.prove(search.objective)  # type: ignore[arg-type]  # one group has no label below
            return
        while not search.closed and not search.stopped:
            low, high = search.bound // self.grid, search.objective // self.grid  # type: ignore[operator]
            middle = (low + high) // 2
            decided = self._within(middle)
            if decided == Feasibility.UNKNOWN:
                return
            if decided == Feasibility.INFEASIBLE:
                search.prove((middle + 1) * self.grid)

    def _within(self, makespan: int) -> Feasibility:
        """Tell whether there is a schedule of that makespan, and offer it."""
        most = sum(int(group.uses[:, READS].max()) for group in self.groups)
        outcome = Feasibility.INFEASIBLE
        for reads in self._open(makespan, most // self._step):
            found = Feasibility.UNKNOWN if reads is None else self._decided(makespan, reads)
            if found == Feasibility.FEASIBLE:
                return found
            if found == Feasibility.UNKNOWN:
                outcome = found
        return Feasibility.UNKNOWN if self.search.stopped else outcome

    def _open(self, makespan: int, most: int) -> Iterator[int | None]:
        """Yield the numbers of read steps up to `most` that multipliers leave open; None: more."""
        waiting, seen = [(0, most)], 0
        while waiting and not self.search.stopped:
            seen += 1
            spend(INTERVAL)
            if seen > MOST_INTERVALS:
                yield None
                return
            first, last = waiting.pop()
            if self._setting(makespan, first, last) is None:
                continue
            if first == last:
                yield first
            else:
                middle = (first + last) // 2
                waiting += [(middle + 1, last), (first, middle)]

    def _setting(
        self, makespan: int, first: int, last: int
    ) -> tuple[list[Ints], LabelSetting] | None:
        """Return the labels within the limits and the choices of them; None if refuted."""
        own = makespan - self._dimm_base - first * self._step
        limit = np.array([*(makespan - self._base), last * self._step])
        fitting = [
            np.flatnonzero((group.uses[:, OWN] <= own) & (group.uses[:, :OWN] <= limit).all(axis=1))
            for group in self.groups
        ]
        if own < 0 or not all(map(len, fitting)):
            return None
        uses = [group.uses[kept, :OWN] for group, kept in zip(self.groups, fitting, strict=True)]
        if self._prices is not None and LabelSetting(uses, limit, self._prices).refuted:
            return None
        self._prices = multipliers(uses, limit)
        setting = LabelSetting(uses, limit, self._prices)
        return None if setting.refuted else (fitting, setting)

    def _decided(self, makespan: int, reads: int) -> Feasibility:
        """Decide one number of read steps."""
        made = self._setting(makespan, reads, reads)
        if made is None:
            return Feasibility.INFEASIBLE
        fitting, setting = made
        found = setting.run(8 * MOST_LABELS, lambda: self.search.stopped)
        if not len(found):
            return Feasibility.INFEASIBLE if setting.complete else Feasibility.UNKNOWN
        runs: list[tuple[str, int] | None] = [None] * self.instance.modes.experts
        for group, kept, option in zip(self.groups, fitting, setting.choice(0), strict=True):
            for expert, mode in zip(group.experts, group.modes[kept[option]].tolist(), strict=True):
                label = self.instance.modes.label[mode]
                runs[expert] = label.path, label.copy
        solution: Solution = solution_of(self.instance, runs)  # type: ignore[arg-type]
        self.search.offer(solution, objective(self.instance, solution))
        return Feasibility.FEASIBLE


def multipliers(groups: list[Ints], limit: Ints) -> Ints:
    """Return integer multipliers of the sums that are best for the linear relaxation.

    It has the least largest share of a limit over convex combinations of each group's labels.
    Whatever integers it gives, refutations by them hold.
    """
    from scipy.optimize import linprog

    uses = np.concatenate(groups)
    count, scale = len(uses), np.maximum(limit, 1)
    group = np.repeat(np.arange(len(groups)), [len(of) for of in groups])
    one_each = np.zeros((len(groups), count + 1))
    one_each[group, np.arange(count)] = 1.0
    found = linprog(
        np.append(np.zeros(count), 1.0),
        A_ub=np.hstack([(uses / scale).T, -np.ones((len(limit), 1))]),
        b_ub=np.zeros(len(limit)),
        A_eq=one_each,
        b_eq=np.ones(len(groups)),
        method="highs",
    )
    spend(uses.size / LINEAR)
    share = np.ones(len(limit)) if found.status != 0 else np.maximum(-found.ineqlin.marginals, 0)
    span = np.maximum(limit, sum(of.max(axis=0) for of in groups))
    return whole_prices(share / scale * scale.max(), span)


def _by_cpsat(instance: Instance, search: Search, grid: int) -> None:
    """Let CP-SAT close what is left, from the best schedule."""
    from moeopt.core.cpsat import Run
    from moeopt.problems.tri_domain.cpsat import Model

    model = Model(instance)
    model.post()
    model.start_from(search.solution, search.objective)  # type: ignore[arg-type]
    run = Run(
        model.model,
        search.remaining_s,
        seed=search.seed,
        workers=search.workers,
        effort=EFFORT if search.limit_s == inf else inf,
        options=model.parameters,
    )
    answer = run.solve()
    if answer.found:
        found = model.decode(answer.value)
        search.offer(found, objective(instance, found))
    if answer.bound is not None:
        search.prove(answer.bound * grid)
