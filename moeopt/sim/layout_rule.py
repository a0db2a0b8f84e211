"""Where the experts lie before a step: TriMoE's static rule, decided on an earlier window."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

STRIPED = -1


@dataclass(frozen=True)
class Layout:
    """For each expert, whether it is resident on the GPU, and its DIMM (`STRIPED` if on all)."""

    resident: NDArray[np.bool_]
    dimm: NDArray[np.int64]


def cold_localized(
    load: NDArray[np.int64],
    dimms: int,
    cold_share: float,
    residents: int,
    ndp_ns: NDArray[np.int64] | None = None,
) -> Layout:
    """Localize the coldest experts, stripe the rest, keep the hottest on the GPU (TriMoE 4.3).

    Parameters
    ----------
    load
        Tokens per expert in the window that the rule may look at, shape (experts,).
    dimms
        Number of DIMMs. The cold experts go to them in turn, by falling load (ties: lowest id).
    cold_share
        Share of the experts that counts as cold; the paper says "over 70%" (3.1).
    residents
        How many of the hottest experts are resident; they keep their host copy.
    ndp_ns
        NDP time of every expert, shape (experts,). If given, each cold expert goes to the DIMM that
        has least of it so far (ties: lowest DIMM), instead of in turn.
    """
    order = np.lexsort((np.arange(len(load)), -load))
    cold = order[len(load) - round(cold_share * len(load)) :]
    dimm = np.full(len(load), STRIPED)
    dimm[cold] = np.arange(len(cold)) % dimms if ndp_ns is None else _balanced(ndp_ns[cold], dimms)
    resident = np.zeros(len(load), dtype=np.bool_)
    resident[order[:residents]] = True
    return Layout(resident, dimm)


def _balanced(ndp_ns: NDArray[np.int64], dimms: int) -> NDArray[np.int64]:
    """Return a DIMM for each expert, in the order given, always the emptiest."""
    busy = np.zeros(dimms, dtype=np.int64)
    dimm = np.empty(len(ndp_ns), dtype=np.int64)
    for row, cost in enumerate(ndp_ns.tolist()):
        dimm[row] = int(busy.argmin())
        busy[dimm[row]] += cost
    return dimm
