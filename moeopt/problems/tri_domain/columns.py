"""The experts of an instance as arrays, for vectorised algorithms."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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


def columns_of(pairs: Sequence[tuple[Any, Any]]) -> Columns:
    """Return the arrays of some experts, each with the copy of it that counts.

    Parameters
    ----------
    pairs
        An `instance.Expert` each, and itself or one of its `instance.Copy`.
    """

    def column(values: Iterable[int | None], null: int = 0) -> NDArray[np.int64]:
        return np.array([null if v is None else v for v in values], dtype=np.int64)

    of_copies = ("gpu_ns", "cpu_ns", "ndp_ns", "gpu_dram_ns", "cpu_dram_ns")
    return Columns(
        **{name: column(getattr(e, name) for e, _ in pairs) for name in ("expert", "tokens")},
        **{
            name: column(getattr(lie, name) for _, lie in pairs)
            for name in (*of_copies, "gpu_work_ns", "pcie_ns")
        },
        dimm=column((lie.dimm for _, lie in pairs), STRIPED),
        resident=column(expert.resident for expert, _ in pairs).astype(np.bool_),
    )
