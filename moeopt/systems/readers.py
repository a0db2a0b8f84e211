"""Readers of a trace: what stands before each of them, and the token that each reads at a step."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.traces.trace import Batching, Trace

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Readers:
    """A batch of requests on one trace: prompts, decoded tokens, and the rest as a profile.

    Reader r starts at an equal distance from the one before; its prompt is what stands before its
    start. Positions wrap around the end of the trace, and `wrapped` says how often.

    Attributes
    ----------
    trace
        Routing of single tokens.
    experts
        Experts of a layer.
    batch, prompt, steps
        Readers, tokens of each prompt, and decoded tokens that are executed.
    batching
        "streams": one token of each reader at a step. "window": `batch` consecutive tokens.
    given
        Tokens of each step where they are not the readers', shape (steps, batch).
    """

    trace: Trace
    experts: int
    batch: int
    prompt: int
    steps: int
    batching: Batching = "streams"
    given: Ints | None = None

    @classmethod
    def of(
        cls,
        trace: Trace,
        model: ModelShape,
        batch: int,
        prompt: int,
        steps: int,
        batching: Batching = "streams",
    ) -> "Readers":
        """Return the readers of a trace.

        Raises
        ------
        InputError
            If the trace is not the model's, has fewer tokens than one step, or the batching is
            neither "streams" nor "window".
        """
        trace.check_fits(model.routed_experts, model.top_k, len(model.moe_layers))
        if batching not in ("streams", "window"):
            raise InputError(f"must be streams or window, not {batching}", field="batching")
        if trace.tokens < batch:
            raise InputError(
                f"has {trace.tokens} tokens, fewer than one step of {batch} readers", field="trace"
            )
        return cls(trace, model.routed_experts, batch, prompt, steps, batching)

    @property
    def layers(self) -> int:
        """Layers with experts that the trace has."""
        return self.trace.layers

    @cached_property
    def starts(self) -> Ints:
        """Position of each reader's first decoded token, shape (batch,)."""
        if self.batching == "window":
            return np.arange(self.batch) + self.prompt
        return np.arange(self.batch) * self.trace.tokens // self.batch

    def positions(self, step: int) -> Ints:
        """Return the tokens of a decode step, shape (batch,)."""
        if self.given is not None:
            return np.asarray(self.given[step])
        ahead = step * self.batch if self.batching == "window" else step
        return (self.starts + ahead) % self.trace.tokens

    @cached_property
    def prompts(self) -> Ints:
        """The positions of all prompts, reader after reader, shape (batch * prompt,)."""
        if self.batching == "window":
            before = np.arange(self.batch * self.prompt) - self.batch * self.prompt + self.prompt
            return before % self.trace.tokens
        before = np.arange(self.prompt) - self.prompt
        return ((self.starts[:, None] + before) % self.trace.tokens).ravel()

    @cached_property
    def _executed(self) -> Ints:
        return np.concatenate([self.positions(step) for step in range(self.steps)])

    @property
    def wrapped(self) -> int:
        """How many decoded tokens stand in more than one step, counted beyond the first time."""
        return len(self._executed) - len(np.unique(self._executed))

    @cached_property
    def profile(self) -> Ints:
        """Tokens by layer and expert of everything that no step executes.

        Where the steps execute the whole trace nothing is left, and the profile is all of it:
        `profile_is_executed`.
        """
        return self._counts(self._profiled)

    @cached_property
    def _profiled(self) -> Ints:
        every = np.arange(self.trace.tokens)
        rest = np.setdiff1d(every, self._executed)
        return rest if len(rest) else every

    def on_profile(self, steps: int) -> "Readers":
        """Return readers of the profile: as many, at equal distances, for at most so many steps."""
        there = len(self._profiled)
        steps = min(steps, max(1, there // self.batch))
        starts = np.arange(self.batch) * there // self.batch
        given: Ints = self._profiled[(starts + np.arange(steps)[:, None]) % there]
        return replace(self, steps=steps, given=given)

    @property
    def profile_is_executed(self) -> bool:
        """Whether the profile holds the executed tokens, as no others are left."""
        return len(np.unique(self._executed)) == self.trace.tokens

    @cached_property
    def prompt_counts(self) -> Ints:
        """Tokens by layer and expert of all prompts together, shape (layers, experts)."""
        return self._counts(self.prompts)

    def chunk_counts(self, first: int, tokens: int) -> Ints:
        """Return tokens by layer and expert of a part of the prompts, shape (layers, experts)."""
        return self._counts(self.prompts[first : first + tokens])

    def step_counts(self, step: int) -> Ints:
        """Return tokens by layer and expert of a decode step, shape (layers, experts)."""
        return self._counts(self.positions(step))

    def step_ids(self, step: int) -> Ints:
        """Return the experts of each token of a step, in the router's order.

        Shape (batch, layers, k); -1 where a token has none.
        """
        return self.trace.topk_ids[self.positions(step)].astype(np.int64)

    def step_weights(self, step: int) -> NDArray[np.float64] | None:
        """Return the weights beside `step_ids`; None if the trace has none."""
        weights = self.trace.topk_weights
        return None if weights is None else weights[self.positions(step)].astype(np.float64)

    def _counts(self, positions: Ints) -> Ints:
        ids = self.trace.topk_ids[positions].astype(np.int64)
        layers, experts = self.layers, self.experts
        cell = (np.arange(layers)[:, None] * experts + ids)[ids >= 0]
        return np.bincount(cell, minlength=layers * experts).reshape(layers, experts)
