"""Context-aware CXL-NDP: hot experts of the prompts on the GPU, the rest on the box in few bits."""

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.core.units import GIB
from moeopt.systems.policies import monde
from moeopt.systems.published.monde import in_turn
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
from moeopt.systems.widths import BITS, prefix_widths
from moeopt.systems.work import GPU, NDP, Integers
from moeopt.systems.world import World


class CxlNdp(System):
    """Context-aware CXL-NDP 4: one placement per batch from its prompts, widths by prefix split.

    The hottest experts of the summed prompts lie on the GPU, at the model's own width; what changes
    is uploaded before the first step. The others run on the box at 1 to 4 bits, 3 or 2 on average,
    which holds every expert at all of these widths and at its own (4.2).
    """

    name = "cxl-ndp"
    paper = "context-aware CXL-NDP"
    needs = frozenset(("gpu", "cxl"))
    decisions = (
        SystemDecision("residents", "placement", "importance", "once per run"),
        SystemDecision("widths", "bitwidth", "prefix-split", "quality"),
    )

    def prepare(self, world: World, seen: Readers) -> RunState:
        """Start with the profile's hottest experts on the GPU."""
        average = expected(world, seen)
        resident = hottest_of_each(average, world.slots_per_layer)
        own = world.model.bits
        check_replicas(world)
        world = world.at_widths((*(float(bits) for bits in BITS), own))
        state = RunState.of(world, seen, resident=resident, dimm=in_turn(average, world.dimms))
        state.width[:] = len(world.widths) - 1
        if not world.prompt:
            state.width = prefix_widths(state, self.seen(state), int(self.takes("average_bits")))
        return state

    def seen(self, state: RunState) -> Integers | NDArray[np.float64]:
        """Return the loads by which residents and widths are chosen, shape (layers, experts).

        Those of the prompts; where there are none, what the profile expects of a step.
        """
        if state.world.prompt:
            return state.readers.prompt_counts[: state.world.layers]
        return expected(state.world, state.readers)

    def after_prompts(self, state: RunState) -> int:
        """Choose residents and widths by the prompts; return the time of the changed uploads."""
        world, counts = state.world, self.seen(state)
        before = state.resident
        state.resident = hottest_of_each(counts, world.slots_per_layer)
        state.width = prefix_widths(state, counts, int(self.takes("average_bits")))
        changed = int((state.resident & ~before).sum())
        return changed * int(world.table.fetch_ns[-1])

    def route(self, state: RunState, layer: int, tokens: Integers) -> Assignment:
        """Run residents on the GPU, all others on NDP (Algorithm 1)."""
        return Assignment(idle(np.where(state.resident[layer], GPU, NDP), tokens))

    def prompt(self, state: RunState, layer: int, tokens: Integers) -> Assignment:
        """Upload the experts of most tokens while it helps, and run the rest on NDP."""
        return Assignment(idle(monde(state.offer(layer, tokens))[0], tokens))


def check_replicas(world: World) -> None:
    """Refuse a box that is too small for every expert at each width and at the model's own.

    Raises
    ------
    InputError
        If what it holds is stated, and less.
    """
    [box] = [one for one in world.machine.having("ndp") if one.id.startswith("cxl")][:1]
    room, model = box.memory.capacity_gib, world.model
    bits = sum(BITS) + model.bits
    needed = len(model.moe_layers) * model.routed_experts * model.expert_weights * bits / 8 / GIB
    if room is not None and needed > room:
        raise InputError(
            f"needs {needed:.0f} GiB on {box.id} of {world.machine.name} for {model.name} at"
            f" {', '.join(map(str, BITS))} and {model.bits:g} bits, which has {room:g}",
            field="memory",
        )
