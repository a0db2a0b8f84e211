"""Bounds of many states at once, from prices on the devices and on the two kinds of host reads.

The linear relaxation of one state (r, e), the DIMMs taken together, has dual values: a weight of
each device and a price of each count. They give a bound of every other state as well, which is
linear in r and e. The linear program only guides: the prices are rounded to integers, and the bound
that they give is computed in integers (proof at `Prices`).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from .scenario import CPU_LOCAL, CPU_STRIPED, GPU_LOCAL, GPU_STRIPED, HIT, NDP, Scenario, Times

MAX_WEIGHT = 2**24
MAX_SUM = 2**61

ON_GPU = [HIT, GPU_STRIPED, GPU_LOCAL]
ON_CPU = [CPU_STRIPED, CPU_LOCAL]
STRIPED = [GPU_STRIPED, CPU_STRIPED]
LOCAL = [GPU_LOCAL, CPU_LOCAL]


@dataclass(frozen=True)
class Prices:
    """The bound ``ceil((constant + per_striped r + per_local e) / total)`` of each state (r, e).

    It holds for schedules with no NDP cost above `room`. Others last longer than r striped reads
    and `room`, which is the bound of a state if that is less.

    Proof. For weights g, c, w >= 0 of the GPU, the CPU and each DIMM, the makespan times
    ``total = g + c + dimms w`` is at least the weighted sum of the device loads, and that is a sum
    of what each expert adds to it. Add h >= 0 for each hit, and subtract s for each striped and l
    for each localized host read: a schedule with r and e of them changes by at most ``h hits``, by
    ``s r`` and by ``l e``, and what remains is at least each expert's least over its ways.
    """

    total: int
    constant: int
    per_striped: int
    per_local: int
    room: int
    striped_read: int
    excess: Times

    def most(self, striped_reads: int, local_reads: int, makespan: int) -> Times:
        """Return how many experts of each class can go each way within the makespan, at most.

        Proof. By as much as an expert's way exceeds its class's least, `excess`, the weighted sum
        exceeds the bound's; and it must not exceed ``total makespan``.
        """
        least = self.constant + self.per_striped * striped_reads + self.per_local * local_reads
        left = max(-1, min(self.total * makespan - least, MAX_SUM))
        return np.asarray(np.where(self.excess > 0, left // np.maximum(self.excess, 1), MAX_SUM))

    def bound(self, striped_reads: int, local_reads: int) -> int:
        """Return the bound of a state."""
        least = self.constant + self.per_striped * striped_reads + self.per_local * local_reads
        beyond = striped_reads * self.striped_read + self.room + 1
        return min(-(-least // self.total), beyond)


def allowed_ways(scenario: Scenario, room: int) -> NDArray[np.bool_]:
    """Return what each class may do, shape (6, classes): no NDP cost above `room`."""
    cost, _ = scenario.classes
    allowed = np.ones(cost.shape, dtype=np.bool_)
    allowed[NDP] = cost[NDP] <= room
    return allowed


def largest_piece(scenario: Scenario, striped_reads: int, makespan: int) -> int:
    """Return up to which NDP cost a DIMM has room within the makespan.

    Raised as far as that admits no other expert: prices depend on the makespan in this way only.
    """
    room = makespan - striped_reads * scenario.striped_read
    longer = scenario.ndp[scenario.ndp > room]
    return int(longer[-1]) - 1 if len(longer) else MAX_SUM


def prices_at(scenario: Scenario, striped_reads: int, local_reads: int, room: int) -> Prices | None:
    """Return the prices that bound a state best; None if the solver has none.

    They hold for schedules with no NDP cost above `room`.
    """
    allowed = allowed_ways(scenario, room)
    cost, size = scenario.classes
    classes, dimms = len(size), scenario.dimms
    # Columns: way by way, one per class, then the makespan. Rows: GPU, CPU, DIMMs, hits.
    rows = np.zeros((4, 6, classes))
    rows[0, ON_GPU] = cost[ON_GPU]
    rows[1, ON_CPU] = cost[ON_CPU]
    rows[2, NDP], rows[2, LOCAL] = cost[NDP] / dimms, scenario.local_read / dimms
    rows[3, HIT] = 1
    unit = max(float(cost.max()), 1.0)
    rows[:3] /= unit
    of_makespan = np.array([[-1.0], [-1.0], [-1.0], [0.0]])
    limits = [0, 0, -striped_reads * scenario.striped_read / unit, scenario.hits]
    kinds = np.zeros((2, 6, classes))
    kinds[0, STRIPED], kinds[1, LOCAL] = 1, 1
    equal = np.concatenate([np.hstack([np.eye(classes)] * 6), kinds.reshape(2, -1)])
    found = linprog(
        np.eye(6 * classes + 1)[-1],
        A_ub=np.hstack([rows.reshape(4, -1), of_makespan]),
        b_ub=limits,
        A_eq=np.hstack([equal, np.zeros((classes + 2, 1))]),
        b_eq=[*size, striped_reads, local_reads],
        bounds=[(0, None if may else 0) for may in allowed.ravel()] + [(0, None)],
        method="highs",
    )
    if found.x is None:
        return None
    device, count = -found.ineqlin.marginals, found.eqlin.marginals[-2:]
    scale = min(MAX_WEIGHT, MAX_SUM // (4 * int(unit + scenario.local_read) * scenario.experts))
    gpu, cpu, dimm, hit = (max(float(d), 0.0) * scale for d in device)
    of_device = (round(gpu), round(cpu), round(dimm / dimms))
    striped, local = (round(float(c) * scale * unit) for c in count)
    return rounded(scenario, allowed, room, of_device, round(hit * unit), striped, local)


def rounded(
    scenario: Scenario,
    allowed: NDArray[np.bool_],
    room: int,
    device: tuple[int, int, int],
    hit: int,
    striped: int,
    local: int,
) -> Prices | None:
    """Return the bounds by integer weights (GPU, CPU, each DIMM) and prices, all but two >= 0."""
    cost, size = scenario.classes
    gpu, cpu, dimm = device
    weighted = np.empty_like(cost)
    weighted[ON_GPU] = gpu * cost[ON_GPU]
    weighted[ON_CPU] = cpu * cost[ON_CPU]
    weighted[NDP] = dimm * cost[NDP]
    weighted[HIT] += hit
    weighted[STRIPED] -= striped
    weighted[LOCAL] += dimm * scenario.local_read - local
    total = gpu + cpu + scenario.dimms * dimm
    if not total:
        return None
    least = weighted.min(axis=0, where=allowed, initial=2**62)
    constant = int((least * size).sum()) - hit * scenario.hits
    per_striped = striped + scenario.dimms * dimm * scenario.striped_read
    excess = np.where(allowed, weighted - least, MAX_SUM)
    return Prices(total, constant, per_striped, local, room, scenario.striped_read, excess)
