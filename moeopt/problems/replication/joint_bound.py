"""A bound for several windows and nodes: windows share the copies, and the groups' nodes."""

import numpy as np
from scipy.sparse import coo_array, csr_array

from moeopt.core.highs import Program, Vector, minimize

from .bounds import objective_grid, window_bounds
from .instance import Instance, Ints

LARGEST = 10**7
"""Numbers that HiGHS takes well, in the program's units."""

MAX_PLACES = 64
"""Groups times nodes up to which it is decided where groups lie."""


def copies_bound(instance: Instance, limit_s: float, max_nodes: int) -> int | None:
    """Return the least weighted sum of peaks that copies and nodes allow; None if unknown.

    Proof. In a placement let z_ek = 1 if expert e has k copies, and y_jn = 1 if group j is in node
    n. Then sum_k z_ek = 1 and sum_n y_jn = 1, the sum of k z_ek is at most the number of slots, and
    the fullest device of window w has at least sum_k (l_we / k) z_ek for each e, even if tokens are
    split freely, the mean of each node's devices, and the window's own bound. So the placement
    gives a solution of this program with its own peaks.
    """
    experts, windows, most = instance.experts, len(instance.windows), instance.most_copies
    own, loads = window_bounds(instance), instance.loads_units
    unit = instance.units_per_token
    while int(instance.weights.max()) * int(loads.max()) > LARGEST * unit:
        unit *= 10
    rows = _Rows()
    number = np.arange(experts * most).reshape(experts, most)
    copies = np.arange(1, most + 1)
    peak = experts * most + np.arange(windows)
    for expert in range(experts):
        rows.add(number[expert], np.ones(most), 1, 1)
    rows.add(number.ravel(), np.tile(copies, experts), 0, instance.devices * instance.slots)
    # An expert matters in a window only where a single copy has more than the window's own bound.
    for w, expert in zip(*np.nonzero(loads > own[:, None]), strict=True):
        shares = -loads[w, expert] / copies / unit
        rows.add(np.append(number[expert], peak[w]), np.append(shares, 1.0), 0, np.inf)
    columns = experts * most + windows
    groups = experts // instance.group_size
    if instance.nodes > 1 and groups * instance.nodes <= MAX_PLACES:
        lies = columns + np.arange(groups * instance.nodes).reshape(groups, instance.nodes)
        columns += lies.size
        for group in range(groups):
            rows.add(lies[group], np.ones(instance.nodes), 1, 1)
        of_group = loads.reshape(windows, groups, -1).sum(axis=2) / instance.devices_per_node
        for node in range(instance.nodes):
            held = np.full(groups, float(instance.group_size))
            rows.add(lies[:, node], held, 0, instance.devices_per_node * instance.slots)
            for w in range(windows):
                means = np.append(-of_group[w] / unit, 1.0)
                rows.add(np.append(lies[:, node], peak[w]), means, 0, np.inf)
        # Nodes are alike: the first group lies in the first one.
        rows.add(lies[:1, 0], np.ones(1), 1, 1)
    cost, lower, upper = np.zeros(columns), np.zeros(columns), np.ones(columns)
    integer = np.ones(columns, dtype=np.int64)
    cost[peak], integer[peak] = instance.weights, 0
    lower[peak] = own / unit
    # No device needs more than all tokens.
    upper[peak] = np.maximum(loads.sum(axis=1), own) / unit
    matrix, row_lower, row_upper = rows.matrix(columns)
    program = Program(cost, lower, upper, integer, matrix, row_lower, row_upper)
    found = minimize(program, limit_s, max_nodes=max_nodes)
    return found.safe_bound(unit, objective_grid(instance))


class _Rows:
    """The rows of a program, one after the other."""

    def __init__(self) -> None:
        self.columns: list[Ints] = []
        self.entries: list[Vector] = []
        self.limits: list[tuple[float, float]] = []

    def add(self, columns: Ints, entries: Vector, lower: float, upper: float) -> None:
        """Add a row with these entries in these columns."""
        self.columns.append(columns)
        self.entries.append(np.asarray(entries, dtype=np.float64))
        self.limits.append((lower, upper))

    def matrix(self, columns: int) -> tuple[csr_array, Vector, Vector]:
        """Return the matrix, and the rows' lower and upper limits."""
        lengths = [len(row) for row in self.columns]
        at = np.repeat(np.arange(len(lengths)), lengths)
        entries = (np.concatenate(self.entries), (at, np.concatenate(self.columns)))
        limits = np.array(self.limits)
        matrix = csr_array(coo_array(entries, shape=(len(lengths), columns)))
        return matrix, limits[:, 0], limits[:, 1]
