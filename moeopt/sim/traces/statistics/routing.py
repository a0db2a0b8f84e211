"""A trace made ready for counting: layers first, every expert of a token once, sequences marked."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.sim.traces.trace import Trace

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Routing:
    """What all statistics start from.

    Attributes
    ----------
    ids
        Shape (layers, tokens, k), int32: the experts of each token, -1 where there is none. An
        expert that a token lists twice stands once.
    experts
        Experts per layer.
    starts
        Shape (tokens,): True at the first token of every sequence.
    decode
        Shape (tokens,): True at decoded tokens; None if the trace does not say.
    main
        Shape (layers, tokens): the expert of the largest weight, or the first listed one where
        there are no weights; -1 where there is none.
    """

    ids: NDArray[np.int32]
    experts: int
    starts: Flags
    decode: Flags | None
    main: NDArray[np.int32]

    @property
    def layers(self) -> int:
        """Number of layers with experts."""
        return int(self.ids.shape[0])

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        return int(self.ids.shape[1])

    @property
    def top_k(self) -> int:
        """Experts that a token can have at a layer."""
        return int(self.ids.shape[2])

    @property
    def sequence(self) -> Ints:
        """Number of the sequence that each token belongs to, from 0, shape (tokens,)."""
        return np.cumsum(self.starts) - 1

    @classmethod
    def of(
        cls, trace: Trace, experts: int | None = None, layers: list[int] | None = None
    ) -> "Routing":
        """Return the routing of a trace.

        Parameters
        ----------
        trace
            Any trace.
        experts
            Experts per layer; by default the highest id in the trace plus one.
        layers
            Layers to look at; by default all.

        Raises
        ------
        InputError
            If the trace is empty, has no expert at all or one beyond `experts`, if a layer is not
            in it, or if the sequences do not add up to its tokens.
        """
        wanted = list(range(trace.layers)) if layers is None else layers
        for layer in wanted:
            if not 0 <= layer < trace.layers:
                raise InputError(f"layer: must be from 0 to {trace.layers - 1}, not {layer}")
        highest = int(trace.topk_ids.max()) if trace.topk_ids.size else -1
        if highest < 0:
            raise InputError(f"{trace.name}: topk_ids: no token has an expert")
        if experts is not None and highest >= experts:
            raise InputError(f"experts: must be above the trace's expert {highest}, not {experts}")
        chosen = trace.topk_ids[:, wanted].transpose(1, 0, 2)
        ids = np.ascontiguousarray(chosen, dtype=np.int32)
        main = _main(ids, trace, wanted)
        starts = _starts(trace)
        return cls(_once(ids), experts or highest + 1, starts, trace.decode, main)


def ratio(part: NDArray[np.generic], whole: NDArray[np.generic] | int) -> Floats:
    """Return part / whole, NaN where there is nothing to divide by."""
    above, below = np.broadcast_arrays(np.asarray(part, float), np.asarray(whole, float))
    quotient = np.full(above.shape, np.nan)
    np.divide(above, below, out=quotient, where=below != 0)
    return quotient


def average(values: NDArray[np.float64]) -> float:
    """Return the mean of what is known, NaN if nothing is."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")


def counted(group: Ints, ids: NDArray[np.int32], groups: int, experts: int) -> Ints:
    """Return how many tokens of each group each expert gets.

    Parameters
    ----------
    group
        Shape (tokens,): a number below `groups`, or -1 for tokens that do not count.
    ids
        Shape (tokens, k): one layer's experts.
    groups, experts
        The shape of the result, (groups, experts).
    """
    cell = group[:, None] * experts + ids
    used = cell[(group >= 0)[:, None] & (ids >= 0)]
    return np.bincount(used, minlength=groups * experts).reshape(groups, experts)


def _once(ids: NDArray[np.int32]) -> NDArray[np.int32]:
    """Replace every repetition of an expert within a token by -1."""
    ids = np.where(ids < 0, -1, ids).astype(np.int32)
    for later in range(1, ids.shape[2]):
        for earlier in range(later):
            ids[..., later][ids[..., later] == ids[..., earlier]] = -1
    return ids


def _main(ids: NDArray[np.int32], trace: Trace, layers: list[int]) -> NDArray[np.int32]:
    if trace.topk_weights is None:
        return ids[..., 0].copy()
    weights = trace.topk_weights[:, layers].transpose(1, 0, 2).astype(np.float64)
    best = np.where(ids < 0, -np.inf, weights).argmax(axis=2)
    return np.take_along_axis(ids, best[..., None], axis=2)[..., 0]


def _starts(trace: Trace) -> Flags:
    starts = np.zeros(trace.tokens, dtype=np.bool_)
    starts[0] = True
    if trace.seq_len is not None:
        lengths = np.asarray(trace.seq_len, dtype=np.int64)
        if lengths.sum() != trace.tokens or (lengths < 0).any():
            raise InputError(f"{trace.name}: seq_len: does not add up to {trace.tokens} tokens")
        begins = np.cumsum(lengths) - lengths
        starts[begins[lengths > 0]] = True
    return starts
