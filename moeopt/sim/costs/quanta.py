"""Durations as multiples of a quantum: here, once, floats become integers."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from moeopt.core.envelope import MAX_NUMBER
from moeopt.core.errors import InputError

NS_PER_S = 1e9
DEFAULT_QUANTUM_NS = 5000

Times = NDArray[np.int64]


def to_quanta(ns: ArrayLike, quantum_ns: int) -> Times:
    """Round durations up to multiples of the quantum.

    What comes here is elementary arithmetic on rates that are rounded (`moeopt.core.rounding`).
    """
    quanta = np.ceil(np.asarray(ns, dtype=float) / quantum_ns - 1e-9)
    if (longest := float(quanta.max(initial=0)) * quantum_ns) > MAX_NUMBER:
        raise InputError(f"machine, model: a cost of {longest:.3g} ns is above {MAX_NUMBER} ns")
    return quanta.astype(np.int64) * quantum_ns
