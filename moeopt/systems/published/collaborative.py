"""CPU-GPU collaborative inference: an LRU cache of experts on the GPU, misses on the CPU."""

from collections.abc import Mapping

import numpy as np

from moeopt.systems.caches import Caches
from moeopt.systems.readers import Readers
from moeopt.systems.system import Assignment, Mechanisms, RunState, System, SystemDecision, idle
from moeopt.systems.work import CPU, GPU, Integers
from moeopt.systems.world import World


class Collaborative(System):
    """CPU-GPU collaborative III: N layers with M cached experts each, by least recent use.

    A hit runs on the GPU, a miss on the CPU, and then its weights are copied. Copies wait in one
    queue, first in, first out; an entry is valid from when its copy has ended; at most M copies of
    a layer wait at a time, and what comes beyond is not copied.
    """

    name = "collaborative"
    paper = "CPU-GPU collaborative"
    needs = frozenset(("gpu", "cpu"))
    mechanisms = Mechanisms(most_batch=1)
    decisions = (
        SystemDecision("ways", "cache", "uniform-ways", "once per run"),
        SystemDecision("contents", "cache", "LRU", "stateful"),
    )

    def prepare(self, world: World, seen: Readers) -> RunState:
        """Give twice top-k ways to the first layers, as far as the memory goes (III-B)."""
        state = _Cached.of(world, seen)
        assert isinstance(state, _Cached)  # noqa: S101
        ways = max(1, min(world.experts, 2 * world.model.top_k))
        cached = world.slots // ways
        state.caches = Caches([ways if layer < cached else 0 for layer in range(world.layers)])
        return state

    def route(self, state: RunState, layer: int, tokens: Integers) -> Assignment:
        """Run hits on the GPU and misses on the CPU; copy the misses."""
        assert isinstance(state, _Cached)  # noqa: S101
        if state.prompt or not state.caches.ways[layer]:
            return Assignment(idle(np.full_like(tokens, CPU), tokens))
        state.resident[layer] = False
        state.resident[layer, state.caches.usable(layer, state.now_ns)] = True
        asked = state.caches.ask(layer, np.flatnonzero(tokens).tolist(), state.now_ns)
        domain = np.where(state.resident[layer], GPU, CPU)
        return Assignment(idle(domain, tokens), copies=asked.let_in)

    def copied(self, state: RunState, layer: int, ends_ns: Mapping[int, int]) -> None:
        """Let the copies be valid from their ends on."""
        assert isinstance(state, _Cached)  # noqa: S101
        for expert, end in ends_ns.items():
            state.caches.arrives(layer, expert, end)


class _Cached(RunState):
    """RunState with the caches."""

    caches: Caches

    def room(self, layer: int) -> int:
        """Return a layer's ways: some may wait for their copies."""
        return self.caches.ways[layer]
