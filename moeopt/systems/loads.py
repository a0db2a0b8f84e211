"""The loads that really come: tokens per step, layer and expert."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from moeopt.core.errors import InputError
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.traces.synthetic import synthetic_trace
from moeopt.sim.traces.trace import Batching, Trace, all_step_tokens
from moeopt.sim.traces.workload import Workload

Integers = NDArray[np.int64]
MAX_CELLS = 2**28
"""Most entries of `counts`."""


@dataclass(frozen=True)
class Loads:
    """Tokens per expert.

    Attributes
    ----------
    counts
        Shape (steps, layers, experts).
    tokens
        Shape (steps,): tokens in each step.
    ids
        Per step, shape (tokens, layers, k): the experts in the router's order, -1 for none; None if
        unknown. A cache, and the choice of deferred experts, go by it; without it by rising expert
        number.
    """

    counts: Integers
    tokens: Integers
    ids: Sequence[Integers] | None = None

    def first_mentions(self, step: int) -> Integers:
        """Return where each expert is first mentioned, shape (layers, experts).

        Active ones differ in their layer; the numbers of others mean nothing.
        """
        _, layers, experts = self.counts.shape
        first = np.tile(np.arange(experts), (layers, 1))
        if self.ids is not None:
            # From the last mention to the first, so that the first is written last.
            chosen = self.ids[step][::-1, :, ::-1]
            tokens, _, k = chosen.shape
            place = np.arange(tokens * k)[::-1].reshape(tokens, 1, k)
            token, layer, slot = np.nonzero(chosen >= 0)
            first[layer, chosen[token, layer, slot]] = place[token, 0, slot]
        return first

    def first(self, steps: int | None, layers: int | None) -> "Loads":
        """Return the first steps and layers, by default all; InputError if there are too few."""
        steps = _within("steps", steps, self.counts.shape[0], "loads: there are")
        layers = _within("layers", layers, self.counts.shape[1], "loads: there are")
        ids = None if self.ids is None else [of[:, :layers] for of in self.ids[:steps]]
        return Loads(self.counts[:steps, :layers], self.tokens[:steps], ids)


def loads_of_counts(counts: ArrayLike, model: ModelShape) -> Loads:
    """Return given counts as loads, shape (steps, layers, experts).

    A step has as many tokens as its first layer's counts say at `top_k` experts per token.

    Raises
    ------
    InputError
        If the shape, the experts or the layers do not fit the model, or a count is not a
        non-negative integer.
    """
    array = np.asarray(counts)
    if array.ndim != 3 or not array.size:
        raise InputError(f"counts: must have steps, layers and experts, not shape {array.shape}")
    if not np.issubdtype(array.dtype, np.integer) or int(array.min()) < 0:
        raise InputError("counts: must be integers, none negative")
    if array.shape[2] != model.routed_experts:
        wrong = f"{array.shape[2]} experts in a model of {model.routed_experts}"
        raise InputError(f"counts: {wrong}")
    there = model.layers - model.dense_layers
    if array.shape[1] > there:
        raise InputError(f"counts: {array.shape[1]} layers in a model of {there} with experts")
    tokens = -(-array[:, 0].sum(axis=1).astype(np.int64) // model.top_k)
    return Loads(array.astype(np.int64), tokens)


def loads_of_trace(
    trace: Trace,
    model: ModelShape,
    batch: int,
    steps: int | None = None,
    layers: int | None = None,
    batching: Batching = "streams",
) -> Loads:
    """Return the first steps of a trace as loads.

    Parameters
    ----------
    batch, batching
        How steps are made of it (`moeopt.sim.traces.windows`).
    steps, layers
        How many; by default all that the trace has.

    Raises
    ------
    InputError
        If the trace does not fit the model or has not so many steps or layers.
    """
    if batch < 1:
        raise InputError(f"batch: must be at least 1, not {batch}")
    trace.check_fits(model.routed_experts, model.top_k, model.layers - model.dense_layers)
    members = all_step_tokens(trace, batch, batching)
    of = f"{trace.name} with batch {batch}: there are"
    steps = _within("steps", steps, len(members), of)
    layers = _within("layers", layers, trace.layers, of)
    experts = model.routed_experts
    if steps * layers * experts > MAX_CELLS:
        raise InputError(f"steps: {steps} x {layers} layers x {experts} experts are too many")
    ids = [trace.topk_ids[rows, :layers].astype(np.int64) for rows in members[:steps]]
    counts = np.zeros((steps, layers, experts), dtype=np.int64)
    for step, chosen in enumerate(ids):
        cell = (np.arange(layers)[:, None] * experts + chosen)[chosen >= 0]
        counts[step] = np.bincount(cell, minlength=layers * experts).reshape(layers, experts)
    return Loads(counts, np.array([len(chosen) for chosen in ids]), ids)


def loads_of_workload(
    workload: Workload, model: ModelShape, batch: int, steps: int, layers: int | None, seed: int
) -> Loads:
    """Draw synthetic steps.

    A workload that describes one layer is drawn for every layer on its own, from the seed and the
    layer's number.

    Parameters
    ----------
    batch, steps
        Tokens in a step, and how many steps.
    layers
        How many; by default all that have experts.

    Raises
    ------
    InputError
        If a number is out of range.
    """
    for name, value, least in (("batch", batch, 1), ("steps", steps, 1), ("seed", seed, 0)):
        if value < least:
            raise InputError(f"{name}: must be at least {least}, not {value}")
    there = model.layers - model.dense_layers
    layers = _within("layers", layers, there, f"{model.name}: layers with experts:")
    if steps * layers * max(model.routed_experts, batch * model.top_k) > MAX_CELLS:
        raise InputError(f"steps: {steps} of {batch} tokens in {layers} layers are too many")
    trace = synthetic_trace(workload, model, batch, steps, seed)
    if trace.layers < layers:
        seeds = np.random.SeedSequence(seed).generate_state(layers)
        drawn = [synthetic_trace(workload, model, batch, steps, int(own)) for own in seeds]
        ids = np.concatenate([one.topk_ids for one in drawn], axis=1)
        trace = Trace(trace.name, ids)
    return loads_of_trace(trace, model, batch, steps, layers, "window")


def _within(name: str, asked: int | None, there: int, where: str) -> int:
    if there < 1 or (asked is not None and not 1 <= asked <= there):
        wanted = "at least 1" if asked is None else str(asked)
        raise InputError(f"{name}: {where} {there}, not {wanted}")
    return there if asked is None else asked
