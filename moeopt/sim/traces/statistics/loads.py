"""Loads of experts: how uneven, how alike from step to step, how layers depend on each other."""

from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.sim.traces.predictor import ALPHA, load_classes, predict_run
from moeopt.sim.traces.statistics.routing import Floats, Ints, Routing, average, counted, ratio

HOT, COLD = 0.05, 0.70
"""TriMoE's classes as shares of the experts: hottest 5 %, coldest 70 %, warm between (3.1)."""


def loads(routing: Routing) -> Ints:
    """Return the tokens that each expert gets over the whole trace, shape (layers, experts)."""
    return step_loads(routing, routing.tokens)[:, 0]


def step_loads(routing: Routing, batch: int) -> Ints:
    """Return the loads of steps of `batch` consecutive tokens, shape (layers, steps, experts).

    The rest, which fills no step, is left out.
    """
    steps = routing.tokens // batch
    step = np.arange(routing.tokens) // batch
    step[step >= steps] = -1
    return np.array([counted(step, ids, steps, routing.experts) for ids in routing.ids])


def skew(counts: Ints) -> Floats:
    """Return the largest load over the mean load, along the last axis.

    ``max(counts) / mean(counts)``: 1 if all experts are alike, the number of experts if one gets
    everything. NaN where there are no loads.
    """
    return ratio(counts.max(axis=-1), counts.sum(axis=-1) / counts.shape[-1])


def top_share(counts: Ints, share: float) -> Floats:
    """Return the share of the accesses that go to the most used experts, along the last axis.

    Parameters
    ----------
    counts
        Loads, shape (..., experts).
    share
        Which part of the experts, from 0 to 1; rounded to whole experts.
    """
    top = round(share * counts.shape[-1])
    ranked = -np.sort(-counts, axis=-1)
    return ratio(ranked[..., :top].sum(axis=-1), counts.sum(axis=-1))


def cold_share(counts: Ints, share: float = COLD) -> Floats:
    """Return the share of the accesses that go to the least used experts (TriMoE 3.1, Fig. 3)."""
    cold = round(share * counts.shape[-1])
    return ratio(np.sort(counts, axis=-1)[..., :cold].sum(axis=-1), counts.sum(axis=-1))


def step_class_shares(step_loads: Ints) -> dict[str, Floats]:
    """Return the shares of hot, warm and cold experts (TriMoE 3.1), averaged over the steps.

    Experts are ranked anew in each step, of shape (layers, steps, experts), as its own loads class
    them. Each share is of shape (layers,); NaN if there is no step.
    """
    hot, cold = top_share(step_loads, HOT), cold_share(step_loads)
    by_step = {"hot": hot, "warm": 1 - hot - cold, "cold": cold}
    return {
        name: np.array([average(layer) for layer in values]) for name, values in by_step.items()
    }


def coverage(counts: Ints, share: float) -> tuple[float, float]:
    """Return the share of all accesses that resident experts serve, by two placements.

    Both keep ``round(share * layers * experts)`` experts, the most used ones: the first value is
    of the same quota in every layer (what is left over goes, one each, to the first layers), the
    second of the best of all layers together (Fiddler's and KTransformers' global top-K).

    Parameters
    ----------
    counts
        Loads over the whole trace, shape (layers, experts).
    share
        Part of all experts that are resident, from 0 to 1.
    """
    layers, experts = counts.shape
    kept = round(share * layers * experts)
    quota = np.full(layers, kept // layers) + (np.arange(layers) < kept % layers)
    ranked = -np.sort(-counts, axis=1)
    per_layer = ranked[np.arange(experts) < quota[:, None]].sum()
    everywhere = np.sort(counts.ravel())[counts.size - kept :].sum()
    total = counts.sum()
    return float(ratio(per_layer, total)), float(ratio(everywhere, total))


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


Pairs = Literal["any", "main"]


def affinity(routing: Routing, pairs: Pairs = "any") -> Floats:
    """Return the normalised mutual information between layers l and l + 1, shape (layers - 1,).

    With the joint shares P(a, b) of a token's pairs of an expert a at layer l and an expert b at
    layer l + 1, ``I = sum P(a, b) ln(P(a, b) / (P(a) P(b)))`` over the entropy of b: 0 if the
    layers know nothing of each other, 1 if a decides b. Few tokens make any two layers look
    related, so the same figure with layer l + 1 moved on by half the trace is subtracted; that
    keeps both popularities and breaks the pairs. The result may therefore be slightly negative.
    (The "consecutive layers pattern" of CPU-GPU collaborative II-B, as one number.)

    Parameters
    ----------
    routing
        The trace.
    pairs
        "any": all k x k pairs of a token, so that even a decided next layer stays below 1. "main":
        the experts of the largest weight only.

    Raises
    ------
    InputError
        If `pairs` is neither.
    """
    if pairs not in ("any", "main"):
        raise InputError(f"pairs: must be any or main, not {pairs}")
    ids = routing.ids if pairs == "any" else routing.main[..., None]
    half = routing.tokens // 2
    found = []
    for here, there in pairwise(ids):
        real = _information(here, there, routing.experts)
        chance = _information(here, np.roll(there, half, axis=0), routing.experts)
        found.append(real - chance)
    return np.array(found, dtype=np.float64)


def _information(left: NDArray[np.int32], right: NDArray[np.int32], experts: int) -> float:
    """Return I(a; b) / H(b) over all pairs of a token, (tokens, k) each; 0 where H(b) is 0."""
    joint = np.zeros(experts * experts, dtype=np.int64)
    for a in left.T:
        for b in right.T:
            both = (a >= 0) & (b >= 0)
            cell = a[both].astype(np.int64) * experts + b[both]
            joint += np.bincount(cell, minlength=experts * experts)
    if not joint.sum():
        return float("nan")
    shares = joint.reshape(experts, experts) / joint.sum()
    entropy = _entropy(shares.sum(axis=0))
    told = _entropy(shares.sum(axis=1)) + entropy - _entropy(shares.ravel())
    return told / entropy if entropy else 0.0


def _entropy(shares: Floats) -> float:
    positive = shares[shares > 0]
    return float(-(positive * np.log(positive)).sum())
