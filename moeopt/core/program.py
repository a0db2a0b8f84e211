"""A mixed-integer program as arrays."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Vector = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Program:
    """Minimise ``cost @ x + constant``, ``row_lower <= rows @ x <= row_upper``, x within bounds.

    Arrays have the shape (columns,) or (rows,); `integer` is 0 for a continuous column. MILP
    solvers work to absolute tolerances: keep numbers below 1e7, and check what they say in
    integers.
    """

    cost: Vector
    lower: Vector
    upper: Vector
    integer: Ints
    rows: csr_array
    row_lower: Vector
    row_upper: Vector
    constant: float = 0.0
