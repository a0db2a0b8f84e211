"""The experts of an instance as arrays, for vectorised algorithms."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

STRIPED = -1
"""In the place of a DIMM: the expert lies on all of them."""


class Layout(NamedTuple):
    """Which experts are resident, and each expert's DIMM (`STRIPED` if on all); (experts,) each.

    `copies` has the DIMMs of each expert's further copies, and is empty where there are none.
    """

    resident: NDArray[np.bool_]
    dimm: NDArray[np.int64]
    copies: Sequence[Sequence[int]] = ()


@dataclass(frozen=True)
class Columns:
    """The experts as arrays of shape (experts,), for vectorised algorithms.

    `dimm` is `STRIPED` and `ndp_ns` is 0 where the expert is striped. `gpu_work_ns` is `gpu_ns` and
    `pcie_ns` 0 where a run on the GPU is one piece of work.
    """

    expert: NDArray[np.int64]
    tokens: NDArray[np.int64]
    resident: NDArray[np.bool_]
    dimm: NDArray[np.int64]
    gpu_ns: NDArray[np.int64]
    cpu_ns: NDArray[np.int64]
    ndp_ns: NDArray[np.int64]
    gpu_dram_ns: NDArray[np.int64]
    cpu_dram_ns: NDArray[np.int64]
    gpu_work_ns: NDArray[np.int64]
    pcie_ns: NDArray[np.int64]


WHOLE = ("expert", "tokens", "resident", "gpu_ns", "cpu_ns", "gpu_dram_ns", "cpu_dram_ns")
FIELDS = itemgetter(*WHOLE, "dimm", "ndp_ns", "gpu_calc_ns", "pcie_ns")


def columns_of(rows: Iterable[Mapping[str, int | None]]) -> Columns:
    """Return the arrays of some experts, from the fields of each with the copy that counts."""
    *whole, dimm, ndp, calc, pcie = zip(*map(FIELDS, rows), strict=True)
    size = len(dimm)
    numbers = np.fromiter(chain.from_iterable(whole), np.int64, len(WHOLE) * size)
    expert, tokens, resident, gpu, cpu, gpu_dram, cpu_dram = numbers.reshape(-1, size)
    work = gpu if None in calc else _filled(calc, 0)  # all have two parts, or none
    return Columns(
        *(expert, tokens, resident > 0, _filled(dimm, STRIPED), gpu, cpu, _filled(ndp, 0)),
        *(gpu_dram, cpu_dram, work, _filled(pcie, 0)),
    )


def _filled(values: Sequence[int | None], null: int) -> NDArray[np.int64]:
    """Return numbers, and `null` where there is none."""
    if None in values:
        values = [null if value is None else value for value in values]
    return np.array(values, np.int64)
