"""How much of a token's experts the token before it used (CPU-GPU collaborative, II-B, Fig. 2)."""

from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from moeopt.sim.traces.statistics.loads import loads
from moeopt.sim.traces.statistics.routing import Flags, Floats, Routing, ratio


@dataclass(frozen=True)
class Reuse:
    """Reuse between consecutive tokens of a sequence, per layer; every array is (layers,).

    Attributes
    ----------
    any
        Share of tokens of which at least one expert served the token before: the paper's
        "consecutive tokens pattern".
    all
        Share of tokens all of whose experts served the token before.
    each
        Share of a token's experts that served the token before.
    twice, thrice
        Of the tokens with any reuse, the share with an expert that served the two, or three,
        tokens before.
    independent
        What `each` would be if tokens chose independently with the layer's popularity:
        sum over experts of p**2 over sum of p, p being the share of tokens that use the expert.
    """

    any: Floats
    all: Floats
    each: Floats
    twice: Floats
    thrice: Floats
    independent: Floats


def reuse(routing: Routing) -> Reuse:
    """Return the reuse between consecutive tokens of the same sequence at the same layer.

    Tokens without an expert at a layer, and tokens whose predecessor has none, do not count.
    """
    rows = np.array([_layer(ids, routing.starts) for ids in routing.ids])
    counts = loads(routing)
    used = (routing.ids >= 0).any(axis=2).sum(axis=1, keepdims=True)
    share = ratio(counts, used)
    independent = ratio((share**2).sum(axis=1), share.sum(axis=1))
    some, full, each, twice, thrice = rows.T
    return Reuse(some, full, each, twice, thrice, independent)


def random_reuse(experts: int, top_k: int) -> tuple[float, float]:
    """Return `any` and `all` for tokens that choose k of E experts at random.

    ``1 - C(E - k, k) / C(E, k)`` and ``1 / C(E, k)``: 0.464 and 0.036 for Mixtral, so that the
    paper's 40 to 60 % is little above chance.
    """
    subsets = comb(experts, top_k)
    return 1 - comb(experts - top_k, top_k) / subsets, 1 / subsets


def _layer(ids: NDArray[np.int32], starts: Flags) -> tuple[float, ...]:
    """Return the first five figures of `Reuse` for one layer, `ids` of shape (tokens, k)."""
    there = np.asarray(ids >= 0)
    has = np.asarray(there.any(axis=1))
    pairs = np.zeros(len(ids), dtype=np.bool_)
    pairs[1:] = has[1:] & has[:-1] & ~starts[1:]
    runs = [there]
    for _ in range(3):
        runs.append(_again(ids, runs[-1], pairs))
    once, twice, thrice = (run.any(axis=1).sum() for run in runs[1:])
    fully = ((runs[1] | ~there).all(axis=1) & pairs).sum()
    accesses = there[pairs].sum()
    parts = (once, fully, runs[1].sum(), twice, thrice)
    wholes = (pairs.sum(), pairs.sum(), accesses, once, once)
    return tuple(float(ratio(part, whole)) for part, whole in zip(parts, wholes, strict=True))


def _again(ids: NDArray[np.int32], run: Flags, pairs: Flags) -> Flags:
    """Return which accesses continue a run that the token before has with the same expert."""
    now = np.zeros_like(run)
    for slot in range(ids.shape[1]):
        same = ids[1:] == np.where(run[:-1, slot], ids[:-1, slot], -2)[:, None]
        now[1:] |= same
    return now & pairs[:, None]
