"""How important each expert is for a sequence, from its prefill (context-aware CXL-NDP 4.1)."""

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.sim.traces.trace import Trace

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def importance(trace: Trace, tokens: Flags, experts: int, alpha: float = 0.5) -> Floats:
    """Return S = alpha P~ + (1 - alpha) W~ of every expert of every layer.

    Parameters
    ----------
    trace
        Without weights W is P.
    tokens
        Shape (tokens,): which ones count, e.g. `prefill_tokens`.
    experts
        Experts per layer.
    alpha
        From 0, routing scores only, to 1, counts only.

    Returns
    -------
    Floats
        Shape (layers, experts). The paper leaves the norm open: P, how many tokens chose an expert,
        and W, the sum of their routing scores for it, are divided by their sums over the layer.

    Raises
    ------
    InputError
        If `alpha` is out of range or an expert occurs that the model does not have.
    """
    if not 0 <= alpha <= 1:
        raise InputError(f"alpha: must be from 0 to 1, not {alpha:g}")
    trace.check_fits(experts, trace.topk_ids.shape[2], trace.layers)
    counts = chosen(trace, tokens, experts)
    if trace.topk_weights is None or alpha == 1:
        return _shares(counts)
    scores = chosen(trace, tokens, experts, trace.topk_weights)
    return alpha * _shares(counts) + (1 - alpha) * _shares(scores)


def usage(trace: Trace, tokens: Flags, experts: int, prior_choices: float = 0.0) -> Floats:
    """Return the share of a layer's choices that went to each expert, shape (layers, experts).

    Parameters
    ----------
    trace, tokens, experts
        As for `importance`.
    prior_choices
        Added to the choices of every expert, as by Laplace's rule of succession with 1: an expert
        that was not chosen in so many tokens may well be chosen in the next ones.
    """
    return _shares(chosen(trace, tokens, experts) + prior_choices)


def prefill_tokens(trace: Trace, share: float = 0.5, sequence: int | None = None) -> Flags:
    """Return which tokens are prompt, shape (tokens,).

    Parameters
    ----------
    share
        Where the trace does not mark decoded tokens: the first part of each sequence, or of the
        whole trace if it does not know its sequences, that counts as prompt.
    sequence
        Only the tokens of this one; all, if None.
    """
    length, position, inside = _sequences(trace, sequence)
    prompt = position < np.rint(share * length) if trace.decode is None else ~trace.decode
    result: Flags = prompt & inside
    return result


def decode_tokens(trace: Trace, share: float = 0.5, sequence: int | None = None) -> Flags:
    """Return which tokens are generated: those of the sequences that are not prompt."""
    inside = _sequences(trace, sequence)[2]
    return inside & ~prefill_tokens(trace, share, sequence)


def _sequences(trace: Trace, sequence: int | None) -> tuple[Floats, NDArray[np.int64], Flags]:
    """Return each token's sequence length, its place in it, and whether it is of the chosen one."""
    lengths = np.array([trace.tokens]) if trace.seq_len is None else np.asarray(trace.seq_len)
    lengths = lengths.astype(np.int64)
    if sequence is not None and not 0 <= sequence < len(lengths):
        raise InputError(f"sequence: must be below {len(lengths)}, not {sequence}")
    number = np.repeat(np.arange(len(lengths)), lengths)
    position = np.arange(trace.tokens) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    inside = np.ones(trace.tokens, dtype=bool) if sequence is None else number == sequence
    return lengths[number].astype(np.float64), position, inside


def chosen(
    trace: Trace,
    tokens: Flags | NDArray[np.int64],
    experts: int,
    weights: NDArray[np.floating] | None = None,
) -> Floats:
    """Return how many of the tokens chose each expert, or the sum of their weights for it.

    Parameters
    ----------
    trace, tokens, experts
        As for `importance`; or the tokens' numbers.
    weights
        Shape (tokens, layers, k), e.g. the trace's routing scores; None counts tokens.

    Returns
    -------
    Floats
        Shape (layers, experts).
    """
    total = np.zeros((trace.layers, experts))
    ids = trace.topk_ids[tokens].astype(np.int64)
    for layer in range(trace.layers):
        there = ids[:, layer] >= 0
        scores = None if weights is None else weights[tokens][:, layer][there].astype(np.float64)
        total[layer] = np.bincount(ids[:, layer][there], scores, minlength=experts)
    return total


def _shares(sums: Floats) -> Floats:
    """Divide by the layer's sum; a layer without any tokens has equal shares."""
    total = sums.sum(axis=1, keepdims=True)
    even = np.full_like(sums, 1 / sums.shape[1])
    shares: Floats = np.divide(sums, total, out=even, where=total > 0)
    return shares
