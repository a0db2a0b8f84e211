"""Synthetic workloads: routing laws with stated parameters, where no real trace is at hand."""

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moeopt.core.envelope import Frozen

Popularity = NDArray[np.float64]
"""Log-popularity of experts, shape (layers, experts)."""

Share = Annotated[float, Field(strict=True, ge=0, le=1)]
Strength = Annotated[float, Field(strict=True, ge=0, le=100)]
LogPopularity = Annotated[float, Field(strict=True, ge=-100, le=100)]


class Recall(Frozen):
    """How a token repeats the choices of one of the tokens before it, in the same layer.

    Parameters
    ----------
    probability
        Share of tokens that recall an earlier one.
    strength
        Share of the experts whose score such a token takes over.
    decay
        A token d before is recalled with a probability proportional to ``d ** -decay``.
    window
        Farthest token that is recalled, never one of another sequence.
    """

    probability: Share
    strength: Share
    decay: Annotated[float, Field(strict=True, ge=0, le=20)]
    window: Annotated[int, Field(strict=True, ge=1, le=65536)] = 256


class Topic(Frozen):
    """What the tokens of a sequence have in common.

    Parameters
    ----------
    share
        Share of a token's scores that are the sequence's own.
    phase_similarity
        Share of the sequence's scores that decode keeps from prefill.
    """

    share: Share
    phase_similarity: Share = 1.0


class Sequences(Frozen):
    """Lengths of the sequences.

    Parameters
    ----------
    tokens
        Median length, prefill and decode together.
    spread
        Standard deviation of the logarithm of the length.
    decode_share
        Part of each sequence, at its end, that is marked as decoded.
    """

    tokens: Annotated[int, Field(strict=True, ge=1, le=2**24)]
    spread: Annotated[float, Field(strict=True, ge=0, le=5)] = 0.0
    decode_share: Share = 0.0


class Workload(Frozen):
    """A popularity law for experts and how choices hang together; `synthetic` has the mathematics.

    Parameters
    ----------
    skew
        The r-th most popular of E experts has popularity proportional to exp(-skew * r / E).
    drift
        Standard deviation of the step that each expert's log-popularity takes between batches.
    source
        Where the numbers come from.
    shape
        Added to the log-popularity by rank, from hottest to coldest; stretched to the number of
        experts. For popularities that are no exponential.
    layer_scale
        What the log-popularity is multiplied with, by layer; stretched to the number of layers.
    recall, topic, sequences
        Choices in time; absent: tokens choose independently, in one sequence.
    affinity
        Share of a layer's noise that is that of the equally popular expert in the layer before.

    Notes
    -----
    With none of the last six given, traces have one layer and no weights.
    """

    name: str
    skew: Strength
    drift: Strength
    source: str
    shape: Annotated[tuple[LogPopularity, ...], Field(min_length=1, max_length=4096)] | None = None
    layer_scale: Annotated[tuple[Strength, ...], Field(min_length=1, max_length=4096)] | None = None
    recall: Recall | None = None
    topic: Topic | None = None
    sequences: Sequences | None = None
    affinity: Share | None = None

    @property
    def is_plain(self) -> bool:
        """Whether only the popularity law and its drift are given."""
        return set(self.facts()) <= {"name", "skew", "drift", "source"}

    def facts(self) -> dict[str, object]:
        """Return the parameters that are given, for an instance's provenance or a file."""
        return self.model_dump(mode="json", exclude_none=True)

    def popularity(self, experts: int, layers: int) -> Popularity:
        """Return the log-popularity by layer and rank, shape (layers, experts)."""
        law = -self.skew * np.arange(experts) / experts
        if self.shape is not None:
            law = law + _stretched(self.shape, experts)
        return np.outer(_stretched(self.layer_scale or (1.0,), layers), law)


def _stretched(values: tuple[float, ...], length: int) -> Popularity:
    """Return `values` read off at `length` equally spaced places."""
    have = (np.arange(len(values)) + 0.5) / len(values)
    return np.interp((np.arange(length) + 0.5) / length, have, values)
