"""A bound for several windows: they share the numbers of copies."""

import numpy as np
from scipy.sparse import coo_array, csr_array

from moeopt.numeric.highs import Program, minimize

from .bounds import objective_grid, window_bounds
from .instance import Instance

LARGEST = 10**7
"""Numbers that HiGHS takes well, in the program's units."""


def copies_bound(instance: Instance, limit_s: float, max_nodes: int) -> int | None:
    """Return the least weighted sum of peaks that numbers of copies allow; None if unknown.

    Proof. In a placement let z_ek = 1 if expert e has k copies. Then sum_k z_ek = 1, the sum of k
    z_ek is at most the number of slots, and the fullest device of window w has at least sum_k
    (l_we / k) z_ek for each e, even if tokens are split freely, and at least the window's own
    bound. So the placement gives a solution of this program with its own peaks.
    """
    experts, windows, most = instance.experts, len(instance.windows), instance.most_copies
    own = window_bounds(instance)
    unit = instance.units_per_token
    while int(instance.weights.max()) * int(instance.loads_units.max()) > LARGEST * unit:
        unit *= 10
    copies = np.arange(1, most + 1)
    pairs = experts * most
    # An expert matters in a window only where a single copy would have more than the window's own
    # bound.
    window, expert = np.nonzero(instance.loads_units > own[:, None])
    rows = np.arange(len(window))
    shares = instance.loads_units[window, expert][:, None] / copies / unit
    column = expert[:, None] * most + copies - 1
    first = len(rows)
    every = np.arange(pairs)
    entries = np.concatenate(
        [-shares.ravel(), np.ones(first), np.ones(pairs), np.tile(copies, experts)]
    )
    row = np.concatenate(
        [
            np.repeat(rows, most),
            rows,
            first + every // most,
            np.full(pairs, first + experts),
        ]
    )
    columns = np.concatenate([column.ravel(), pairs + window, every, every])
    shape = (first + experts + 1, pairs + windows)
    matrix = csr_array(coo_array((entries, (row, columns)), shape=shape))
    row_lower = np.concatenate([np.zeros(first), np.ones(experts), [0.0]])
    slots = instance.devices * instance.slots
    row_upper = np.concatenate([np.full(first, np.inf), np.ones(experts), [slots]])
    cost = np.concatenate([np.zeros(pairs), instance.weights.astype(np.float64)])
    lower = np.concatenate([np.zeros(pairs), own / unit])
    highest = instance.loads_units.max(axis=1)
    upper = np.concatenate([np.ones(pairs), np.maximum(highest, own) / unit])
    integer = np.concatenate([np.ones(pairs), np.zeros(windows)]).astype(np.int64)
    program = Program(cost, lower, upper, integer, matrix, row_lower, row_upper)
    found = minimize(program, limit_s, max_nodes=max_nodes)
    return found.safe_bound(unit, objective_grid(instance))
