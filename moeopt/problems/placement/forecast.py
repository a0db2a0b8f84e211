"""Futures of a placement instance: steps as they were seen, and steps drawn from their counts.

A placement lasts for good, so that all steps observed count alike. What experts are used together
in a step decides how its work can be divided, and lasts; but few steps say little of it, and their
optimum fits what came together by chance. So some of the future's steps are those seen, as they
are, and the others use every expert as often as those seen, together with others at random: as if
`PRIOR_STEPS` and another `PRIOR_SHARE` of the steps seen had been recorded of a model whose experts
know nothing of each other.

In the drawn steps every expert is active in the share that the counts say, exactly and not by
chance (`sim.count_sample`); what is known of prompts or of an offline profile counts as more of
them. An active expert has as many tokens as in one of the steps where it was.
"""

import numpy as np
from numpy.typing import NDArray

from moeopt.core.futures import Draw, Futures, drawn_from
from moeopt.problems.placement.instance import Instance
from moeopt.sim.traces.count_sample import sample_trace
from moeopt.sim.traces.trace import Counts

Ints = NDArray[np.int64]

PRIOR_STEPS, PRIOR_SHARE = 64, 0.25
"""How many drawn steps stand beside n steps seen: the first, and this part of n.

Chosen on DeepSeek-V2-Lite's three ESFT traces with 20 to 600 steps, where with 200 steps and more
anything up to as many as were seen does; figures of these traces are no test of it.
"""


def draw(instance: Instance, futures: Futures, seed: int) -> Draw:
    """Return what draws steps like those of `instance`; a future is `futures.horizon` of them.

    Parameters
    ----------
    instance
        The steps seen.
    seed
        The same seed draws the same steps.
    """
    seen = _by_layer(instance)
    known = _known(instance)

    def drawn(number: int, stream: int) -> Instance:
        rng = np.random.default_rng([seed, stream])
        steps = number * futures.horizon
        again = _seen_again(len(instance.steps), steps, rng)
        new = steps - len(again)
        layers = [
            _layer(tokens, extra, new, rng) for tokens, extra in zip(seen, known, strict=True)
        ]
        every = [*(instance.steps[row] for row in again), *zip(*layers, strict=True)]
        loads = {"steps": tuple(every[at] for at in rng.permutation(steps).tolist())}
        unknown = {"step_scores": None, "score_scale": None}
        return drawn_from(instance, f"futures{number}", seed, stream, **loads, **unknown)

    return drawn


def _seen_again(seen: int, steps: int, rng: np.random.Generator) -> list[int]:
    """Return the steps seen that are among so many: each as often, or once more."""
    share = seen / (seen + PRIOR_STEPS + PRIOR_SHARE * seen)
    return np.resize(rng.permutation(seen), round(share * steps)).tolist()


def _by_layer(instance: Instance) -> Ints:
    """Return the tokens of each expert in each step, shape (layers, steps, experts)."""
    tokens = np.zeros((instance.layers, len(instance.steps), instance.experts), dtype=np.int64)
    for row, step in enumerate(instance.steps):
        for layer, active in enumerate(step):
            for expert, count in active:
                tokens[layer, row, expert] = count
    return tokens


def _known(instance: Instance) -> Ints:
    """Return the tokens known of each expert besides the steps, shape (layers, experts)."""
    total = np.zeros((instance.layers, instance.experts), dtype=np.int64)
    if instance.known is not None:
        for counts in (instance.known.prefill_counts, instance.known.profile_counts):
            if counts is not None:
                total += np.array(counts, dtype=np.int64)
    return total


def _layer(
    tokens: Ints, known: Ints, steps: int, rng: np.random.Generator
) -> list[tuple[tuple[int, int], ...]]:
    """Return one layer of the steps drawn: experts and tokens.

    Parameters
    ----------
    tokens
        In the steps seen, shape (steps, experts).
    known
        Further tokens of each expert, shape (experts,): at as many a step as in those seen.
    """
    active = tokens > 0
    uses = active.sum(axis=0)
    each = tokens.sum() / max(1, uses.sum())
    shares = uses + known / max(each, 1.0)
    together = max(1, round(uses.sum() / len(tokens)))
    if not steps:
        return []
    if not shares.any():
        return [()] * steps
    together = min(together, int((shares > 0).sum()))
    wanted = _capped(shares / shares.sum() * together)
    counts = np.rint(wanted * 2**30 / together).astype(np.int64)
    ids = sample_trace(Counts("", counts[None, None]), together, steps, int(rng.integers(2**31)))
    chosen = ids.topk_ids[:, 0]
    drawn = np.ones(chosen.shape, dtype=np.int64)
    for expert in np.unique(chosen).tolist():
        at = chosen == expert
        if uses[expert]:
            sizes = rng.permutation(tokens[active[:, expert], expert])
            drawn[at] = rng.permutation(np.resize(sizes, int(at.sum())))
        else:
            drawn[at] = max(1, round(each))
    pairs = np.stack([chosen, drawn], axis=2).tolist()
    return [tuple((expert, count) for expert, count in step) for step in pairs]


def _capped(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return shares of at most 1 each, with the same sum, the others in proportion."""
    for _ in range(len(shares)):
        full = shares >= 1
        if not (over := float((shares[full] - 1).sum())) > 1e-12:
            break
        rest = shares[~full].sum()
        shares = np.where(full, 1.0, shares * (1 + over / rest if rest else 1.0))
    return np.minimum(shares, 1.0)
