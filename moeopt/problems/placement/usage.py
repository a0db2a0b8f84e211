"""How much each expert was used, as far as a rule may know.

Each published rule decides by what its paper gives it, and where an instance does not have that, by
the next best; `Usage.words` says which it was.
"""

from dataclasses import dataclass

import numpy as np

from moeopt.core.problem import HINDSIGHT

from .instance import Instance
from .layer_steps import Ints


@dataclass(frozen=True)
class Usage:
    """How much each expert was used, as far as a rule may know.

    Attributes
    ----------
    counts
        Tokens that chose each expert, shape (layers, experts).
    words
        What this is, for tables.
    scores
        The tokens' summed routing weights, of the same shape, in any unit; None if not known.
    """

    counts: Ints
    words: str
    scores: Ints | None = None


def of_prompts(instance: Instance) -> Usage:
    """Return the usage in the sequences' own prompts; else of the profile, else of the steps."""
    known = instance.known
    if known is None or known.prefill_counts is None:
        return of_profile(instance)
    scores = None if known.prefill_scores is None else np.array(known.prefill_scores)
    return Usage(np.array(known.prefill_counts), "prefill counts", scores)


def of_profile(instance: Instance) -> Usage:
    """Return the usage in an offline profile; else that of the prompts, else of the steps."""
    known = instance.known
    if known is None:
        return of_steps(instance)
    if known.profile_counts is None:
        return of_prompts(instance)
    return Usage(np.array(known.profile_counts), "offline profile")


def of_steps(instance: Instance) -> Usage:
    """Return the usage in the steps themselves, which nobody knows beforehand."""
    return Usage(instance.tokens, HINDSIGHT, _scores_of_steps(instance))


def _scores_of_steps(instance: Instance) -> Ints | None:
    if instance.step_scores is None:
        return None
    total = np.zeros((instance.layers, instance.experts), dtype=np.int64)
    for step, scores in zip(instance.steps, instance.step_scores, strict=True):
        for layer, (active, of_layer) in enumerate(zip(step, scores, strict=True)):
            for (expert, _), score in zip(active, of_layer, strict=True):
                total[layer, expert] += score
    return total
