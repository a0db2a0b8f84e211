"""What the compiled functions work on: named tuples of arrays, which Numba knows."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Steps(NamedTuple):
    """The steps; row ``step * layers + layer``, entry: an expert with tokens in a row.

    Attributes
    ----------
    start
        Where a row's entries begin, and the end of the last, shape (rows + 1,).
    expert
        Shape (entries,), like all that follow.
    gpu_ns, cpu_ns, copy_ns
        Its times by width, shape (entries, widths).
    late_loss
        Its loss if it is deferred.
    seen
        Whether the layer used it before.
    """

    start: Ints
    expert: Ints
    gpu_ns: Ints
    cpu_ns: Ints
    copy_ns: Ints
    late_loss: Ints
    seen: Flags


class Frame(NamedTuple):
    """What a context's layers take besides their routed experts; arrays of shape (layers,).

    Attributes
    ----------
    idle_ns
        How much later than the end of attention the CPU counts as free where it has no experts;
        see `relaxation`.
    step_ns, hand_over_ns
        Before the first layer, and from GPU to CPU or back.
    host_copy
        Whether residents may run on the CPU.
    """

    attention_ns: Ints
    shared_ns: Ints
    idle_ns: Ints
    step_ns: int
    hand_over_ns: int
    host_copy: bool


class Decisions(NamedTuple):
    """Residents and places of widths, shape (layers, experts); ways and deferred, (layers,).

    With them what follows: which entries a cache holds when they are used, residents left out.
    """

    held: Flags
    width: Ints
    ways: Ints
    deferred: Ints
    hit: Flags
