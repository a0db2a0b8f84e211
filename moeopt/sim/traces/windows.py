"""The windows of one layer's trace: the loads that instances with several windows are made of.

Splitting a trace in two: one part to decide on, one to see how the decision does later. And the
fields of schema 2 of the TriMoE problems, by the assumptions that it can express.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from moeopt.core.envelope import MAX_NUMBER, Frozen
from moeopt.core.errors import InputError
from moeopt.core.problem import HELD_OUT
from moeopt.sim.costs.quanta import NS_PER_S, to_quanta
from moeopt.sim.source import Source

from .repeats import MIN_RUN, dedupe_trace
from .trace import Batching, Tokens, Trace, all_step_tokens

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


STREAMS_SAID = "how tokens make up a batch; of a workload, which is drawn step by step: window"


class LayerOptions(WindowOptions):
    """Batches, the DIMMs that experts lie on, and how fast their units are."""

    batching: Annotated[Batching, Field(description=STREAMS_SAID)] = "streams"

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
    members
        The tokens of each window, those drawn for an offline trace alone at the end.
    total
        How many windows there are, without these.
    """

    trace: Trace
    options: WindowOptions
    experts: int
    members: list[Tokens]
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
            why = "" if source.workload is None else f": {trace.name} has no more layers"
            raise InputError(f"layer: must be below {trace.layers}, not {options.layer}{why}")
        members = all_step_tokens(trace, options.batch, options.batching)
        total = len(members) if source.workload is None else drawn
        return cls(trace, options, source.model.routed_experts, members, total)

    def load(self, window: int) -> NDArray[np.int64]:
        """Return the tokens of every expert in a window, shape (experts,)."""
        return self.trace.counts(self.members[window], self.options.layer, self.experts)

    def load_without(self, executed: Collection[int]) -> NDArray[np.int64]:
        """Return the tokens of every expert in all windows but these, shape (experts,)."""
        kept = [of for window, of in enumerate(self.members) if window not in executed]
        tokens = np.concatenate(kept) if kept else np.zeros(0, dtype=np.int64)
        return self.trace.counts(tokens, self.options.layer, self.experts)

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


def hold_out(
    trace: Trace,
    share: float = 0.5,
    batch: int = 1,
    seed: int | None = None,
    min_run: int | None = MIN_RUN,
) -> tuple[Trace, Trace]:
    """Split a trace into a part to decide on and a held-out part.

    What the trace reads twice is removed first, or the held-out part would hold tokens that were
    decided on; see `moeopt.dedupe_trace`.

    Parameters
    ----------
    trace
        Split between sequences where it knows two or more, else at a position.
    share
        Share of the tokens (of the sequences, if known) that is held out, between 0 and 1; each
        part gets at least one sequence, or one step.
    batch
        Tokens per step: a split at a position falls between two steps, so that the steps of the
        two parts together are those of the whole trace, for batching "window".
    seed
        Draws the sequences that are held out; without one they are the last ones. The order of
        sequences is kept. Without effect on a split at a position.
    min_run
        Fewest tokens in a row that count as read twice; None: the trace is split as it is.

    Returns
    -------
    tuple
        Both parts; their `facts` say under "split" how, and under "deduped" what was removed.

    Raises
    ------
    InputError
        If the trace is too short to be split, or a number is out of range.
    """
    if not 0 < share < 1:
        raise InputError(f"share: must lie between 0 and 1, not {share}")
    if batch < 1:
        raise InputError(f"batch: must be at least 1, not {batch}")
    if min_run is not None:
        trace = dedupe_trace(trace, min_run)
    if trace.seq_len is not None and len(trace.seq_len) >= 2:
        return _by_sequence(trace, share, seed)
    return _by_position(trace, share, batch)


def _by_sequence(trace: Trace, share: float, seed: int | None) -> tuple[Trace, Trace]:
    lengths = np.asarray(trace.seq_len, dtype=np.int64)
    count = _inner(round(share * len(lengths)), len(lengths))
    later = np.zeros(len(lengths), dtype=bool)
    if seed is None:
        later[-count:] = True
    else:
        later[np.random.default_rng(seed).permutation(len(lengths))[:count]] = True
    of_token = np.repeat(later, lengths)
    how = {"by": "sequence", "held_out": count, "of": len(lengths), "seed": seed}
    parts = [
        _part(trace, np.flatnonzero(of_token == side), lengths[later == side], how, bool(side))
        for side in (False, True)
    ]
    return parts[0], parts[1]


def _by_position(trace: Trace, share: float, batch: int) -> tuple[Trace, Trace]:
    steps = trace.tokens // batch
    if steps < 2:
        deduped = (trace.facts or {}).get("deduped")
        left = "" if deduped is None else f" left of {deduped['of']} without repeats"
        tokens = f"{trace.tokens} tokens{left}"
        raise InputError(f"{trace.name}: {tokens} are not two steps of {batch}")
    cut = (steps - _inner(round(share * steps), steps)) * batch
    how = {"by": "position", "at": cut, "of": trace.tokens}
    places = np.arange(trace.tokens)
    first, second = (
        _part(trace, tokens, None if trace.seq_len is None else np.array([len(tokens)]), how, side)
        for tokens, side in ((places[:cut], False), (places[cut:], True))
    )
    return first, second


def _inner(count: int, of: int) -> int:
    return min(max(count, 1), of - 1)


def _part(
    trace: Trace,
    tokens: Tokens,
    seq_len: NDArray[np.generic] | None,
    how: dict[str, object],
    held_out: bool,
) -> Trace:
    part = HELD_OUT if held_out else "kept"
    return replace(
        trace,
        topk_ids=trace.topk_ids[tokens],
        topk_weights=None if trace.topk_weights is None else trace.topk_weights[tokens],
        seq_len=seq_len,
        decode=None if trace.decode is None else trace.decode[tokens],
        facts=(trace.facts or {}) | {"split": how | {"part": part}},
    )


PER_CHANNEL = 2
"""DIMMs of a memory channel: TriMoE Table 1, "8 channels x 2 DIMM"."""


class MemoryOptions(LayerOptions):
    """What schema 2 can express of the host's memory and the GPU; the defaults are schema 1."""

    dimm_share: Annotated[
        Literal["1", "1/2"], Field(description="part of a striped read that each DIMM is busy with")
    ] = "1"
    channels: Annotated[
        Literal["none", "two DIMMs each"], Field(description="memory channels that limit reads")
    ] = "none"
    gpu_base: Annotated[
        Literal["none", "shared experts"], Field(description="GPU's work before routed experts")
    ] = "none"
    gpu_work: Annotated[
        Literal["one path", "two parts"],
        Field(description="whether transfers and computation on the GPU overlap"),
    ] = "one path"


def memory_fields(
    source: Source, options: MemoryOptions, dimms: int, tokens: int
) -> dict[str, object]:
    """Return the optional fields of an instance about the host's memory.

    Parameters
    ----------
    dimms
        DIMMs of the instance; 2c and 2c + 1 share a channel.
    tokens
        Tokens of the step: every one passes through the shared experts.

    Returns
    -------
    dict
        Empty if all options are as in schema 1.
    """
    fields: dict[str, object] = {}
    if options.dimm_share != "1":
        fields["dimm_share"] = (1, 2)
    if options.channels != "none":
        fields["channels"] = tuple(dimm // PER_CHANNEL for dimm in range(dimms))
    if options.gpu_base != "none":
        seconds = source.costs.shared_s(tokens)
        fields["gpu_base_ns"] = int(to_quanta(seconds * NS_PER_S, source.quantum_ns))
    return fields


def parts_ns(source: Source, tokens: ArrayLike) -> tuple[NDArray[np.int64], int]:
    """Return the two parts of an expert that the GPU fetches: its computation, its transfer.

    Eq. 2 has three terms, of which each keeps another resource busy: the GPU, PCIe, and the DIMMs,
    whose rows have the read already. The link is busy for as long as it takes to move the bytes,
    however the expert lies.

    Parameters
    ----------
    tokens
        Token counts, each at least 1.
    """
    quantum = source.quantum_ns
    calculation = to_quanta(source.costs.computation_s("gpu", tokens) * NS_PER_S, quantum)
    return calculation, source.costs.transfer_ns(quantum)
