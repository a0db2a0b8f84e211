"""Text that a trace reads twice: runs of tokens whose routing occurred before, in all layers.

A recording of conversations routes the first turn again in front of the second. A hold-out from
such a trace holds tokens that were decided on, and flatters whatever was fitted to them.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError, expect
from moeopt.sim.traces.trace import Ids, Trace

MIN_RUN = 20
"""Fewest equal tokens in a row that count as text read again. Single tokens occur twice in any
text, and prompts share their first words; in ESFT's traces no run has more than 11."""

MAX_SLIP = 4
"""Most tokens in a row that may differ inside a repeat: near-ties of a router fall either way when
a text is read again in another batch. More than this closes no further gap in HD-MoE's traces."""

CHUNK_IDS = 2**22
"""Ids that are hashed at a time: 32 MiB as integers of 64 bits."""

Positions = NDArray[np.int64]


class Repeat(NamedTuple):
    """A run of tokens that were routed before just so, up to `MAX_SLIP` that differ in a row.

    Attributes
    ----------
    start, length
        Position of its first token, and how many there are.
    first
        Where the same run begins for the first time; the two may overlap.
    """

    start: int
    length: int
    first: int


@dataclass(frozen=True)
class Repeats:
    """The repeats of a trace.

    Attributes
    ----------
    runs
        Ascending by `start`; they may overlap where a run repeats parts of several earlier ones.
    repeated
        Shape (tokens,), bool: True for the tokens of any of them.
    min_run
        Fewest tokens that were looked for.
    """

    runs: tuple[Repeat, ...]
    repeated: NDArray[np.bool_]
    min_run: int

    @property
    def tokens(self) -> int:
        """How many tokens lie in repeats."""
        return int(self.repeated.sum())

    @property
    def share(self) -> float:
        """The share of the tokens that lie in repeats, from 0 to 1."""
        return self.tokens / len(self.repeated) if len(self.repeated) else 0.0

    def __repr__(self) -> str:
        return f"<{len(self.runs)} repeats: {self.tokens} of {len(self.repeated)} tokens>"

    def in_words(self) -> str:
        """Return what a user of the trace should know, as one line."""
        runs = f"runs of {self.min_run} tokens and more"
        if not self.runs:
            return f"no {runs} that occur twice"
        return (
            f"{self.share:.1%} of the tokens lie in {runs} that occurred before; hold-outs from"
            " this trace would see tokens they were decided on: `moeopt trace dedupe`"
        )

    def to_dict(self) -> dict[str, object]:
        """Return share and size as JSON values."""
        return {
            "min_run": self.min_run,
            "runs": len(self.runs),
            "longest": max((run.length for run in self.runs), default=0),
            "tokens": self.tokens,
            "share": self.share,
        }


def find_repeats(trace: Trace, min_run: int = MIN_RUN) -> Repeats:
    """Return the runs of tokens whose routing occurred before, in all layers.

    Two tokens are equal if they have the same experts in every layer, in any order. A repeat begins
    with `min_run` equal tokens in a row and goes on, to both sides, as long as no more than
    `MAX_SLIP` tokens in a row differ at the same distance. Sequence boundaries mean nothing here.

    Parameters
    ----------
    trace
        Any trace; of n tokens.
    min_run
        Fewest equal tokens in a row, at least 1.

    Returns
    -------
    Repeats
        The runs with `start`, `length` and `first`, and a mark for every token.

    Raises
    ------
    InputError
        If `min_run` is less than 1.

    Notes
    -----
    Tokens are numbered by 64-bit hashes that are then compared with the ids themselves. Stretches
    of `min_run` tokens are numbered from those of half the length, which is exact (Karp, Miller and
    Rosenberg 1972, "Rapid identification of repeated patterns in strings, trees and arrays").
    Time O(n layers k + n log n log min_run) plus the tokens by which runs go on.

    Examples
    --------
    >>> import moeopt, numpy as np
    >>> from moeopt.sim.traces.trace import Trace
    >>> text = np.arange(60).reshape(30, 1, 2)  # 30 tokens, one layer, top-2
    >>> trace = Trace("two turns", np.concatenate([text, text[:25]]))
    >>> moeopt.find_repeats(trace).runs
    (Repeat(start=30, length=25, first=0),)
    """
    expect("trace", trace, Trace, what="a trace")
    expect("min_run", min_run, int, what="a whole number")
    if min_run < 1:
        raise InputError(f"min_run: must be at least 1, not {min_run}")
    token = _token_numbers(trace.topk_ids)
    start, end, shift = _exact_runs(token, min_run)
    sure = _covered(len(token), start, end)
    begin = _reach(token, sure, start - 1, shift, -1) + 1
    stop = _reach(token, sure, end, shift, 1)
    runs = _joined(begin, stop, shift)
    return Repeats(runs, _covered(len(token), begin, stop), min_run)


def dedupe_trace(trace: Trace, min_run: int = MIN_RUN) -> Trace:
    """Return a trace without the second and later occurrences of its repeats.

    Parameters
    ----------
    trace
        Any trace.
    min_run
        As for `find_repeats`.

    Returns
    -------
    Trace
        The rest, in its order. Sequences are shorter by what they repeat; those of which nothing is
        left are gone. `facts` say under "deduped" how many tokens were removed. A trace without
        repeats is returned as it is.

    Raises
    ------
    InputError
        As for `find_repeats`.

    Notes
    -----
    The remainder is searched again until it has no repeats, as removing one run can bring the two
    halves of another together. Every removed token has, up to `MAX_SLIP` in a row, the routing of
    an earlier one that is kept.

    Examples
    --------
    >>> import moeopt, numpy as np
    >>> from moeopt.sim.traces.trace import Trace
    >>> text = np.arange(60).reshape(30, 1, 2)  # 30 tokens, one layer, top-2
    >>> trace = Trace("two turns", np.concatenate([text, text[:25]]))
    >>> moeopt.dedupe_trace(trace).tokens
    30
    """
    return without(trace, find_repeats(trace, min_run))


def without(trace: Trace, found: Repeats) -> Trace:
    """Return what `dedupe_trace` returns, of a trace whose repeats have been found."""
    kept = np.arange(trace.tokens)
    runs, left = 0, trace
    while found.runs:
        runs += len(found.runs)
        kept = kept[~found.repeated]
        left = replace(trace, topk_ids=trace.topk_ids[kept])
        found = find_repeats(left, found.min_run)
    if not runs:
        return trace
    fact = {"min_run": found.min_run, "runs": runs}
    fact |= {"removed": trace.tokens - len(kept), "of": trace.tokens}
    return replace(
        left,
        topk_weights=None if trace.topk_weights is None else trace.topk_weights[kept],
        seq_len=None if trace.seq_len is None else _lengths(trace.seq_len, kept),
        decode=None if trace.decode is None else trace.decode[kept],
        facts=(trace.facts or {}) | {"deduped": fact},
    )


def _lengths(seq_len: Ids, kept: Positions) -> Ids:
    """Return the lengths of the sequences of which tokens are kept."""
    lengths = np.asarray(seq_len, dtype=np.int64)
    sequence = np.repeat(np.arange(len(lengths)), lengths)
    counts = np.bincount(sequence[kept], minlength=len(lengths))
    return counts[counts > 0].astype(seq_len.dtype)


def _token_numbers(ids: Ids) -> Positions:
    """Return a number for each token, shape (tokens,): equal where all layers' experts are."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        odd = rng.integers(2**63, size=ids[0].size if len(ids) else 0, dtype=np.uint64) * 2 + 1
        hashes = np.empty(len(ids), dtype=np.uint64)
        for part in _parts(ids):
            hashes[part] = _plain(ids[part]).astype(np.uint64) @ odd
        _, first, number = np.unique(hashes, return_index=True, return_inverse=True)
        first_like = first[number]
        if all((_plain(ids[part]) == _plain(ids[first_like[part]])).all() for part in _parts(ids)):
            return number.astype(np.int64)
    # Two tokens share a hash three times over: not by chance, but exactness costs only time.
    _, number = np.unique(_plain(ids), axis=0, return_inverse=True)
    return number.ravel().astype(np.int64)


def _parts(ids: Ids) -> list[slice]:
    size = max(1, CHUNK_IDS // max(1, ids[:1].size))
    return [slice(at, at + size) for at in range(0, len(ids), size)]


def _plain(ids: Ids) -> Ids:
    """Return tokens' experts, shape (tokens, layers * k), ascending in each layer."""
    return np.sort(ids, axis=2).reshape(len(ids), -1)


def _exact_runs(token: Positions, min_run: int) -> tuple[Positions, Positions, Positions]:
    """Return start, end and distance back of the runs of equal tokens, `min_run` and more."""
    name, size = token, 1
    while size < min_run and len(name):
        step = min(size, min_run - size)
        count = max(0, len(name) - step)
        pair = name[:count] * (len(token) + 1) + name[step : step + count]
        _, name = np.unique(pair, return_inverse=True)
        size += step
    _, first, number = np.unique(name, return_index=True, return_inverse=True)
    first_like = first[number].astype(np.int64)
    again = np.flatnonzero(first_like < np.arange(len(name)))
    shift = again - first_like[again]
    breaks = (np.diff(again) != 1) | (np.diff(shift) != 0)
    heads = np.flatnonzero(np.append(True, breaks)) if len(again) else again
    tails = np.flatnonzero(np.append(breaks, True)) if len(again) else again
    return again[heads], again[tails] + min_run, shift[heads]


def _reach(
    token: Positions, sure: NDArray[np.bool_], begin: Positions, shift: Positions, way: int
) -> Positions:
    """Return for each run the first position, from `begin` on, that is no longer part of it.

    All runs go on side by side, one token at a time, until too many tokens in a row differ or they
    come to an equal one that is part of a run already.
    """
    reached = begin.copy()
    at, back, slips = begin.copy(), shift, np.zeros_like(begin)
    run = np.arange(len(begin))
    while len(run):
        inside = (at >= back) & (at < len(token))
        run, at, back, slips = run[inside], at[inside], back[inside], slips[inside]
        equal = token[at] == token[at - back]
        slips = np.where(equal, 0, slips + 1)
        reached[run[equal]] = at[equal] + way
        on = (slips <= MAX_SLIP) & ~(equal & sure[at])
        run, at, back, slips = run[on], at[on] + way, back[on], slips[on]
    return reached


def _joined(begin: Positions, stop: Positions, shift: Positions) -> tuple[Repeat, ...]:
    """Return the runs by position, those of one distance that touch or overlap as one."""
    runs: list[tuple[int, int, int]] = []
    for back, start, end in sorted(zip(*(x.tolist() for x in (shift, begin, stop)), strict=True)):
        if runs and runs[-1][0] == back and start <= runs[-1][2]:
            runs[-1] = (back, runs[-1][1], max(end, runs[-1][2]))
        else:
            runs.append((back, start, end))
    return tuple(sorted(Repeat(start, end - start, start - back) for back, start, end in runs))


def _covered(tokens: int, start: Positions, end: Positions) -> NDArray[np.bool_]:
    """Return which tokens lie in any of the stretches, shape (tokens,)."""
    change = np.bincount(start, minlength=tokens + 1) - np.bincount(end, minlength=tokens + 1)
    covered: NDArray[np.bool_] = np.cumsum(change)[:tokens] > 0
    return covered
