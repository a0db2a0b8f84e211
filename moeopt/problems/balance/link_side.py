"""The best that the link allows: how many slices must pass it, whatever the GPU's own work.

Let NDP work remain, so that activations are due, and let residents be computed for free. Let W be
one unit's work on all other experts and `w` a transfer.

Lemma (units are alike). A makespan C asks the same of every unit: give up work of W + due - C or
more. Giving up slices by falling NDP time does so with the fewest, m*. So N m* slices or more pass.

Theorem. With computations of at most `w`, the least makespan is reached by a *plan*: every unit
gives up its m longest slices, except that one unit may give up a slice of another expert for the
last of them.

Proof. Then the closed form of the flow shop is `w y` and the shortest computation among the y
pulled slices: the work after the first transfer is hidden behind the others. Let a solution have
makespan C. If y > N m*, its GPU side is at least w N m* + w, and the plan with m* and no exchange
takes no longer on either side. If y = N m*, each unit gives up m* slices. Let expert l have the
shortest computation of those pulled. The unit that gives up a slice of l gives up at most l and its
m* - 1 longest others, and that is enough for C. So the plan with m* and l is within C on the NDP
side, and its GPU side, which has l among its slices, is at most w y and l's computation. If l is
among the m* longest anyway, so is the plan without exchange. qed

Where a computation is longer than `w` it counts as `w` here: all plans get shorter, and the least
one is a lower bound.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .instance import Instance

Ints = NDArray[np.int64]

NOBODY = -1


@dataclass(frozen=True)
class Plan:
    """What each unit gives up of the experts that are not resident.

    Attributes
    ----------
    order
        Rows of these experts by falling NDP time.
    each
        m: slices of every unit, in that order.
    exchanged
        Row of the expert that one unit gives up for its last slice; `NOBODY` for none.
    makespan_ns
        With residents for free and computations of at most a transfer.
    """

    order: tuple[int, ...]
    each: int
    exchanged: int
    makespan_ns: int


def best_plan(instance: Instance) -> Plan:
    """Return the best plan; its makespan is a bound on every solution in which NDP work remains.

    Proof: the module's theorem.
    """
    c, most = instance.columns, instance.slices_per_unit
    away = np.flatnonzero(~c.resident)
    order = away[np.lexsort((c.slice_gpu_ns[away], -c.slice_ndp_ns[away]))]
    ndp = c.slice_ndp_ns[order]
    compute = np.minimum(c.slice_gpu_ns[order], instance.slice_transfer_ns)
    each = np.arange(most * len(order) + 1, dtype=np.int64)
    given = np.concatenate([[0], np.cumsum(np.repeat(ndp, most))])
    shortest = np.minimum.accumulate(np.repeat(compute, most))
    sent = each * (instance.ndp_units * instance.slice_transfer_ns)
    work = int(ndp.sum()) * most
    gpu = sent + instance.gpu_overhead_ns
    gpu[1:] += shortest
    plain = np.maximum(gpu, work - given + instance.ndp_overhead_ns)
    best = int(plain.argmin())
    plan = Plan(tuple(order.tolist()), best, NOBODY, int(plain[best]))
    for position in range(1, len(order)):
        # An exchange for a slice further down the order, only where its computation is shorter.
        longest = int(np.searchsorted(-shortest, -compute[position]))
        shorter = each[1 : min(longest, position * most) + 1]
        if not len(shorter):
            continue
        left = work - given[shorter - 1] - ndp[position] + instance.ndp_overhead_ns
        both = sent[shorter] + compute[position] + instance.gpu_overhead_ns
        makespans = np.maximum(both, left)
        best = int(makespans.argmin())
        if makespans[best] < plan.makespan_ns:
            row = int(order[position])
            plan = Plan(plan.order, int(shorter[best]), row, int(makespans[best]))
    return plan


def slices_of(instance: Instance, plan: Plan) -> tuple[tuple[int, ...], ...]:
    """Return the slices that a plan takes, per expert and unit, and all of the residents'."""
    most, units = instance.slices_per_unit, instance.ndp_units
    rows = [[most if expert.resident else 0] * units for expert in instance.experts]
    for position, row in enumerate(plan.order):
        rows[row] = [min(most, max(0, plan.each - position * most))] * units
    if plan.exchanged != NOBODY:
        rows[plan.order[(plan.each - 1) // most]][0] -= 1
        rows[plan.exchanged][0] += 1
    return tuple(tuple(row) for row in rows)
