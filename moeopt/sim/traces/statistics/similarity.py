"""How alike expert loads are: prefill and decode, one step and the next, predicted and real."""

import numpy as np

from moeopt.core.errors import InputError
from moeopt.sim.traces.predictor import ALPHA, load_classes, predict_run
from moeopt.sim.traces.statistics.routing import Floats, Ints, Routing, average, counted, ratio

WINDOW = 32
"""Tokens taken for prefill, and for decode, where a trace does not mark them."""


def phase_similarity(
    routing: Routing, prefill: int = WINDOW, decode: int = WINDOW
) -> tuple[Floats, str]:
    """Return the cosine of the expert frequencies in prefill and decode, and how they were told.

    The cosine is taken within each sequence and averaged over the sequences (context-aware
    CXL-NDP 3.2, Fig. 4: 0.89 for Mixtral-8x7B on TruthfulQA).

    Parameters
    ----------
    routing
        The trace.
    prefill, decode
        Used where the trace has no decode marks: its sequences are cut into blocks of
        `prefill + decode` tokens, of which the first part stands for prefill.

    Returns
    -------
    Floats, str
        Shape (layers,), NaN where no sequence has both; and "marks" or "windows".

    Raises
    ------
    InputError
        If a window is not positive.
    """
    if prefill < 1 or decode < 1:
        raise InputError(f"prefill, decode: must be at least 1, not {prefill} and {decode}")
    if routing.decode is not None:
        first, groups = routing.sequence, int(routing.starts.sum())
        second = routing.decode
        by = "marks"
    else:
        first, second, groups = _blocks(routing, prefill, decode)
        by = "windows"
    before, after = np.where(second, -1, first), np.where(second, first, -1)
    cosines = [
        average(
            _cosine(
                counted(before, ids, groups, routing.experts),
                counted(after, ids, groups, routing.experts),
            )
        )
        for ids in routing.ids
    ]
    return np.array(cosines), by


def step_correlation(step_loads: Ints) -> Floats:
    """Return Pearson's correlation between the loads of consecutive steps, shape (layers,).

    Taken over the experts of a layer and averaged over the pairs of steps; steps in which all
    experts have the same load do not count.

    Parameters
    ----------
    step_loads
        Shape (layers, steps, experts).
    """
    centred = step_loads - step_loads.mean(axis=2, keepdims=True)
    pairs = _cosine(centred[:, :-1], centred[:, 1:])
    return np.array([average(layer) for layer in pairs])


def predictor_agreement(step_loads: Ints, alpha: float = ALPHA) -> Floats:
    """Return how often a moving average names an expert's next class, shape (layers,).

    The predictor of TriMoE 4.3, Eq. 8: ``EMA(t) = alpha F(t) + (1 - alpha) EMA(t - 1)``, starting
    with the loads of the first step. An expert is hot, warm or cold by its rank in a step (5, 25
    and 70 % of the experts, equal loads by lower id); the figure is the share of experts whose
    class in step t is the one that EMA(t - 1) gives them. The paper leaves its "accuracy", 78 %,
    undefined; this is the reading that comes nearest to it.

    Parameters
    ----------
    step_loads
        Shape (layers, steps, experts).
    alpha
        Weight of the newest step.

    Raises
    ------
    InputError
        If `alpha` is not above 0 and at most 1.
    """
    if step_loads.shape[1] < 2:
        return np.full(step_loads.shape[0], np.nan)
    loads = step_loads.transpose(1, 0, 2)
    right = load_classes(predict_run(loads, alpha)) == load_classes(loads[1:])
    return np.asarray(right.mean(axis=(0, 2)))


def _blocks(routing: Routing, prefill: int, decode: int) -> tuple[Ints, np.ndarray, int]:
    """Return each token's block (-1: none), whether it stands for decode, and the blocks' number.

    Only whole blocks count.
    """
    size = prefill + decode
    begins = np.flatnonzero(routing.starts)
    lengths = np.diff(np.append(begins, routing.tokens))
    whole = lengths // size
    before = np.cumsum(whole) - whole
    position = np.arange(routing.tokens) - begins[routing.sequence]
    inside = position // size < whole[routing.sequence]
    block = np.where(inside, before[routing.sequence] + position // size, -1)
    return block, position % size >= prefill, int(whole.sum())


def _cosine(left: np.ndarray, right: np.ndarray) -> Floats:
    """Return the cosine of vectors along the last axis, NaN where one of them is zero."""
    inner = (left * right).sum(axis=-1)
    squares = (left * left).sum(axis=-1) * (right * right).sum(axis=-1)
    return ratio(inner, np.sqrt(squares.astype(np.float64)))
