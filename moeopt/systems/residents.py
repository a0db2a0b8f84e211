"""The best residents of a layer over many steps: chosen once, and used in all of them.

Each expert of each step takes a path: on the GPU as a resident, on the GPU after an upload, or
elsewhere. A path keeps devices and links busy, and a step ends with the busiest of them. The bound
is the Lagrangian one: a step takes at least what any weighted mean of its devices takes (weights
together one), so that with the weights fixed each expert takes its cheapest path, and the residents
that save most over all steps are the best. HiGHS proposes the weights by the linear relaxation; the
bound is computed in integers, and nothing rests on its arithmetic.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .work import Flags, Integers

SHARES = 2**20
"""Weights are integers over this."""


class StepPaths(NamedTuple):
    """What the experts of a layer may do in one step, in ns.

    Attributes
    ----------
    cost_ns
        Shape (paths, devices, experts): how long each path keeps each device busy; the first path
        is that of residents. 0 for experts without tokens.
    base_ns
        Shape (devices,): what keeps devices busy beside them.
    extra
        How many experts more are resident in this step alone: uploaded ahead of time.
    """

    cost_ns: Integers
    base_ns: Integers
    extra: int = 0


@dataclass(frozen=True)
class ResidentChoice:
    """Residents of a layer, chosen once.

    Attributes
    ----------
    resident
        Shape (experts,).
    bound_ns
        All steps together take no less with any residents, whatever paths they take.
    """

    resident: Flags
    bound_ns: int


def best_residents(steps: list[StepPaths], slots: int) -> ResidentChoice:
    """Return residents, at most `slots` of them, that let all steps together end early."""
    cost = np.stack([step.cost_ns for step in steps])
    base = np.stack([step.base_ns for step in steps])
    extra = np.array([step.extra for step in steps])
    weight = _weights(cost, base, extra, slots)
    priced = np.einsum("td,tpde->tpe", weight, cost)
    away = priced[:, 1:].min(axis=1)
    saved = np.maximum(away - priced[:, 0], 0)
    total = saved.sum(axis=0)
    order = np.argsort(-total, kind="stable")[:slots]
    least = int((weight * base).sum()) + int(away.sum()) - int(total[order].sum())
    for row, more in zip(saved, extra.tolist(), strict=True):
        least -= int(np.sort(row)[::-1][:more].sum())
    resident = np.zeros(cost.shape[-1], dtype=np.bool_)
    resident[order] = True
    return ResidentChoice(resident, max(0, -(-least // SHARES)))


def _weights(cost: Integers, base: Integers, extra: Integers, slots: int) -> Integers:
    """Return the weights of each step's devices, shape (steps, devices), together `SHARES` each."""
    found = _duals(cost, base, extra, slots)
    total = found.sum(axis=1, keepdims=True)
    shares = np.where(total > 0, found / np.where(total > 0, total, 1), 1 / found.shape[1])
    whole: Integers = np.floor(SHARES * shares).astype(np.int64)
    whole[np.arange(len(whole)), whole.argmax(axis=1)] += SHARES - whole.sum(axis=1)
    return whole


def _duals(cost: Integers, base: Integers, extra: Integers, slots: int) -> NDArray[np.float64]:
    """Return the multipliers of the linear relaxation; 0 if HiGHS finds none."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    steps, paths, devices, experts = cost.shape
    scale = max(1, int(cost.max()))
    at = np.arange(steps * paths * experts).reshape(steps, paths, experts)
    resident = at.size + np.arange(experts)
    more = at.size + experts + np.arange(steps * experts).reshape(steps, experts)
    end = more[-1, -1] + 1 + np.arange(steps)
    columns = int(end[-1]) + 1
    rows, cols, values = list[Integers](), list[Integers](), list[NDArray[np.float64]]()

    def add(row: Integers, column: Integers, value: NDArray[np.float64]) -> None:
        shape = np.broadcast_shapes(row.shape, column.shape)
        rows.append(np.broadcast_to(row, shape).ravel())
        cols.append(np.broadcast_to(column, shape).ravel())
        values.append(np.broadcast_to(value, shape).ravel())

    # Each device of each step is done before the step ends.
    device = np.arange(steps * devices).reshape(steps, 1, devices, 1)
    add(device + np.zeros_like(cost), at[:, :, None], cost / scale)
    add(device[:, 0, :, 0], end[:, None], np.array(-1.0))
    # Residents' paths are for residents, and for those uploaded ahead; there are so many of both.
    hit = steps * devices + np.arange(steps * experts).reshape(steps, experts)
    add(hit, at[:, 0], np.array(1.0))
    add(hit, resident[None], np.array(-1.0))
    add(hit, more, np.array(-1.0))
    last = steps * devices + steps * experts
    add(np.array([last]), resident, np.array(1.0))
    add(last + 1 + np.arange(steps)[:, None], more, np.array(1.0))
    limits = np.concatenate([-base.ravel() / scale, np.zeros(hit.size), [slots], extra])
    upper: Any = coo_array(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(cols))),
        shape=(len(limits), columns),
    )
    once: Any = coo_array(
        (
            np.ones(at.size),
            (np.repeat(np.arange(steps * experts).reshape(steps, 1, experts), paths, 1).ravel(),
             at.ravel()),
        ),
        shape=(steps * experts, columns),
    )  # fmt: skip
    price = np.zeros(columns)
    price[end] = 1.0
    upper_bound = np.full(columns, np.inf)
    upper_bound[resident] = 1.0
    found: Any = linprog(  # type: ignore[call-overload]  # sparse arrays are missing in its types
        price,
        A_ub=upper.tocsr(),
        b_ub=limits,
        A_eq=once.tocsr(),
        b_eq=np.ones(steps * experts),
        bounds=np.stack([np.zeros(columns), upper_bound], axis=1),
    )
    if found.ineqlin is None or len(found.ineqlin.marginals) != len(limits):
        return np.zeros((steps, devices))
    duals: NDArray[np.float64] = np.maximum(-found.ineqlin.marginals[: steps * devices], 0)
    return duals.reshape(steps, devices)
