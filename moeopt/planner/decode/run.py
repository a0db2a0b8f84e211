"""Running decode steps: decide, time, tally."""

from dataclasses import dataclass, field

import numpy as np

from moeopt.core.errors import InputError
from moeopt.planner.decode.costs import CostTable
from moeopt.planner.decode.decide import Decider
from moeopt.planner.decode.events import EventClock, resources
from moeopt.planner.decode.fast import SumClock
from moeopt.planner.decode.loads import Loads
from moeopt.planner.decode.migrations import link_names
from moeopt.planner.decode.result import Simulation
from moeopt.planner.decode.work import Integers, LayerTimes, StepWork, layer_times
from moeopt.sim.engine.timeline import Timeline, Usage, usage
from moeopt.sim.plan.fit import Extent, check_fits
from moeopt.sim.plan.schema import Plan

MAX_TASKS = 5_000_000
"""Most tasks that are kept with start and end."""


@dataclass
class _Tally:
    """What adds up over the steps."""

    edges: list[list[int]] = field(default_factory=list)
    experts: Integers = field(default_factory=lambda: np.zeros(3, dtype=np.int64))
    hits: int = 0
    misses: int = 0
    fetches: int = 0

    def add(self, work: StepWork, edges: list[int]) -> None:
        self.edges.append(edges)
        self.experts += np.bincount(work.domain.ravel() + 1, minlength=4)[1:]
        self.hits += work.hits
        self.misses += work.misses
        self.fetches += int(np.count_nonzero(work.fetched))


def simulate_loads(
    plan: Plan,
    costs: CostTable,
    loads: Loads,
    dimms: int,
    times: LayerTimes | None = None,
    *,
    timeline: bool = False,
) -> Simulation:
    """Execute a plan with costs given as tables; `moeopt.planner.simulate` makes them.

    Parameters
    ----------
    costs
        With one row per width that the plan names, rising, or a single one.
    dimms
        Number of DIMMs.
    times
        By default the plan's, with shared experts that cost nothing unless it says otherwise.
    timeline
        Time the steps by events and keep every task, instead of by sums.

    Raises
    ------
    InputError
        If the plan does not fit, or `costs` lacks something that it uses.
    """
    steps, layers, experts = loads.counts.shape
    check_fits(plan, Extent(steps, layers, experts, dimms))
    times = times or layer_times(plan, layers)
    links = link_names(plan, dimms)
    decider = Decider(plan, costs, loads, dimms, times)
    clock: EventClock | SumClock = SumClock(dimms, times)
    if timeline:
        _check_size(loads, dimms)
        clock = EventClock(dimms, times, links)
    tally = _Tally()
    for step in range(steps):
        work = decider.decide(step)
        tally.add(work, clock.run(work, step))
    edges = np.array(tally.edges, dtype=np.int64)
    kept, makespan, used = _usage(clock, dimms, links)
    return Simulation(
        plan=plan.name,
        machine="",
        model="",
        steps=steps,
        layers=layers,
        model_layers=layers,
        tokens=int(loads.tokens.sum()),
        step_ns=np.diff(edges[:, -1], prepend=0),
        layer_ns=np.diff(edges, axis=1),
        makespan_ns=makespan,
        usage=used,
        experts_run=dict(zip(("gpu", "cpu", "ndp"), tally.experts.tolist(), strict=True)),
        hits=tally.hits,
        misses=tally.misses,
        fetches=tally.fetches,
        migrations_done=decider.migrations.done,
        migrations_missed=decider.migrations.missed,
        migrations_needless=decider.migrations.needless,
        timeline=kept,
    )


def _usage(
    clock: EventClock | SumClock, dimms: int, links: list[str]
) -> tuple[Timeline | None, int, list[Usage]]:
    if isinstance(clock, EventClock):
        kept = clock.timeline()
        return kept, kept.makespan_ns, kept.usage()[:-1]
    makespan, busy = clock.makespan_ns, clock.busy_ns()
    serial = resources(dimms, links)[:-1]
    return None, makespan, [usage(r, None, busy.get(r.name, 0), makespan) for r in serial]


def _check_size(loads: Loads, dimms: int) -> None:
    tasks = int(np.count_nonzero(loads.counts)) * (1 + dimms)
    if tasks > MAX_TASKS:
        steps = len(loads.counts)
        fit = steps * MAX_TASKS // tasks
        raise InputError(
            f"steps: a timeline of {steps} may have {tasks} tasks, above {MAX_TASKS};"
            f" about {fit} steps fit"
        )
