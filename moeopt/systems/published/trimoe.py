"""TriMoE: GPU, AMX CPU and NDP DIMMs; cold experts localized, migrations before each layer."""

from collections.abc import Sequence

import numpy as np

from moeopt.problems.relayout.heuristics import benefit_greedy
from moeopt.problems.relayout.instance import Instance, Migration
from moeopt.problems.tri_domain.layout_rule import STRIPED
from moeopt.systems.cost_table import UNAVAILABLE_NS
from moeopt.systems.layouts import tuned_layout
from moeopt.systems.migrations import DIMM_LINK, PCIE, Transfer
from moeopt.systems.policies import trimoe
from moeopt.systems.readers import Readers
from moeopt.systems.relayouts import relayout_instance
from moeopt.systems.system import (
    Assignment,
    Mechanisms,
    RunState,
    System,
    SystemDecision,
    expected,
    hottest_of_each,
    idle,
)
from moeopt.systems.work import GPU, Integers
from moeopt.systems.world import World

MATRICES = 3
"""Gate, up and down: an expert's matrices."""


class TriMoE(System):
    """TriMoE 4: hot experts in HBM, warm ones striped, cold ones localized; relayout at run time.

    Migrations are chosen on the forecast (Eq. 8), by how much the refined makespan falls. The
    window is this layer's attention and shared experts (4.3). A move keeps both its DIMMs' links
    busy for the bytes of an expert.
    """

    name = "trimoe"
    paper = "TriMoE"
    needs = frozenset(("gpu", "cpu", "ndp"))
    mechanisms = Mechanisms(whole_prompts=True, uploads_early=True)
    decisions = (
        SystemDecision("layout", "layout", "trimoe-layout-tuned", "once per run"),
        SystemDecision("migrations", "relayout", "benefit-makespan", "stateful"),
        SystemDecision("schedule", "tri_domain", "trimoe", "within a step"),
    )

    def prepare(self, world: World, seen: Readers) -> RunState:
        """Lay out offline: the hottest in HBM, and the cut that is best on the profile (4.3)."""
        resident = hottest_of_each(expected(world, seen), world.slots_per_layer)
        loads = np.ceil(expected(world, seen)).astype(np.int64)
        dimm = np.array([tuned_layout(world, load, world.slots_per_layer) for load in loads])
        return RunState.of(world, seen, resident=resident, dimm=dimm)

    def before(self, state: RunState, layer: int) -> Sequence[Transfer]:
        """Migrate what the forecast says, as far as it fits the window."""
        world, window = state.world, window_ns(state.world)
        if min(self.move_ns(world), int(world.table.fetch_ns[0])) > window:
            return ()
        tokens = np.rint(state.average[layer]).astype(np.int64)
        if not tokens.any():
            return ()
        instance = relayout_instance(state, layer, tokens, window, self.move_ns(world))
        chosen = benefit_greedy(instance, benefit_reading=self.takes("benefit_reading")).migrations
        return [move for one in chosen for move in self._made(state, layer, one, instance)]

    def move_ns(self, world: World) -> int:
        """Return how long a move between DIMMs keeps each of its links busy."""
        whole = int(world.table.move_ns[0])
        alone = self.takes("move_links") == "one matrix a link"
        return -(-whole // MATRICES) if alone and whole < UNAVAILABLE_NS else whole

    def notes(self, world: World) -> Sequence[str]:
        """Say what cannot migrate here."""
        found = []
        window = window_ns(world)
        if "dimm_link" in world.table.missing:
            found.append("no DIMM-Link: experts do not migrate between DIMMs")
        elif self.move_ns(world) > window:
            found.append(f"no move fits its window of {window / 1e3:.0f} us")
        if int(world.table.fetch_ns[0]) > window:
            found.append("no prefetch fits its window")
        return found

    def _made(
        self, state: RunState, layer: int, one: Migration, instance: Instance
    ) -> list[Transfer]:
        """Change the layout; return what keeps which link busy."""
        before = int(state.dimm[layer, one.expert])
        after = STRIPED if one.dimm is None else one.dimm
        table, reads = state.world.table, self.takes("move_reads") == "yes"

        def read_ns(dimm: int) -> int:
            layout = "striped" if dimm == STRIPED else "localized"
            return int(table.read_ns[layout][0]) if reads else 0

        if one.kind == "prefetch":
            # There for this step alone: the state's own residents stay as they are.
            state.ready_ns[one.expert] = 0
            length = instance.prefetch_ns
            return [Transfer(PCIE, length, one.kind, one.expert, before, read_ns(before))]
        state.dimm[layer, one.expert] = after
        length = instance.relayout_ns if one.kind != "rebalance" else instance.rebalance_ns
        # A striped end has no link of its own; what it reads or writes goes with the other's.
        ends = [dimm for dimm in (before, after) if dimm != STRIPED]
        made = [
            Transfer(f"{DIMM_LINK} {d}", length, one.kind, one.expert, d, read_ns(d)) for d in ends
        ]
        if STRIPED in (before, after):
            link = made[0].link
            made.append(Transfer(link, 0, one.kind, one.expert, STRIPED, read_ns(STRIPED)))
        return made

    def route(self, state: RunState, layer: int, tokens: Integers) -> Assignment:
        """Refine the cheapest paths (4.2)."""
        return Assignment(idle(trimoe(state.offer(layer, tokens))[0], tokens))

    def prompt(self, state: RunState, layer: int, tokens: Integers) -> Assignment:
        """Run prompts wholly on the GPU (4.1)."""
        return Assignment(idle(np.full_like(tokens, GPU), tokens))


def window_ns(world: World) -> int:
    """Return how long links are free before a layer's experts: attention and shared experts (4.3).

    With the KV cache on the host attention takes as long as its way over PCIe.
    """
    context = world.prompt + world.output // 2
    attention = world.attention_ns(world.batch, context)
    kv = world.kv_ns(world.batch, context)
    return max(attention, kv) + world.shared_ns(world.batch)
