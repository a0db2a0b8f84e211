"""Where the experts lie before a step: TriMoE's static rule, decided on loads of other steps."""

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator

from moeopt.core.envelope import field_error
from moeopt.core.errors import InputError
from moeopt.problems.cold_cut import ColdCut
from moeopt.sim.source import Source

from .expert import STRIPED as STRIPED
from .expert import Layout as Layout


def cold_localized(
    load: NDArray[np.int64],
    dimms: int,
    cold_cut: str | float,
    residents: int,
    ndp_ns: NDArray[np.int64] | None = None,
) -> Layout:
    """Localize the coldest experts, stripe the rest, keep the hottest on the GPU (TriMoE 4.3).

    Parameters
    ----------
    load
        Tokens per expert that the rule may look at, shape (experts,).
    dimms
        Number of DIMMs. The cold experts go to them in turn, by falling load (ties: lowest id).
    cold_cut
        Which experts count as cold, as `moeopt.problems.cold_cut.ColdCut` reads it: the paper says
        "over 70% of all experts but processes only 8% of tokens" (3.1). A number is a share of the
        experts.
    residents
        How many of the hottest experts are resident; they keep their host copy.
    ndp_ns
        NDP time of every expert, shape (experts,). If given, each cold expert goes to the DIMM that
        has least of it so far (ties: lowest DIMM), instead of in turn.

    Raises
    ------
    InputError
        If `cold_cut` is no cut.
    """
    order = np.lexsort((np.arange(len(load)), -load))
    cut = ColdCut.parse(cold_cut) if isinstance(cold_cut, str) else ColdCut("experts", cold_cut)
    cold = order[len(load) - cut.count(load.tolist()) :]
    dimm = np.full(len(load), STRIPED)
    dimm[cold] = np.arange(len(cold)) % dimms if ndp_ns is None else _balanced(ndp_ns[cold], dimms)
    resident = np.zeros(len(load), dtype=np.bool_)
    resident[order[:residents]] = True
    return Layout(resident, dimm)


def expected_ndp_ns(source: Source, load: NDArray[np.int64], chosen: int) -> NDArray[np.int64]:
    """Return what NDP is expected to take for each expert in a step, in ns, shape (experts,).

    Parameters
    ----------
    load
        Tokens per expert that the rule may look at, of any number of steps, shape (experts,).
    chosen
        Tokens of the step, each counted for every expert that it is sent to.

    Notes
    -----
    The load is scaled to the step. Less than one token is one that does not always come.
    """
    expected = load * (chosen / max(int(load.sum()), 1))
    tokens = np.maximum(np.rint(expected), 1).astype(np.int64)
    ndp_ns = source.costs.path_ns("ndp", tokens, source.quantum_ns)
    return np.asarray(np.rint(ndp_ns * np.minimum(expected, 1.0)), dtype=np.int64)


def _checked(text: str) -> str:
    try:
        ColdCut.parse(text)
    except InputError as error:
        reason = str(error).removeprefix("cold_cut: ")
        raise field_error([], reason.translate({ord("{"): "(", ord("}"): ")"})) from None
    return text


CutOption = Annotated[str, AfterValidator(_checked)]
"""An option that holds a cut, as ``"tokens 0.08"``."""


def _balanced(ndp_ns: NDArray[np.int64], dimms: int) -> NDArray[np.int64]:
    """Return a DIMM for each expert, in the order given, always the emptiest."""
    busy = np.zeros(dimms, dtype=np.int64)
    dimm = np.empty(len(ndp_ns), dtype=np.int64)
    for row, cost in enumerate(ndp_ns.tolist()):
        dimm[row] = int(busy.argmin())
        busy[dimm[row]] += cost
    return dimm
