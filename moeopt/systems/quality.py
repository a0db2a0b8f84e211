"""The least time of widths at the loss and the bits that a system's own widths have.

Each expert beside the GPU gets one of the widths; the layer ends with its busiest unit. The bound
is the Lagrangian one: whatever the multipliers of the units' times (together one), of the loss and
of the bits are, every choice takes at least the sum of the experts' cheapest widths at these
prices, less the prices of what may be lost and used. HiGHS proposes the multipliers of its linear
relaxation; the bound is then computed in integers, so that nothing rests on its arithmetic.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from .clock import Clock
from .published.cxl_ndp import CxlNdp
from .system import RunState, work_of
from .widths import BITS, losses, ranks
from .work import Integers

SHARES = 2**30
"""Multipliers are integers over this."""

SEARCH_S = 1.0
"""Seconds for the widths of a layer; what is found is achievable, whether or not it is proven."""


@dataclass(frozen=True)
class WidthChoice:
    """WidthChoice of some experts.

    Attributes
    ----------
    chosen
        Shape (experts,): the columns of their widths.
    bound_ns
        No widths within the limits let the busiest unit end earlier.
    """

    chosen: Integers
    bound_ns: int


def fastest_widths(
    cost_ns: Integers, unit: Integers, loss: Integers, bits: Integers, start: Integers
) -> WidthChoice:
    """Return widths that let the busiest unit end early, at no more loss and bits than others have.

    Parameters
    ----------
    cost_ns, loss
        Shape (experts, widths).
    unit
        Shape (experts,): which unit computes an expert, from 0.
    bits
        Shape (widths,), rising.
    start
        Shape (experts,): the columns of the widths whose loss and bits are the limits.
    """
    experts = np.arange(len(cost_ns))
    limits = int(loss[experts, start].sum()), int(bits[start].sum())
    rows, once = _program(cost_ns, unit, loss, bits)
    most = np.append(np.zeros(len(rows) - 2), limits)
    chosen = start
    price = np.zeros(rows.shape[1])
    price[-1] = 1.0
    found = milp(
        price,
        integrality=np.append(np.ones(cost_ns.size), 0),
        bounds=Bounds(0, np.append(np.ones(cost_ns.size), np.inf)),
        constraints=[LinearConstraint(rows, -np.inf, most), LinearConstraint(once, 1, 1)],
        options={"time_limit": SEARCH_S},
    )
    if found.x is not None:
        tried = found.x[:-1].reshape(cost_ns.shape).argmax(axis=1)
        within = loss[experts, tried].sum() <= limits[0] and bits[tried].sum() <= limits[1]
        if within and _busiest(cost_ns, unit, tried) < _busiest(cost_ns, unit, chosen):
            chosen = tried
    relaxed = linprog(price, A_ub=rows, b_ub=most, A_eq=once, b_eq=np.ones(len(cost_ns)))
    duals = None if relaxed.ineqlin is None else -np.asarray(relaxed.ineqlin.marginals)
    if duals is None or not len(duals):
        duals = np.zeros(len(most))
    bound = _bound(cost_ns, unit, loss, bits, limits, np.maximum(duals, 0))
    return WidthChoice(chosen, min(bound, _busiest(cost_ns, unit, chosen)))


def _busiest(cost_ns: Integers, unit: Integers, chosen: Integers) -> int:
    taken = cost_ns[np.arange(len(chosen)), chosen]
    return int(np.bincount(unit, weights=taken).max(initial=0))


def _program(
    cost_ns: Integers, unit: Integers, loss: Integers, bits: Integers
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the rows with limits, of each unit's time less the end, loss and bits; and equalities.

    Columns are the widths of each expert in turn, and the end.
    """
    experts, widths = cost_ns.shape
    units = int(unit.max()) + 1
    at = np.repeat(unit, widths)
    rows = np.zeros((units + 2, cost_ns.size + 1))
    rows[at, np.arange(cost_ns.size)] = cost_ns.ravel()
    rows[:units, -1] = -1
    rows[units, :-1] = loss.ravel()
    rows[units + 1, :-1] = np.tile(bits, experts)
    once = np.zeros((experts, cost_ns.size + 1))
    once[np.repeat(np.arange(experts), widths), np.arange(cost_ns.size)] = 1
    return rows, once


def _bound(
    cost_ns: Integers,
    unit: Integers,
    loss: Integers,
    bits: Integers,
    limits: tuple[int, int],
    duals: NDArray[np.float64],
) -> int:
    """Return the Lagrangian bound of multipliers, in integers."""
    *shares, of_loss, of_bits = duals.tolist()
    total = sum(shares) or 1.0
    scaled = [int(SHARES * share / total) for share in shares]
    scaled[int(np.argmax(shares))] += SHARES - sum(scaled)
    prices = int(SHARES * of_loss), int(SHARES * of_bits)
    value = -prices[0] * limits[0] - prices[1] * limits[1]
    for costs, at, lost in zip(cost_ns.tolist(), unit.tolist(), loss.tolist(), strict=True):
        value += min(
            scaled[at] * cost + prices[0] * one + prices[1] * width
            for cost, one, width in zip(costs, lost, bits.tolist(), strict=True)
        )
    return max(0, -(-value // SHARES))


@dataclass(frozen=True)
class CellTimes:
    """What a cell takes with other widths, in ns.

    Attributes
    ----------
    executed_ns
        With the widths found.
    bound_ns
        At the least, with widths within the same loss and bits.
    """

    executed_ns: int
    bound_ns: int


def at_best_widths(
    system: CxlNdp, state: RunState, layer: int, tokens: Integers, known: Integers
) -> CellTimes:
    """Return what a layer takes if widths are chosen for the tokens that are known.

    Parameters
    ----------
    state
        As when the layer was executed.
    tokens, known
        Shape (experts,): those that come, and those by which widths are chosen. The bound is one
        where they are the same.
    """
    world = state.world
    made = system.route(state, layer, tokens)
    on_ndp = np.flatnonzero(~state.resident[layer])
    bits = np.array(BITS)
    width = state.width[layer].copy()
    bound = 0
    if len(on_ndp):
        rows = np.arange(len(BITS))
        cost = world.table.path_ns["ndp"][rows[None, :], known[on_ndp][:, None]]
        loss = losses(ranks(system.seen(state))[layer, on_ndp])
        found = fastest_widths(cost, state.dimm[layer, on_ndp], loss, bits, width[on_ndp])
        width[on_ndp], bound = found.chosen, found.bound_ns
    work = work_of(state, layer, tokens, replace(made, width=width))
    work = work._replace(shared_ns=world.shared_ns(world.batch))
    least = work
    if work.ndp_ns is not None:
        least = work._replace(ndp_ns=np.eye(1, len(work.ndp_ns), dtype=np.int64)[0] * bound)
    ends = []
    for one in (work, least):
        clock = Clock(world.dimms)
        clock.run(0, one)
        ends.append(clock.now_ns)
    return CellTimes(*ends)
