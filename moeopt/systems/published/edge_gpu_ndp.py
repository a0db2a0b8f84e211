"""Edge GPU-NDP: every expert cut over all units, the GPU takes what balances them."""

import numpy as np

from moeopt.systems.clock import LayerWork
from moeopt.systems.readers import Readers
from moeopt.systems.slices import balanced_slices, work_of_slices
from moeopt.systems.system import (
    Assignment,
    RunState,
    System,
    SystemDecision,
    expected,
    hottest_of_each,
    idle,
)
from moeopt.systems.work import NDP, Integers
from moeopt.systems.world import World


class EdgeGpuNdp(System):
    """Edge GPU-NDP III: tensor parallelism over the units, and slices that the GPU takes.

    Eq. 1 in decoding, with the activations of all tokens; Eq. 3 where an active expert is resident;
    Eq. 2 in prompts. The most frequent experts of the prompts are fetched once, behind the prompts,
    into what the GPU's memory has room for.
    """

    name = "edge-gpu-ndp"
    paper = "edge GPU-NDP"
    needs = frozenset(("gpu", "ndp"))
    decisions = (
        SystemDecision("residents", "placement", "uniform-x", "once per run"),
        SystemDecision("slices", "balance", "framework", "within a step"),
    )

    def prepare(self, world: World, seen: Readers) -> RunState:
        """Start with nothing on the GPU; without prompts, or with an offline profile, with its own.

        The most frequent experts of a profile are there before the prompts.
        """
        state = RunState.of(world, seen)
        if not world.prompt or self.takes("prefetched_by") == "offline profile":
            state.resident = hottest_of_each(expected(world, seen), world.slots_per_layer)
        return state

    def after_prompts(self, state: RunState) -> int:
        """Fetch the prompts' most frequent experts, x of each layer (III-D)."""
        world = state.world
        if self.takes("prefetched_by") == "offline profile":
            return 0
        counts = state.readers.prompt_counts[: world.layers]
        state.resident = hottest_of_each(counts, world.slots_per_layer)
        return int(state.resident.sum()) * int(world.table.fetch_ns[0])

    def route(self, state: RunState, layer: int, tokens: Integers) -> Assignment:
        """Leave every expert with the units; `work` says which slices the GPU takes."""
        return Assignment(idle(np.full_like(tokens, NDP), tokens))

    def work(self, state: RunState, layer: int, tokens: Integers, made: Assignment) -> LayerWork:
        """Return the work of the slices that the equations give each device."""
        return work_of_slices(state.world, balanced_slices(state, layer, tokens))
