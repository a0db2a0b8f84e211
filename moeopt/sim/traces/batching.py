"""Cutting a routing trace into the steps in which a machine works through it.

A step is a set of tokens that pass through a layer together. All functions here work on positions
of tokens in the trace; nothing is copied.
"""

from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError

Batching = Literal["window", "streams", "sequences", "prefill"]
"""How tokens are put together into steps.

"window": consecutive tokens, as when one long text is worked through in chunks.
"streams": readers at equal distances in the trace, each one token further at every step, as when
that many sequences are decoded together.
"sequences": the real sequences, decoded side by side.
"prefill": whole prompts.
"""

Tokens = NDArray[np.int64]
"""Positions of tokens in a trace."""

UNUSED = -1
"""Step number of a token that is in no step."""


class Sequenced(Protocol):
    """What batching needs of a trace; see `moeopt.sim.traces.trace.Trace` for the meaning."""

    @property
    def name(self) -> str:
        """Where it comes from."""

    @property
    def tokens(self) -> int:
        """Number of tokens."""

    @property
    def seq_len(self) -> NDArray[np.generic] | None:
        """Lengths of the sequences, shape (sequences,)."""

    @property
    def decode(self) -> NDArray[np.bool_] | None:
        """Which tokens were generated, shape (tokens,)."""


def steps(trace: Sequenced, batch: int, batching: Batching = "window") -> int:
    """Return how many steps of at most `batch` tokens, sequences or prompts a trace gives.

    Raises
    ------
    InputError
        If the trace lacks what the batching needs; see `step_of_token`.
    """
    if batching in ("window", "streams"):
        return trace.tokens // batch
    return int(step_of_token(trace, batch, batching).max(initial=UNUSED)) + 1


def step_tokens(trace: Sequenced, batch: int, step: int, batching: Batching) -> Tokens:
    """Return the positions of the tokens that make up a step, ascending.

    Parameters
    ----------
    trace, batch, step
        Step number `step`, from 0 to ``steps(trace, batch, batching) - 1``; see `step_of_token`
        for the meaning of `batch`. To walk through all steps, `all_step_tokens` is faster.
    """
    if batching == "window":
        return np.arange(step * batch, (step + 1) * batch)
    if batching == "streams":
        return np.arange(batch) * steps(trace, batch) + step
    return np.flatnonzero(step_of_token(trace, batch, batching) == step)


def all_step_tokens(trace: Sequenced, batch: int, batching: Batching) -> list[Tokens]:
    """Return what `step_tokens` gives for every step, in one pass."""
    step = step_of_token(trace, batch, batching)
    order = np.argsort(step, kind="stable")
    sizes = np.bincount(step[step != UNUSED], minlength=1)
    used = order[len(step) - int(sizes.sum()) :]
    return np.split(used, np.cumsum(sizes)[:-1]) if len(used) else []


def step_of_token(trace: Sequenced, batch: int, batching: Batching) -> Tokens:
    """Return for each token the step that it is in, or `UNUSED`; shape (tokens,).

    Parameters
    ----------
    trace
        For "sequences" it needs `seq_len`, for "prefill" `seq_len` and `decode`.
    batch
        For "window" and "streams": tokens per step; the rest that fills no step is unused. For
        "sequences" and "prefill": sequences that are worked on together, the first `batch` of them,
        then the next. Offline (zigzag) batching, which sends several micro-batches through a layer
        before the next layer begins, is a batch of all of their sequences.

    Notes
    -----
    With "sequences", step t of a group is the t-th token of every sequence of the group that has
    one, so steps become smaller as sequences end. Where decode marks are known, only generated
    tokens count, as the prompt is not decoded token by token. With "prefill", a step holds the
    complete prompts of a group.

    Raises
    ------
    InputError
        If `batch` is not positive or the trace does not know its sequences or decode marks.
    """
    if batch < 1:
        raise InputError(f"batch: must be at least 1, not {batch}")
    if batching in ("window", "streams"):
        return _equal_steps(trace.tokens, batch, batching)
    if trace.seq_len is None:
        raise InputError(f"{trace.name}: seq_len: is needed for batching {batching!r}, but unknown")
    if batching == "prefill" and trace.decode is None:
        raise InputError(f"{trace.name}: decode: is needed for batching 'prefill', but unknown")
    lengths = np.asarray(trace.seq_len, dtype=np.int64)
    group = np.arange(len(lengths)) // batch
    sequence = np.repeat(np.arange(len(lengths)), lengths)
    wanted = np.ones(trace.tokens, dtype=bool)
    if trace.decode is not None:
        wanted = trace.decode if batching == "sequences" else ~trace.decode
    turn = _turn(wanted, lengths) if batching == "sequences" else np.zeros_like(sequence)
    length_of_group = np.zeros(int(group.max(initial=-1)) + 1, dtype=np.int64)
    np.maximum.at(length_of_group, group[sequence[wanted]], turn[wanted] + 1)
    first = np.cumsum(length_of_group) - length_of_group
    return np.where(wanted, first[group[sequence]] + turn, UNUSED)


def _equal_steps(tokens: int, batch: int, batching: Batching) -> Tokens:
    count = tokens // batch
    step = np.full(tokens, UNUSED, dtype=np.int64)
    used = np.arange(count * batch)
    step[: count * batch] = used // batch if batching == "window" else used % max(count, 1)
    return step


def _turn(wanted: NDArray[np.bool_], lengths: Tokens) -> Tokens:
    """Return how many wanted tokens of the same sequence stand before each token."""
    before: Tokens = np.cumsum(wanted) - wanted
    starts = np.cumsum(lengths) - lengths
    begun = np.append(before, before[-1:] + wanted[-1:])[starts] if len(before) else starts
    turn: Tokens = before - np.repeat(begun, lengths)
    return turn
