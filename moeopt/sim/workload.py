"""Synthetic routing: traces with a stated skew and drift, where no real one is at hand."""

from typing import Annotated

import numpy as np
from pydantic import Field

from moeopt.problems.envelope import Frozen
from moeopt.sim.model_shape import ModelShape
from moeopt.sim.trace import Trace


class Workload(Frozen):
    """A popularity law for experts and how it moves from step to step.

    Parameters
    ----------
    skew
        The r-th most popular of E experts has popularity proportional to exp(-skew * r / E).
    drift
        Standard deviation of the step that each expert's log-popularity takes between batches.
    source
        Where the numbers come from.
    """

    name: str
    skew: Annotated[float, Field(strict=True, ge=0, le=100)]
    drift: Annotated[float, Field(strict=True, ge=0, le=100)]
    source: str


def synthetic_trace(
    workload: Workload, model: ModelShape, batch: int, batches: int, seed: int
) -> Trace:
    """Draw a one-layer trace of `batches` batches of tokens.

    Each token takes the top-k of log-popularity plus independent Gumbel noise, which draws k
    experts without replacement in proportion to popularity.
    """
    rng = np.random.default_rng(seed)
    experts = model.routed_experts
    log_popularity = -workload.skew * rng.permutation(experts) / experts
    chosen = np.empty((batches, batch, model.top_k), dtype=np.int64)
    for number in range(batches):
        scores = log_popularity + rng.gumbel(size=(batch, experts))
        chosen[number] = np.argpartition(-scores, model.top_k - 1, axis=1)[:, : model.top_k]
        log_popularity = log_popularity + workload.drift * rng.standard_normal(experts)
    ids = chosen.reshape(batches * batch, 1, model.top_k)
    return Trace(f"workload {workload.name}", ids, facts={"workload": workload.model_dump()})
