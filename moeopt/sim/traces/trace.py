"""Routing traces: which experts each token was sent to, and how often each was chosen.

Cutting a routing trace into the steps in which a machine works through it.

A step is a set of tokens that pass through a layer together. All functions here work on positions
of tokens in the trace; nothing is copied.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.core.json_files import JsonObject

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


def all_step_tokens(trace: "Trace", batch: int, batching: Batching) -> list[Tokens]:
    """Return the positions of the tokens of every step, ascending; see `step_of_token`."""
    step = step_of_token(trace, batch, batching)
    order = np.argsort(step, kind="stable")
    sizes = np.bincount(step[step != UNUSED], minlength=1)
    used = order[len(step) - int(sizes.sum()) :]
    return np.split(used, np.cumsum(sizes)[:-1]) if len(used) else []


def step_of_token(trace: "Trace", batch: int, batching: Batching) -> Tokens:
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
    """Return the step of each token, where all steps have `batch` of them."""
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


NO_EXPERT = -1
"""In place of an expert's number: the token chose fewer experts than there are places."""

Ids = NDArray[Any]
"""Integers of any width: experts, lengths, counts; or flags."""

MAX_COUNTS = 2**28
"""Most entries of a (steps, layers, experts) array: 2 GiB."""


@dataclass(frozen=True)
class Trace:
    """Routing decisions of one model on a run of tokens.

    Attributes
    ----------
    name
        Where it comes from, for provenance.
    topk_ids
        Shape (tokens, layers, k), integer: the experts chosen, in the router's order; -1 where the
        token has no expert. Layers without experts are not in the trace.
    topk_weights
        Same shape, or None.
    seq_len
        Lengths of the sequences that follow one another in the trace, shape (sequences,), or None.
    facts
        Anything else that belongs into an instance's provenance.
    decode
        Shape (tokens,), bool: True where the token was generated, False where it was prompt; None
        if unknown.
    """

    name: str
    topk_ids: Ids
    topk_weights: Ids | None = None
    seq_len: Ids | None = None
    facts: JsonObject | None = None
    decode: NDArray[np.bool_] | None = None

    def __repr__(self) -> str:
        chosen = f"{self.tokens} tokens, {self.layers} layers, top {self.topk_ids.shape[2]}"
        return f"<trace {self.name!r}: {chosen}>"

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        return int(self.topk_ids.shape[0])

    @property
    def layers(self) -> int:
        """Number of layers with experts."""
        return int(self.topk_ids.shape[1])

    @property
    def experts_seen(self) -> int:
        """One more than the highest expert that occurs; 0 if none does."""
        return int(self.topk_ids.max()) + 1 if self.topk_ids.size else 0

    def counts(self, tokens: Tokens, layer: int, experts: int) -> NDArray[np.int64]:
        """Return how many of `tokens` each expert of a layer gets, shape (experts,).

        Raises
        ------
        InputError
            If an expert occurs that the model does not have.
        """
        chosen = self.topk_ids[tokens, layer].ravel().astype(np.int64)
        counts = np.bincount(chosen[chosen >= 0], minlength=experts).astype(np.int64)
        if len(counts) > experts:
            raise self._unknown_expert(len(counts) - 1, experts)
        return counts

    def step_counts(
        self, batch: int, batching: Batching = "window", experts: int | None = None
    ) -> "Counts":
        """Return the counts of every step of a run.

        What the batchings are, `moeopt.sim.traces.windows` says.

        Parameters
        ----------
        experts
            Experts per layer; as many as are seen, if None.

        Raises
        ------
        InputError
            If an expert occurs that the model does not have, if the trace lacks what the batching
            needs, or if the result would have more than `MAX_COUNTS` entries.
        """
        experts = self.experts_seen if experts is None else experts
        if self.experts_seen > experts:
            raise self._unknown_expert(self.experts_seen - 1, experts)
        step = step_of_token(self, batch, batching)
        total = int(step.max(initial=-1)) + 1
        if total * self.layers * experts > MAX_COUNTS:
            shape = f"{total} steps, {self.layers} layers and {experts} experts"
            raise InputError(f"{self.name}: topk_ids: {shape} are too many to count at once")
        result = np.empty((total, self.layers, experts), dtype=np.int64)
        used = step >= 0
        row = step[used, None] * experts
        ids = self.topk_ids if used.all() else self.topk_ids[used]
        for layer in range(self.layers):
            chosen = ids[:, layer]
            places = (row + chosen.astype(np.int64))[chosen >= 0]
            result[:, layer] = np.bincount(places, minlength=total * experts).reshape(total, -1)
        facts = (self.facts or {}) | {"steps": {"batch": batch, "batching": batching}}
        return Counts(self.name, result, facts)

    def check_fits(self, experts: int, top_k: int, layers: int) -> None:
        """Raise InputError unless the trace can come from a model of this shape."""
        if self.experts_seen > experts:
            raise self._unknown_expert(self.experts_seen - 1, experts)
        if self.topk_ids.shape[2] != top_k:
            width = self.topk_ids.shape[2]
            raise InputError(f"{self.name}: topk_ids: {width} per token in a top-{top_k} model")
        if self.layers > layers:
            raise InputError(f"{self.name}: topk_ids: {self.layers} layers in a model of {layers}")

    def _unknown_expert(self, seen: int, experts: int) -> InputError:
        return InputError(f"{self.name}: topk_ids: expert {seen} in a model of {experts} experts")


@dataclass(frozen=True)
class Counts:
    """How many tokens each expert got, where the single tokens are not known.

    Attributes
    ----------
    name
        Where it comes from, for provenance.
    counts
        Shape (steps, layers, experts), int64, not negative. Layers without experts are not here.
    facts
        Anything else that belongs into an instance's provenance.
    """

    name: str
    counts: NDArray[np.int64]
    facts: JsonObject | None = None

    @property
    def steps(self) -> int:
        """Number of steps that were counted apart."""
        return int(self.counts.shape[0])

    @property
    def layers(self) -> int:
        """Number of layers with experts."""
        return int(self.counts.shape[1])

    @property
    def experts(self) -> int:
        """Number of experts per layer."""
        return int(self.counts.shape[2])

    def total(self) -> NDArray[np.int64]:
        """Return the counts of all steps together, shape (layers, experts)."""
        total: NDArray[np.int64] = self.counts.sum(axis=0)
        return total

    def padded(self, experts: int) -> "Counts":
        """Return the same counts with a column for each of `experts` experts.

        Raises
        ------
        InputError
            If there are more columns already: files leave out experts that were never chosen, but
            none that the model does not have.
        """
        if self.experts > experts:
            reason = f"expert {self.experts - 1} in a model of {experts} experts"
            raise InputError(f"{self.name}: count: {reason}")
        missing = ((0, 0), (0, 0), (0, experts - self.experts))
        return replace(self, counts=np.pad(self.counts, missing))
