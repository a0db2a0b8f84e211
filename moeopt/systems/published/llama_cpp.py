"""llama.cpp: whole layers on the GPU, the others' experts on the CPU."""

import numpy as np

from moeopt.systems.readers import Readers
from moeopt.systems.system import Assignment, Mechanisms, RunState, System, SystemDecision, idle
from moeopt.systems.work import CPU, GPU, Integers
from moeopt.systems.world import World

UPLOAD_FROM = 32
"""Tokens from which experts in the host's memory are uploaded instead of computed there."""


class LlamaCpp(System):
    """llama.cpp with ``--n-cpu-moe``: experts of the last layers that fit are on the GPU.

    From 32 tokens in a ubatch on the experts of the other layers are uploaded and computed there.
    """

    name = "llama.cpp"
    paper = "llama.cpp; KTransformers 2.3"
    needs = frozenset(("gpu", "cpu"))
    mechanisms = Mechanisms(launches_per_layer=49, launch_us=5.0, sockets="interleaved")
    """3,000 launches of 5 us a token of DeepSeek-V3; no regard to sockets (KTransformers 2.3)."""

    decisions = (SystemDecision("residents", "placement", "whole layers", "none"),)

    def prepare(self, world: World, seen: Readers) -> RunState:
        """Put the experts of as many of the last layers on the GPU as fit."""
        resident = np.zeros((world.layers, world.experts), dtype=np.bool_)
        if whole := world.slots // world.experts:
            resident[-whole:] = True
        return RunState.of(world, seen, resident=resident)

    def route(self, state: RunState, layer: int, tokens: Integers) -> Assignment:
        """Compute where the weights are, unless the tokens are worth uploads."""
        world = state.world
        many = (world.ubatch if state.prompt else world.batch) >= UPLOAD_FROM
        domain = np.full_like(tokens, GPU if many else CPU)
        return Assignment(idle(np.where(state.resident[layer], GPU, domain), tokens))
