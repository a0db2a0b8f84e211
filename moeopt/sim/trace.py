"""Routing traces: which experts each token was sent to, and decode steps made of them."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from moeopt.errors import InputError

Batching = Literal["window", "streams"]

Tokens = NDArray[np.int64]
"""Positions of tokens in a trace."""


@dataclass(frozen=True)
class Trace:
    """Routing decisions of one model on a run of tokens.

    Attributes
    ----------
    name
        Where it comes from, for provenance.
    topk_ids
        Shape (tokens, layers, k), integer: the experts chosen, in the router's order.
    topk_weights
        Same shape, or None.
    seq_len
        Lengths of the sequences that follow one another in the trace, or None.
    facts
        Anything else that belongs into an instance's provenance.
    """

    name: str
    topk_ids: NDArray[Any]
    topk_weights: NDArray[Any] | None = None
    seq_len: NDArray[Any] | None = None
    facts: dict[str, Any] | None = None

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        return int(self.topk_ids.shape[0])

    @property
    def layers(self) -> int:
        """Number of layers with experts."""
        return int(self.topk_ids.shape[1])

    def counts(self, tokens: Tokens, layer: int, experts: int) -> NDArray[np.int64]:
        """Return how many of `tokens` each expert of a layer gets, shape (experts,)."""
        chosen = self.topk_ids[tokens, layer].ravel().astype(np.int64)
        return np.bincount(chosen, minlength=experts).astype(np.int64)

    def check_fits(self, experts: int, top_k: int, layers: int) -> None:
        """Raise InputError unless the trace can come from a model of this shape."""
        if self.topk_ids.size and int(self.topk_ids.max()) >= experts:
            seen = int(self.topk_ids.max())
            raise InputError(
                f"{self.name}: topk_ids: expert {seen} in a model of {experts} experts"
            )
        if self.topk_ids.shape[2] != top_k:
            width = self.topk_ids.shape[2]
            raise InputError(f"{self.name}: topk_ids: {width} per token in a top-{top_k} model")
        if self.layers > layers:
            raise InputError(f"{self.name}: topk_ids: {self.layers} layers in a model of {layers}")


def steps(trace: Trace, batch: int) -> int:
    """Return how many whole steps of `batch` tokens a trace gives."""
    return trace.tokens // batch


def step_tokens(trace: Trace, batch: int, step: int, batching: Batching) -> Tokens:
    """Return the positions of the tokens that make up a decode step.

    Parameters
    ----------
    trace, batch, step
        Step number `step` of `batch` tokens, from 0 to ``steps(trace, batch) - 1``.
    batching
        "window": consecutive tokens, as when one long text is worked through in chunks. "streams":
        `batch` readers at equal distances in the trace, each one token further at every step, as
        when that many sequences are decoded together.
    """
    if batching == "window":
        return np.arange(step * batch, (step + 1) * batch)
    return np.arange(batch) * steps(trace, batch) + step
