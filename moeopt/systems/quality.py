"""The least time of widths at the loss and the bits that a system's own widths have.

Each expert beside the GPU gets one of the widths for all steps; a step ends with its busiest unit.
The bound is the Lagrangian one: whatever the multipliers of the units' times (together one in each
step), of the loss and of the bits are, every choice takes at least the sum of the experts' cheapest
widths at these prices, less the prices of what may be lost and used. HiGHS proposes the multipliers
of its linear relaxation; the bound is then computed in integers, so that nothing rests on its
arithmetic.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .cells import cell_state
from .clock import Clock
from .published.cxl_ndp import CxlNdp
from .run import Cell
from .system import RunState, work_of
from .widths import BITS, losses, ranks
from .work import Integers

SHARES = 2**30
"""Multipliers are integers over this."""

SEARCH_S = 1.0
"""Seconds for the widths of a layer; what is found is achievable, whether or not it is proven."""


@dataclass(frozen=True)
class WidthChoice:
    """Widths of some experts.

    Attributes
    ----------
    chosen
        Shape (experts,): the columns of their widths.
    bound_ns
        No widths within the limits let all steps together take less.
    """

    chosen: Integers
    bound_ns: int


def fastest_widths(
    cost_ns: Integers, unit: Integers, loss: Integers, bits: Integers, start: Integers
) -> WidthChoice:
    """Return widths that let steps end early, at no more loss and bits than others have.

    Parameters
    ----------
    cost_ns
        Shape (steps, experts, widths).
    unit
        Shape (experts,): which unit computes an expert, from 0.
    loss
        Shape (experts, widths).
    bits
        Shape (widths,), rising.
    start
        Shape (experts,): the columns of the widths whose loss and bits are the limits.
    """
    from scipy.optimize import Bounds, LinearConstraint, linprog, milp  # takes half a second

    steps, size, widths = cost_ns.shape
    experts = np.arange(size)
    limits = int(loss[experts, start].sum()), int(bits[start].sum())
    rows, once = _program(cost_ns, unit, loss, bits)
    most = np.append(np.zeros(len(rows) - 2), limits)
    chosen = start
    price = np.zeros(rows.shape[1])
    price[-steps:] = 1.0
    found = milp(
        price,
        integrality=np.append(np.ones(size * widths), np.zeros(steps)),
        bounds=Bounds(0, np.append(np.ones(size * widths), np.full(steps, np.inf))),
        constraints=[LinearConstraint(rows, -np.inf, most), LinearConstraint(once, 1, 1)],
        options={"time_limit": SEARCH_S},
    )
    if found.x is not None:
        tried = found.x[:-steps].reshape(size, widths).argmax(axis=1)
        within = loss[experts, tried].sum() <= limits[0] and bits[tried].sum() <= limits[1]
        if within and _together(cost_ns, unit, tried) < _together(cost_ns, unit, chosen):
            chosen = tried
    relaxed = linprog(price, A_ub=rows, b_ub=most, A_eq=once, b_eq=np.ones(size))
    duals = None if relaxed.ineqlin is None else -np.asarray(relaxed.ineqlin.marginals)
    if duals is None or not len(duals):
        duals = np.zeros(len(most))
    bound = _bound(cost_ns, unit, loss, bits, limits, np.maximum(duals, 0))
    return WidthChoice(chosen, min(bound, _together(cost_ns, unit, chosen)))


def _together(cost_ns: Integers, unit: Integers, chosen: Integers) -> int:
    """Return what the busiest units take in all steps together."""
    taken = cost_ns[:, np.arange(len(chosen)), chosen]
    each = [np.bincount(unit, weights=step).max(initial=0) for step in taken]
    return int(sum(each))


def _program(
    cost_ns: Integers, unit: Integers, loss: Integers, bits: Integers
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the rows with limits, and equalities.

    Rows: each unit's time less the end of each step, loss and bits. Columns: the widths of each
    expert in turn, and the ends.
    """
    steps, experts, widths = cost_ns.shape
    units = int(unit.max()) + 1
    at, column = np.repeat(unit, widths), np.arange(experts * widths)
    rows = np.zeros((steps * units + 2, len(column) + steps))
    for step in range(steps):
        rows[step * units + at, column] = cost_ns[step].ravel()
        rows[step * units : (step + 1) * units, len(column) + step] = -1
    rows[-2, : len(column)] = loss.ravel()
    rows[-1, : len(column)] = np.tile(bits, experts)
    once = np.zeros((experts, len(column) + steps))
    once[np.repeat(np.arange(experts), widths), column] = 1
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
    steps, units = len(cost_ns), int(unit.max()) + 1
    shares = duals[:-2].reshape(steps, units)
    total = shares.sum(axis=1, keepdims=True)
    even = np.full(shares.shape, 1 / units)
    scaled = (SHARES * np.divide(shares, total, out=even, where=total > 0)).astype(np.int64)
    scaled[np.arange(steps), scaled.argmax(axis=1)] += SHARES - scaled.sum(axis=1)
    prices = int(SHARES * duals[-2]), int(SHARES * duals[-1])
    value = -prices[0] * limits[0] - prices[1] * limits[1]
    for expert in range(cost_ns.shape[1]):
        weights = scaled[:, unit[expert]].tolist()
        value += min(
            sum(weight * cost for weight, cost in zip(weights, costs, strict=True))
            + prices[0] * lost
            + prices[1] * width
            for costs, lost, width in zip(
                cost_ns[:, expert].T.tolist(), loss[expert].tolist(), bits.tolist(), strict=True
            )
        )
    return max(0, -(-value // SHARES))


@dataclass(frozen=True)
class AtOwnLoss:
    """What cells of a layer take together with other widths, in ns.

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
    system: CxlNdp, state: RunState, cells: Sequence[Cell], known: Sequence[Integers] | None = None
) -> AtOwnLoss:
    """Return what cells of a layer take with widths that are chosen once.

    Parameters
    ----------
    known
        Tokens of the steps by which widths are chosen, each of shape (experts,); None: those of the
        cells, of which the bound is.
    """
    world, layer = state.world, cells[0].layer
    seen = np.array([cell.tokens for cell in cells] if known is None else known)
    on_ndp = np.flatnonzero(~state.resident[layer])
    width, bound = state.width[layer].copy(), 0
    if len(on_ndp):
        rows = np.arange(len(BITS))
        cost = world.table.path_ns["ndp"][rows, seen[:, on_ndp][:, :, None]]
        loss = losses(ranks(system.seen(state))[layer, on_ndp])
        bits = np.array(BITS)
        found = fastest_widths(cost, state.dimm[layer, on_ndp], loss, bits, width[on_ndp])
        width[on_ndp], bound = found.chosen, found.bound_ns
    shared = world.shared_ns(world.batch)
    total, without = 0, 0
    for cell in cells:
        there = cell_state(state, cell)
        made = system.route(there, layer, cell.tokens)
        work = work_of(there, layer, cell.tokens, replace(made, width=width))
        for units in (True, False):
            clock = Clock(world.dimms)
            asked = work._replace(shared_ns=shared)
            clock.run(0, asked if units else asked._replace(ndp_ns=None))
            total += clock.now_ns if units else 0
            without += 0 if units else clock.now_ns
    # Nothing is handed over or back in the bound: the units alone, or all but the units.
    return AtOwnLoss(total, max(bound, without))
