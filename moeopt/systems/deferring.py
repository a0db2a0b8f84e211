"""Which experts of a single request a layer defers, and how many (KTransformers 4.2)."""

import numpy as np

from moeopt.problems.deferral.online import Scheduler

from .system import RunState
from .work import CPU, Integers
from .world import World

LEAST_IMMEDIATE = 2
"""Experts of a token that are never deferred (KTransformers 4.2)."""


def deferred_counts(world: World, method: str = "saturate") -> Integers:
    """Return how many experts each layer defers; shape (layers,).

    Parameters
    ----------
    method
        The paper's rule, or "dp": the counts of the fastest step among those that defer no more
        experts in all than the rule does.
    """
    key = "deferred", method
    if key not in world.cache:
        top_k = world.model.top_k
        if top_k <= LEAST_IMMEDIATE:
            return np.zeros(world.layers, dtype=np.int64)
        context = world.prompt + world.output // 2
        most = None if method == "saturate" else int(deferred_counts(world).sum())
        scheduler = Scheduler(
            world.layers,
            top_k,
            range(top_k - LEAST_IMMEDIATE + 1),
            method,
            min_immediate=LEAST_IMMEDIATE,
            max_total_penalty=most,
        )
        world.cache[key], _, _ = scheduler.schedule(
            world.attention_ns(1, context),
            world.shared_ns(1),
            world.sync_ns,
            int(world.table.path_ns["cpu_striped"][0, 1]),
        )
    found: Integers = np.asarray(world.cache[key])
    return found


def late_tokens(state: RunState, layer: int, domain: Integers, count: int) -> Integers:
    """Return each expert's deferred tokens: for each token, its CPU experts of least weight.

    Without weights the last in the router's order. Shape (experts,).
    """
    late = np.zeros_like(domain)
    if not count:
        return late
    ids = state.readers.step_ids(state.step)[:, layer]
    weights = state.readers.step_weights(state.step)
    for row, chosen in enumerate(ids):
        rank = -np.arange(len(chosen)) if weights is None else weights[row, layer]
        order = chosen[np.argsort(rank, kind="stable")]
        on_cpu = [e for e in order if e >= 0 and domain[e] == CPU]
        late[on_cpu[:count]] += 1
    return late
