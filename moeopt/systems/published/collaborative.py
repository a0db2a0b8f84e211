"""CPU-GPU collaborative inference: an LRU cache of experts on the GPU, misses on the CPU."""

from collections.abc import Mapping

import numpy as np

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
        state.ways = np.zeros(world.layers, dtype=np.int64)
        state.ways[: world.slots // ways] = ways
        state.used = np.full((world.layers, world.experts), -1, dtype=np.int64)
        state.valid_ns = np.zeros((world.layers, world.experts), dtype=np.int64)
        return state

    def route(self, state: RunState, layer: int, tokens: Integers) -> Assignment:
        """Run hits on the GPU and misses on the CPU; copy the misses."""
        assert isinstance(state, _Cached)  # noqa: S101
        if state.prompt:
            return Assignment(idle(np.full_like(tokens, CPU), tokens))
        asked, ways = np.flatnonzero(tokens), int(state.ways[layer])
        held = state.used[layer] >= 0
        state.resident[layer] = held & (state.valid_ns[layer] <= state.now_ns)
        hits = state.resident[layer, asked]
        domain = idle(np.where(state.resident[layer], GPU, CPU), tokens)
        if not ways:
            return Assignment(domain)
        coming = int((held & (state.valid_ns[layer] > state.now_ns)).sum())
        wanted = [int(e) for e in asked[~hits] if not held[e]][: max(0, ways - coming)]
        state.turn += 1
        state.used[layer, asked[held[asked]]] = state.turn
        # Those asked for now, and those on their way, are not evicted.
        free = ways - int(held.sum())
        settled = np.flatnonzero(held & (state.valid_ns[layer] <= state.now_ns))
        settled = settled[state.used[layer, settled] < state.turn]
        settled = settled[np.argsort(state.used[layer, settled], kind="stable")]
        room = free + len(settled)
        wanted = wanted[:room]
        for expert in settled[: max(0, len(wanted) - free)]:
            state.used[layer, expert] = -1
        return Assignment(domain, copies=wanted)

    def copied(self, state: RunState, layer: int, ends_ns: Mapping[int, int]) -> None:
        """Let the copies be valid from their ends on."""
        assert isinstance(state, _Cached)  # noqa: S101
        for expert, end in ends_ns.items():
            state.used[layer, expert] = state.turn
            state.valid_ns[layer, expert] = end


class _Cached(RunState):
    """RunState with the caches: when each expert was used last, and from when on it is valid."""

    ways: Integers
    used: Integers
    valid_ns: Integers
    turn: int = 0
