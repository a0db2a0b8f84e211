"""Splitting a trace in two: one part to decide on, one to see how the decision does later."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.core.problem import HELD_OUT
from moeopt.sim.traces.repeats import MIN_RUN, dedupe_trace
from moeopt.sim.traces.trace import Tokens, Trace


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
