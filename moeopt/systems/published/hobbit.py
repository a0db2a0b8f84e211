"""HOBBIT: the GPU alone, experts that matter little are uploaded in few bits."""

import numpy as np

from moeopt.systems.readers import Readers
from moeopt.systems.system import (
    Assignment,
    RunState,
    System,
    SystemDecision,
    expected,
    hottest_of_each,
    idle,
)
from moeopt.systems.work import GPU, Integers
from moeopt.systems.world import World

LOW_BITS = 4.0
"""Bits of an expert that matters little (HOBBIT, its example of mixed precision)."""


class Hobbit(System):
    """HOBBIT, as context-aware CXL-NDP 5.1 describes it: mixed precision by the router's scores.

    An expert that is not resident is uploaded at the model's own width if it is among the first
    half of some token's experts, and in 4 bits if it is in the last half of all that chose it.
    """

    name = "hobbit"
    paper = "HOBBIT; context-aware CXL-NDP 5.1"
    needs = frozenset(("gpu",))
    decisions = (
        SystemDecision("residents", "placement", "frequency", "once per run"),
        SystemDecision("widths", "bitwidth", "uniform", "quality"),
    )

    def prepare(self, world: World, seen: Readers) -> RunState:
        """Keep the most popular experts of each layer on the GPU, at the model's own width."""
        resident = hottest_of_each(expected(world, seen), world.slots_per_layer)
        own = world.model.bits
        world = world.at_widths((min(LOW_BITS, own), own))
        state = RunState.of(world, seen, resident=resident)
        state.width[:] = 1
        return state

    def route(self, state: RunState, layer: int, tokens: Integers) -> Assignment:
        """Run everything on the GPU; choose the width of each upload by its tokens' ranks."""
        domain = idle(np.full_like(tokens, GPU), tokens)
        if state.prompt:
            return Assignment(domain)
        ids = state.readers.step_ids(state.step)[:, layer]
        weights = state.readers.step_weights(state.step)
        if weights is not None:
            order = np.argsort(-weights[:, layer], axis=1, kind="stable")
            ids = np.take_along_axis(ids, order, axis=1)
        first = ids[:, : -(-ids.shape[1] // 2)]
        matters = np.zeros(len(tokens), dtype=np.bool_)
        matters[first[first >= 0]] = True
        width = np.where(state.resident[layer] | matters, 1, 0)
        return Assignment(domain, width=width)
