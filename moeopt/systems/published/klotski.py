"""Klotski: everything on the GPU, uploads behind computation."""

import numpy as np

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
from moeopt.systems.work import GPU, Integers
from moeopt.systems.world import World


class Klotski(System):
    """Klotski, as TriMoE 5.1.2 describes it: the GPU alone, transfers behind hot experts' work.

    Experts are uploaded by falling tokens while others compute; the next layer's hottest of the
    forecast go ahead while the link is idle.
    """

    name = "klotski"
    paper = "Klotski; TriMoE 5.1.2"
    needs = frozenset(("gpu",))
    mechanisms = Mechanisms(whole_prompts=True, uploads_early=True)
    decisions = (
        SystemDecision("residents", "placement", "frequency", "once per run"),
        SystemDecision("order", "tri_domain", "klotski", "none"),
    )

    def prepare(self, world: World, seen: Readers) -> RunState:
        """Keep the most popular experts of each layer on the GPU."""
        return with_popular(world, seen)

    def route(self, state: RunState, layer: int, tokens: Integers) -> Assignment:
        """Run everything on the GPU."""
        domain = idle(np.full_like(tokens, GPU), tokens)
        return Assignment(domain, ahead=next_hot(state, layer))
