"""Enhanced KTransformers: the baseline of TriMoE 5.1.2, with on-demand loading and prefetching."""

import numpy as np

from moeopt.systems.policies import ktransformers
from moeopt.systems.readers import Readers
from moeopt.systems.system import (
    Assignment,
    Mechanisms,
    RunState,
    System,
    SystemDecision,
    idle,
    with_popular,
)
from moeopt.systems.work import Integers
from moeopt.systems.world import World


class EnhancedKTransformers(System):
    """TriMoE 5.1.2: "prefetching and on-demand loading of hot experts" on top of KTransformers.

    Hot experts are loaded as long as the later of GPU and CPU gets earlier. Those of the next layer
    that the forecast has as hottest are prefetched while PCIe is idle.
    """

    name = "enhanced-ktransformers"
    paper = "TriMoE 5.1.2"
    needs = frozenset(("gpu", "cpu"))
    mechanisms = Mechanisms(cpu_tasks="dynamic")
    decisions = (
        SystemDecision("residents", "placement", "frequency", "once per run"),
        SystemDecision("loading", "tri_domain", "ktransformers", "within a step"),
    )

    def prepare(self, world: World, seen: Readers) -> RunState:
        """Keep the most popular experts of each layer on the GPU."""
        return with_popular(world, seen)

    def route(self, state: RunState, layer: int, tokens: Integers) -> Assignment:
        """Load hot experts on demand, and prefetch the next layer's while the link is idle."""
        domain = idle(ktransformers(state.offer(layer, tokens))[0], tokens)
        return Assignment(domain, ahead=next_hot(state, layer))


def next_hot(state: RunState, layer: int, most: int = 8) -> list[int]:
    """Return the next layer's experts that are not resident, the hottest of the forecast first."""
    if state.prompt or layer + 1 >= state.world.layers:
        return []
    load = np.where(state.resident[layer + 1], 0.0, state.average[layer + 1])
    order = np.argsort(-load, kind="stable")[:most]
    return [int(expert) for expert in order if load[expert] >= 1.0]
