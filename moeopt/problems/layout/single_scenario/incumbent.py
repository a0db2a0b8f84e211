"""The best plan so far, and quick packings that may become it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .packing import longest_first, repair
from .scenario import CPU_LOCAL, CPU_STRIPED, GPU_LOCAL, GPU_STRIPED, NDP, Plan, Scenario, Times

Ints = NDArray[np.int64]


@dataclass
class Incumbent:
    """The best plan of a scenario.

    Attributes
    ----------
    scenario
        The scenario.
    upper
        Only makespans below this are of interest; the plan's own if there is one.
    on_plan
        Called with each better plan and its makespan.
    seed
        Of the packings' random numbers; each packing draws anew.
    plan
        The plan, None if none below `upper` is known.
    """

    scenario: Scenario
    upper: int
    on_plan: Callable[[Plan, int], None]
    seed: int = 0
    plan: Plan | None = None

    def offer(self, way: Ints, experts: Ints, place: Ints) -> None:
        """Keep a plan if it is better; what it is worth is computed from the plan alone.

        `place` is the DIMM of each of `experts`, where -1 stands for the localized reads.
        """
        dimm = np.full(self.scenario.experts, -1)
        dimm[experts[experts >= 0]] = place[experts >= 0]
        dimm[np.isin(way, (GPU_LOCAL, CPU_LOCAL))] = place[experts < 0]
        plan = Plan(way, dimm)
        makespan = plan.makespan(self.scenario)
        if makespan < self.upper:
            self.upper, self.plan = makespan, plan
            self.on_plan(plan, makespan)

    def items_of(self, way: Ints) -> tuple[Times, Ints]:
        """Return what the DIMMs hold if the experts run so: sizes, falling, and experts."""
        experts = np.flatnonzero(way == NDP)
        reads = int(np.isin(way, (GPU_LOCAL, CPU_LOCAL)).sum())
        experts = np.concatenate([experts, np.full(reads, -1)])
        sizes = np.where(experts < 0, self.scenario.local_read, self.scenario.ndp[experts])
        order = np.argsort(-sizes, kind="stable")
        return sizes[order], experts[order]

    def complete(self, leavers: Ints) -> Ints:
        """Return the ways of all experts, given those of the first; the others run on NDP."""
        way = np.full(self.scenario.experts, NDP)
        way[: len(leavers)] = leavers
        return way

    def pack(self, way: Ints, makespan: int, trials: int) -> bool:
        """Pack what the DIMMs hold if the experts run so; return whether that is within time."""
        sizes, experts = self.items_of(way)
        dimms, slots = self.scenario.dimms, self.scenario.slots
        if len(sizes) > dimms * slots:
            return False
        place = longest_first(sizes, dimms, slots)
        striped = int(np.isin(way, (GPU_STRIPED, CPU_STRIPED)).sum())
        capacity = makespan - striped * self.scenario.striped_read
        draws = np.random.default_rng(self.seed).integers(2**62, size=(trials, 3))
        self.seed += 1
        done = repair(sizes, place, dimms, slots, capacity, draws)
        self.offer(way, experts, place)
        return bool(done)


def everything_striped(scenario: Scenario) -> Plan:
    """Return a plan without localized experts, each on the host that is free first with it."""
    way = np.empty(scenario.experts, dtype=np.int64)
    gpu, cpu = 0, 0
    for expert, costs in enumerate(scenario.cost.T.tolist()):
        if gpu + costs[GPU_STRIPED] < cpu + costs[CPU_STRIPED]:
            way[expert], gpu = GPU_STRIPED, gpu + costs[GPU_STRIPED]
        else:
            way[expert], cpu = CPU_STRIPED, cpu + costs[CPU_STRIPED]
    return Plan(way, np.full(scenario.experts, -1))
