"""How unevenly experts are used: skew, shares of the hottest and coldest, coverage."""

import numpy as np
from numpy.typing import NDArray

from moeopt.sim.traces.statistics.routing import Floats, Ints, Routing, average, counted, ratio

HOT, COLD = 0.05, 0.70
"""TriMoE's classes as shares of the experts: hottest 5 %, coldest 70 %, warm between (3.1)."""


def loads(routing: Routing) -> Ints:
    """Return the tokens that each expert gets over the whole trace, shape (layers, experts)."""
    all_in_one = np.zeros(routing.tokens, dtype=np.int64)
    rows = [counted(all_in_one, ids, 1, routing.experts)[0] for ids in routing.ids]
    return np.array(rows)


def step_loads(routing: Routing, step: Ints, steps: int) -> Ints:
    """Return the tokens per step and expert, shape (layers, steps, experts).

    Parameters
    ----------
    routing
        The trace.
    step
        Shape (tokens,): the step that each token belongs to, -1 for none.
    steps
        Number of steps.
    """
    return np.array([counted(step, ids, steps, routing.experts) for ids in routing.ids])


def window_steps(routing: Routing, batch: int) -> tuple[Ints, int]:
    """Return the steps of `batch` consecutive tokens and their number; the rest belongs to none."""
    steps = routing.tokens // batch
    step = np.arange(routing.tokens) // batch
    return np.where(step < steps, step, -1), steps


def stream_steps(routing: Routing) -> tuple[Ints, int]:
    """Return the steps in which all sequences are decoded side by side, and their number.

    Step t holds the t-th token of every sequence that is long enough.
    """
    position = np.arange(routing.tokens) - np.flatnonzero(routing.starts)[routing.sequence]
    return position, int(position.max()) + 1


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


def class_shares(counts: Ints) -> dict[str, Floats]:
    """Return the shares of hot, warm and cold experts (TriMoE 3.1), each shape (...,).

    Experts are ranked anew in each row of `counts`, as a step's own loads class them.
    """
    hot, cold = top_share(counts, HOT), cold_share(counts)
    return {"hot": hot, "warm": 1 - hot - cold, "cold": cold}


def step_class_shares(routing: Routing, batch: int) -> dict[str, Floats]:
    """Return `class_shares` per decode step of `batch` tokens, averaged over the steps.

    Each is of shape (layers,); NaN if the trace has no whole step.
    """
    by_step = class_shares(step_loads(routing, *window_steps(routing, batch)))
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


def rank_curve(counts: Ints) -> NDArray[np.float64]:
    """Return the mean share of accesses by rank, hottest first, averaged over layers: (experts,).

    Layers without any access do not count.
    """
    shares = ratio(-np.sort(-counts, axis=-1), counts.sum(axis=-1, keepdims=True))
    return np.asarray(shares[~np.isnan(shares[:, 0])].mean(axis=0))
