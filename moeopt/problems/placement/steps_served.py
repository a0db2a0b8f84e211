"""Steps of a trace that a placement serves, and what its rules may know before they are there."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.sim.models.importance import chosen, decode_tokens, prefill_tokens
from moeopt.sim.traces.trace import Batching, Tokens, Trace, all_step_tokens

from .fields import Known

Ints = NDArray[np.int64]

SCORE_SCALE = 10**6
"""What a routing weight of 1 is as an integer."""


@dataclass(frozen=True)
class Served:
    """Steps, and what came before.

    Attributes
    ----------
    counts
        Tokens of every expert in every step, shape (steps, layers, experts).
    known
        None if nothing came before.
    words
        Where `known` comes from, for provenance.
    scores
        Routing weights that each step's tokens gave each expert, of the shape of `counts`, in units
        of 1 / `SCORE_SCALE`; None if the trace has none.
    """

    counts: Ints
    known: Known | None
    words: dict[str, Any]
    scores: Ints | None


@dataclass(frozen=True)
class Stretch:
    """Which steps: `length` of them from `first` on, with `batch` tokens, in the first `layers`."""

    first: int
    length: int
    batch: int
    batching: Batching
    layers: int
    experts: int


def served(trace: Trace, stretch: Stretch) -> Served:
    """Return some steps of a trace; known are the counts of all steps before them.

    Raises
    ------
    InputError
        If the trace has fewer steps or layers.
    """
    steps = all_step_tokens(trace, stretch.batch, stretch.batching)
    counts = _counts(trace, steps, stretch)
    scores = _scores(trace, steps, stretch)
    if not stretch.first:
        return Served(counts, None, {}, scores)
    earlier = np.concatenate(steps[: stretch.first])
    profile = np.array(_of_layers(trace, earlier, stretch))
    words = {"profile_counts": f"{len(earlier)} tokens of the {stretch.first} steps before"}
    return Served(counts, Known(profile_counts=profile), words, scores)


def served_after_prompts(trace: Trace, stretch: Stretch, sequence: int, share: float) -> Served:
    """Return the steps that decode some sequences side by side, one token of each at a time.

    Known are counts and routing scores of their prompts, and as a profile the counts of all other
    sequences.

    Parameters
    ----------
    stretch
        `batch` sequences are decoded; steps count from their first generated token on.
    sequence
        The first of them.
    share
        Of each sequence that is its prompt, where the trace does not mark what was generated.

    Raises
    ------
    InputError
        If the trace does not know its sequences, or has fewer sequences, steps or layers.
    """
    if trace.seq_len is None:
        raise InputError(f"{trace.name}: seq_len: is needed for first_sequence, but unknown")
    lengths = np.asarray(trace.seq_len, dtype=np.int64)
    last = sequence + stretch.batch - 1
    if last >= len(lengths):
        raise InputError(f"first_sequence: {last} is beyond the {len(lengths)} of {trace.name}")
    number = np.repeat(np.arange(len(lengths)), lengths)
    inside = (number >= sequence) & (number <= last)
    weights = trace.topk_weights
    decoded = Trace(
        trace.name,
        trace.topk_ids[inside],
        None if weights is None else weights[inside],
        seq_len=lengths[sequence : last + 1],
        decode=decode_tokens(trace, share)[inside],
    )
    steps = all_step_tokens(decoded, stretch.batch, "sequences")
    counts = _counts(decoded, steps, stretch)
    prompt = prefill_tokens(trace, share) & inside

    def usage(tokens: NDArray[np.bool_], weights: NDArray[Any] | None, scale: int) -> Ints:
        sums = chosen(trace, tokens, stretch.experts, weights)[: stretch.layers]
        return np.rint(sums * scale).astype(np.int64)

    found: dict[str, Any] = {"prefill_counts": usage(prompt, None, 1)}
    words = {"prefill": f"{prompt.sum()} prompt tokens of sequences {sequence} to {last}"}
    if trace.topk_weights is not None:
        found["prefill_scores"] = usage(prompt, trace.topk_weights, SCORE_SCALE)
        found["score_scale"] = SCORE_SCALE
    if not inside.all():
        found["profile_counts"] = usage(~inside, None, 1)
        words["profile"] = f"{(~inside).sum()} tokens of all other sequences"
    return Served(counts, Known(**found), words, _scores(decoded, steps, stretch))


def _counts(trace: Trace, steps: list[Tokens], stretch: Stretch) -> Ints:
    end = stretch.first + stretch.length
    if end > len(steps) or stretch.layers > trace.layers:
        need = f"steps {stretch.first} to {end} of {stretch.batch} in {stretch.layers} layers"
        raise InputError(f"steps: {need}; {trace.name} has {len(steps)} in {trace.layers}")
    return np.array([_of_layers(trace, of, stretch) for of in steps[stretch.first : end]])


def _scores(trace: Trace, steps: list[Tokens], stretch: Stretch) -> Ints | None:
    if trace.topk_weights is None:
        return None
    part = steps[stretch.first : stretch.first + stretch.length]
    sums = [chosen(trace, of, stretch.experts, trace.topk_weights)[: stretch.layers] for of in part]
    return np.rint(np.array(sums) * SCORE_SCALE).astype(np.int64)


def _of_layers(trace: Trace, tokens: Tokens, stretch: Stretch) -> list[Ints]:
    return [trace.counts(tokens, layer, stretch.experts) for layer in range(stretch.layers)]
