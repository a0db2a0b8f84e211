"""HybriMoE: GPU and CPU serve one queue from both ends, the next layer's experts are prefetched."""

from moeopt.systems.policies import hybrimoe
from moeopt.systems.published.enhanced_ktransformers import next_hot
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


class HybriMoE(System):
    """HybriMoE: hybrid scheduling of each layer, and prefetching between layers.

    Its score-based cache is taken as the most popular experts of each layer, which do not change.
    """

    name = "hybrimoe"
    paper = "HybriMoE"
    needs = frozenset(("gpu", "cpu"))
    mechanisms = Mechanisms(cpu_tasks="dynamic")
    decisions = (
        SystemDecision("residents", "placement", "frequency", "once per run"),
        SystemDecision("schedule", "tri_domain", "hybrimoe", "within a step"),
    )

    def prepare(self, world: World, seen: Readers) -> RunState:
        """Keep the most popular experts of each layer on the GPU."""
        return with_popular(world, seen)

    def route(self, state: RunState, layer: int, tokens: Integers) -> Assignment:
        """Let the GPU take the queue's head and the CPU its tail."""
        domain = idle(hybrimoe(state.offer(layer, tokens))[0], tokens)
        return Assignment(domain, ahead=next_hot(state, layer))
