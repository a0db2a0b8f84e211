"""A bound for several windows, nodes, moves and slots: windows share copies, groups nodes."""

import numpy as np
from ortools.sat.python import cp_model

from moeopt.core.clock import spend

from .bounds import objective_grid, objective_limit, share_times, window_bounds
from .instance import Instance

MAX_PLACES = 64
"""Groups times nodes up to which it is decided where groups lie."""

LARGEST = 10**15
"""Largest sum in CP-SAT's program: its bound comes as a float, which is exact up to 2**53."""

LINEAR = 2
"""CP-SAT's level of linear relaxation: all rows."""


def joint_bound(instance: Instance, work: float) -> int | None:
    """Return the least objective that copies and nodes allow; None if unknown.

    Proof. In a placement let z_ek = 1 if expert e has k copies, and y_jn = 1 if group j is in node
    n. Then sum_k z_ek = 1 and sum_n y_jn = 1, the sum of k z_ek is at most the number of slots, and
    the fullest device of window w has at least what a copy of e with the most tokens of k takes,
    even if tokens are split freely, the mean of each node's devices, and the window's own bound.
    Copies beyond one per expert cost, and of k copies at least k less those that are there now are
    moves. So the placement gives a solution of this program with its own peaks. Numbers are rounded
    down to a unit, and CP-SAT computes in integers.

    Parameters
    ----------
    instance
        One with room.
    work
        Limit of CP-SAT's deterministic time.
    """
    own, times = window_bounds(instance), share_times(instance)
    most = times.shape[2]
    total = objective_limit(instance)
    unit = 1
    while total > LARGEST * unit:
        unit *= 2
    model = cp_model.CpModel()
    peaks = [
        model.new_int_var(int(bound) // unit, max(int(bound), total) // unit + 1, f"peak[{w}]")
        for w, bound in enumerate(own)
    ]
    z = [[model.new_bool_var(f"z[{e},{k}]") for k in range(most)] for e in range(instance.experts)]
    for row in z:
        model.add_exactly_one(row)
    copies = sum((k + 1) * flag for row in z for k, flag in enumerate(row))
    model.add(copies <= instance.devices * instance.slots)
    # An expert matters in a window only where a single copy has more than the window's own bound.
    for w, e in zip(*np.nonzero(times[:, :, 0] > own[:, None]), strict=True):
        shares = (times[w, e] // unit).tolist()
        model.add(peaks[w] >= sum(share * flag for share, flag in zip(shares, z[e], strict=True)))
    _add_nodes(instance, model, peaks, unit)
    paid: list[cp_model.LinearExpr] = []
    for e, row in enumerate(z):
        now = instance.experts if instance.current is None else len(instance.current[e])
        for k, flag in enumerate(row):
            new = 0 if instance.current is None else max(0, k + 1 - now)
            cost = (instance.move_cost * new + instance.slot_cost * k) // unit
            paid += [cost * flag] if cost else []
    weights = instance.weights.tolist()
    model.minimize(sum(w * peak for w, peak in zip(weights, peaks, strict=True)) + sum(paid))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.linearization_level = LINEAR
    solver.parameters.max_deterministic_time = work
    status = solver.solve(model)
    spend(solver.response_proto.deterministic_time)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.UNKNOWN):
        return None
    # The objective has integer coefficients: the bound is an integer, as a float below 2**53.
    bound = unit * int(np.ceil(solver.best_objective_bound - 0.5))
    grid = objective_grid(instance)
    return -(-bound // grid) * grid if status != cp_model.UNKNOWN else None


def _add_nodes(
    instance: Instance, model: cp_model.CpModel, peaks: list[cp_model.IntVar], unit: int
) -> None:
    """Let each group lie in a node, whose devices' mean is no more than the peak."""
    groups = instance.experts // instance.group_size
    if instance.nodes == 1 or groups * instance.nodes > MAX_PLACES:
        return
    flag = model.new_bool_var
    lies = [[flag(f"lies[{j},{n}]") for n in range(instance.nodes)] for j in range(groups)]
    for row in lies:
        model.add_exactly_one(row)
    # Nodes are alike but for their links: the first group lies in the first one.
    if instance.links is None:
        model.add(lies[0][0] == 1)
    token = min(instance.scaled_token_ns)
    loads = instance.loads_units.reshape(len(peaks), groups, -1).sum(axis=2) * token
    loads //= instance.scale * unit
    for node in range(instance.nodes):
        held = sum(instance.group_size * row[node] for row in lies)
        model.add(held <= instance.devices_per_node * instance.slots)
        for peak, of_group in zip(peaks, loads.tolist(), strict=True):
            mean = sum(load * row[node] for load, row in zip(of_group, lies, strict=True))
            model.add(instance.devices_per_node * peak >= mean)
