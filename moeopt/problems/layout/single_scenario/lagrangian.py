"""Lagrangian relaxation of the device rows and the read counts: bounds of many branches at once.

Multipliers are found at one branch (r, e), as the dual values of its linear relaxation with the
DIMM rows aggregated; there the Lagrangian bound is as good as that relaxation (Geoffrion 1974).
They bound every other branch as well, linearly in r and e. The linear program only guides: the
multipliers are rounded to integers, and the bound is computed in integers, so that no tolerance
enters the proof (at `Multipliers`).
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from moeopt.problems.layout.paths import Path

from .scenario import TIMES, Branch, Ints, Row, SingleScenario, Times

MAX_MULTIPLIER = 2**24
MAX_SUM = 2**61


@dataclass(frozen=True)
class Multipliers:
    """The bound ``ceil((constant + per_striped r + per_local e) / device_sum)`` of a branch (r, e).

    It holds for schedules with no NDP cost above `largest_item`. Others last longer than r striped
    reads and `largest_item`, which is the bound of a branch if that is less.

    Proof. For multipliers g, c, w, p >= 0 of the GPU, the CPU, each DIMM and PCIe (LA-C5 to LA-C7,
    LA-C9), the makespan times ``device_sum = g + c + dimms w + p`` is at least the weighted sum of
    the device loads, and that is g times the base load and a sum of what each expert adds to it.
    Relax the HBM slots (LA-C3) and the two counts of host reads: add h >= 0 for each hit, subtract
    s for each striped and l for each localized host read. A schedule with r and e of them changes
    by at most ``h hits``, by ``s r`` and by ``l e``, and what remains is at least each expert's
    least over its paths. The slots of the DIMMs (LA-C4) and the channels (LA-C8)
    are dropped.
    """

    device_sum: int
    constant: int
    per_striped: int
    per_local: int
    largest_item: int
    striped_read: int
    reduced_cost: Times

    def max_counts(self, branch: Branch, makespan: int) -> Ints:
        """Return how many experts of each class can take each path within the makespan, at most.

        Shape (6, classes). Reduced-cost tightening. Proof. By as much as an expert's path exceeds
        its class's least, `reduced_cost`, the weighted sum exceeds the bound's; and it must not
        exceed ``device_sum makespan``.
        """
        slack = max(-1, min(self.device_sum * makespan - self._least(branch), MAX_SUM))
        reduced = self.reduced_cost
        return np.asarray(np.where(reduced > 0, slack // np.maximum(reduced, 1), MAX_SUM))

    def bound(self, branch: Branch) -> int:
        """Return the bound of a branch."""
        with_larger_item = branch.striped * self.striped_read + self.largest_item + 1
        return min(-(-self._least(branch) // self.device_sum), with_larger_item)

    def _least(self, branch: Branch) -> int:
        return self.constant + self.per_striped * branch.striped + self.per_local * branch.local


@dataclass
class MultiplierPool:
    """The multipliers found so far on a scenario: each raises the bounds of many branches."""

    scenario: SingleScenario
    _raising: list[Multipliers] = field(default_factory=list)
    _of_branch: dict[tuple[Branch, int], Multipliers | None] = field(default_factory=dict)

    def bound(self, branch: Branch) -> int:
        """Return the best bound of a branch by all multipliers that raised one; -1 without any."""
        return max((multipliers.bound(branch) for multipliers in self._raising), default=-1)

    def best(self, branch: Branch, makespan: int) -> Multipliers | None:
        """Return multipliers that bound a branch best and hold within a makespan; None if none.

        Few makespans make a difference: see `largest_item`.
        """
        size = largest_item(self.scenario, branch, makespan)
        if (branch, size) not in self._of_branch:
            self._of_branch[branch, size] = dual_multipliers(self.scenario, branch, size)
        return self._of_branch[branch, size]

    def raised(self, branch: Branch, bound: int) -> int:
        """Look for multipliers that raise the bound of a branch; return it, or -1 without any."""
        multipliers = self.best(branch, bound)
        if multipliers is None or multipliers.bound(branch) <= bound:
            return -1
        self._raising.append(multipliers)
        return multipliers.bound(branch)


def admitted(scenario: SingleScenario, capacity: int) -> NDArray[np.bool_]:
    """Return which paths each class may take, shape (6, classes): no NDP cost above `capacity`."""
    cost, _ = scenario.classes
    may = np.ones(cost.shape, dtype=np.bool_)
    may[Path.NDP] = cost[Path.NDP] <= capacity
    return may


def largest_item(scenario: SingleScenario, branch: Branch, makespan: int) -> int:
    """Return up to which NDP cost a DIMM has capacity within the makespan.

    Raised as far as that admits no other expert: multipliers depend on the makespan only so.
    """
    longer = scenario.ndp[scenario.ndp > scenario.dimm_capacity(branch, makespan)]
    return int(longer[-1]) - 1 if len(longer) else MAX_SUM


def dual_multipliers(scenario: SingleScenario, branch: Branch, largest: int) -> Multipliers | None:
    """Return the multipliers that bound a branch best; None if the solver has none.

    They hold for schedules with no NDP cost above `largest`.
    """
    _, size = scenario.classes
    classes, dimms, may = len(size), scenario.dimms, admitted(scenario, largest)
    # Columns: path by path, one per class, then the makespan.
    use = scenario.usage.astype(np.float64)
    unit = max(float(scenario.cost.max()), 1.0)
    use[TIMES] /= unit
    use[Row.DIMMS] /= dimms
    reads = branch.striped * scenario.striped_read / unit
    limits = [-scenario.base / unit, 0, -reads, 0, scenario.hits]
    counts = use[[Row.STRIPED, Row.LOCAL]].reshape(2, -1)
    equal = np.concatenate([np.hstack([np.eye(classes)] * len(Path)), counts])  # LA-C1, branch
    found = linprog(
        np.eye(counts.shape[1] + 1)[-1],
        A_ub=np.hstack([use[: len(limits)].reshape(len(limits), -1), [[-1]] * Row.HITS + [[0]]]),
        b_ub=limits,
        A_eq=np.hstack([equal, np.zeros((classes + 2, 1))]),
        b_eq=[*size, *branch],
        bounds=[*((0, None if of else 0) for of in may.ravel()), (0, None)],
        method="highs",
    )
    if found.x is None:
        return None
    device, count = -found.ineqlin.marginals, found.eqlin.marginals[-2:]
    largest_cost = int(unit + scenario.local_read) + int(scenario.pcie.max())
    scale = min(MAX_MULTIPLIER, MAX_SUM // (4 * largest_cost * scenario.experts))
    device, hit = np.maximum(device[:-1], 0) * scale, round(max(device[-1], 0) * scale * unit)
    gpu, cpu, dimm, pcie = (round(d) for d in device / [1, 1, dimms, 1])
    striped, local = (round(float(c) * scale * unit) for c in count)
    device_sum = gpu + cpu + dimms * dimm + pcie
    if not device_sum:
        return None
    of_row = [gpu, cpu, dimm, pcie, hit, -striped, -local]
    used = np.abs(scenario.usage[: Row.SLOTS]).reshape(len(of_row), -1).max(axis=1).tolist()
    reach = sum(abs(m) * most for m, most in zip(of_row, used, strict=True))
    if (reach + gpu * scenario.base) * scenario.experts >= 4 * MAX_SUM:
        return None  # far beyond what costs explain: sums would leave int64
    weighted = np.tensordot(of_row, scenario.usage[: Row.SLOTS], 1)
    least = weighted.min(axis=0, where=may, initial=2**62)
    return Multipliers(
        device_sum=device_sum,
        constant=gpu * scenario.base + int((least * size).sum()) - hit * scenario.hits,
        per_striped=striped + dimms * dimm * scenario.striped_read,
        per_local=local,
        largest_item=largest,
        striped_read=scenario.striped_read,
        reduced_cost=np.where(may, weighted - least, MAX_SUM),
    )
