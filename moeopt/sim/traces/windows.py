"""The windows of one layer's trace: the loads that instances with several windows are made of."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moeopt.core.envelope import MAX_NUMBER, Frozen
from moeopt.core.errors import InputError
from moeopt.sim.source import Source
from moeopt.sim.traces.trace import UNUSED, Batching, Trace, step_of_token, step_tokens, steps

MAX_SYNTHETIC_TOKENS = 2**22
"""Most tokens that are drawn for one instance."""


OFFLINE_STEPS = 16
"""Steps of a workload that are drawn for the offline trace alone."""

MAX_OFFLINE_TOKENS = 2**18
"""Most tokens of these, but for one step, which is drawn whatever its size."""

LayoutFrom = Literal["offline trace", "last step"]
"""What a layout is decided from.

"offline trace": the tokens of every step of the trace but the executed ones, summed: TriMoE sets
its initial layout "via offline trace analysis" (4.3). Steps that come later count as well: the
offline trace is a sample of the workload, recorded at some other time. The executed steps never do.
"last step": the step before the executed one.
"""

LayoutLoads = dict[str, list[int]]
"""`LayoutFrom` -> tokens of every expert; in provenance, so that a layout can be decided anew."""


def offline_steps(batch: int) -> int:
    """Return how many steps of a workload make up its offline trace."""
    return min(OFFLINE_STEPS, max(MAX_OFFLINE_TOKENS // batch, 1))


class WindowOptions(Frozen):
    """Which layer of the trace, and how its tokens make up windows."""

    batch: Annotated[int, Field(ge=1, le=2**16, description="tokens in a window")] = 256
    layer: Annotated[int, Field(ge=0, le=4096, description="layer of the trace, from 0")] = 0
    batching: Annotated[
        Batching, Field(description="how tokens make up a window; see moeopt.sim.traces.trace")
    ] = "window"


def _as_stated(rate: float) -> bool:
    """Tell whether units run as the machine says: then provenance does not mention it."""
    return rate == 1.0


class LayerOptions(WindowOptions):
    """Windows, the DIMMs that experts lie on, and how fast their units are."""

    dimms: Annotated[
        int | None, Field(ge=1, le=1024, description="DIMMs, if not the machine's number")
    ] = None
    ndp_rate: Annotated[
        float,
        Field(gt=0, le=1000, exclude_if=_as_stated, description="speed-up of the NDP units"),
    ] = 1.0


@dataclass(frozen=True)
class LayerWindows:
    """One layer of a trace, cut into windows.

    Attributes
    ----------
    total
        How many windows there are, without those drawn for an offline trace alone.
    """

    trace: Trace
    options: WindowOptions
    experts: int
    total: int

    @classmethod
    def of(
        cls, source: Source, options: WindowOptions, drawn: int, offline: int = 0
    ) -> "LayerWindows":
        """Return the windows of a real trace, or those drawn from a synthetic one.

        Parameters
        ----------
        drawn, offline
            How many windows are drawn, and how many after them that count for `load_without` alone.
            With a plain workload the latter leave the former as they are.

        Raises
        ------
        InputError
            If the trace does not fit the model, or has no such layer.
        """
        if source.workload is not None and options.batching != "window":
            raise InputError("batching: must be window for a workload, which is drawn step by step")
        if source.workload is not None and drawn * options.batch > MAX_SYNTHETIC_TOKENS:
            reason = f"{drawn} windows of {options.batch} tokens are more than"
            raise InputError(f"batch: {reason} {MAX_SYNTHETIC_TOKENS} tokens")
        most = MAX_SYNTHETIC_TOKENS // options.batch
        trace = source.trace_of(options.batch, min(drawn + offline, max(most, drawn)))
        if options.layer >= trace.layers:
            raise InputError(f"layer: must be below {trace.layers}, not {options.layer}")
        total = steps(trace, options.batch, options.batching)
        if source.workload is not None:
            total = drawn
        return cls(trace, options, source.model.routed_experts, total)

    def load(self, window: int) -> NDArray[np.int64]:
        """Return the tokens of every expert in a window, shape (experts,)."""
        o = self.options
        tokens = step_tokens(self.trace, o.batch, window, o.batching)
        return self.trace.counts(tokens, o.layer, self.experts)

    def load_without(self, executed: Collection[int]) -> NDArray[np.int64]:
        """Return the tokens of every expert in all windows but these, shape (experts,)."""
        o = self.options
        window = step_of_token(self.trace, o.batch, o.batching)
        kept = (window != UNUSED) & ~np.isin(window, list(executed))
        return self.trace.counts(np.flatnonzero(kept), o.layer, self.experts)

    def choose(self, name: str, given: int | None, low: int, after: int, seed: int) -> int:
        """Return the window that was asked for, or one that the seed draws.

        Parameters
        ----------
        name, given
            The option and its value; None to draw one.
        low, after
            How many windows must come before the chosen one, and how many after it.

        Raises
        ------
        InputError
            If the trace has too few windows, or the one asked for leaves too few.
        """
        high = self.total - 1 - after
        if high < low:
            need = low + 1 + after
            have = f"{self.trace.name} has {self.total} of {self.options.batch} tokens"
            raise InputError(f"batch: needs a trace of {need} windows, {have}")
        if given is None:
            return int(np.random.default_rng(seed).integers(low, high + 1))
        if not low <= given <= high:
            raise InputError(f"{name}: must be from {low} to {high}, not {given}")
        return given


def spread(values: NDArray[np.int64], active: NDArray[np.bool_]) -> tuple[int, ...]:
    """Return the values of the active experts in the places of all experts, 0 elsewhere."""
    full = np.zeros(len(active), dtype=np.int64)
    full[active] = values
    return tuple(full.tolist())


def to_ns(microseconds: float, name: str) -> int:
    """Return a duration given in us as whole ns, rounded down.

    Raises
    ------
    InputError
        If it is above the largest number of an instance.
    """
    ns = int(microseconds * 1000)
    if ns > MAX_NUMBER:
        raise InputError(f"{name}: must be at most {MAX_NUMBER / 1000:g} us, not {microseconds:g}")
    return ns
