"""Several scenarios: bounds that hold for every solution, and local search for incumbents.

Bounds: wait and see (Madansky 1960), then the aggregated model, one layout for all scenarios with
the DIMMs taken together. A solution's residents, localized experts and paths satisfy every row of
that, with each scenario's makespan in its column: the DIMM rows hold for the average over the DIMMs
because they hold for each of them. So the model's optimum is a lower bound;
`formulations/layout/spec.md`, section "Several scenarios", has the proofs.

Incumbents: iterated local search from the best heuristic, from the best of the layouts that the
scenarios have by themselves, and on from the incumbent.
"""

from dataclasses import dataclass, field
from functools import reduce
from math import gcd

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from moeopt.core.highs import Found, Program, minimize
from moeopt.core.search import Search

from .bounds import lower_bound, makespan_grid, objective_grid
from .check import objective
from .heuristics import best_of_rules
from .instance import Instance, with_idle_localized
from .local_search.descent import DESCENTS, EVALUATIONS, iterated
from .local_search.state import SearchState, costs_of, decision_of, objective_of, state_of
from .paths import IDLE, STRIPED, Device, Path
from .second_stage import Layout, as_solution, best_schedules
from .single_scenario import scenario_bounds

WAIT_AND_SEE_SHARE = 0.4
"""Part of the time that the scenarios by themselves may take; they mostly need little of it."""

FIRST_SHARE = 0.25
"""Part of the time left for incumbents before the aggregated model."""

BOUND_SHARE = 0.7
"""Part of the time that is left then for the aggregated model."""

PATIENCE = 4
"""Rounds of local search without success after which it is given up."""

LARGEST = 1000.0
"""The largest cost in the model's units, so that HiGHS's tolerances of 1e-6 are small."""

Terms = list[tuple[int, float]]
Ints = NDArray[np.int64]


@dataclass
class Model:
    """A mixed-integer program under construction; times in units of `unit_ns`.

    Attributes
    ----------
    resident, localized
        First stage: a column per expert that has tokens in some scenario.
    makespans
        The column of each scenario's makespan.
    """

    unit_ns: float
    cost: list[float] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    integer: list[int] = field(default_factory=list)
    entries: list[tuple[int, int, float]] = field(default_factory=list)
    row_lower: list[float] = field(default_factory=list)
    row_upper: list[float] = field(default_factory=list)
    resident: dict[int, int] = field(default_factory=dict)
    localized: dict[int, int] = field(default_factory=dict)
    makespans: list[int] = field(default_factory=list)

    def column(self, cost: float = 0.0, upper: float = 1.0, integer: bool = False) -> int:
        """Add a column from 0 to `upper` and return its number."""
        self.cost.append(cost)
        self.lower.append(0.0)
        self.upper.append(upper)
        self.integer.append(int(integer))
        return len(self.cost) - 1

    def at_most(self, terms: Terms, upper: float, lower: float = -np.inf) -> None:
        """Add a row: the sum of terms is at most `upper` and at least `lower`."""
        row = len(self.row_upper)
        self.entries += [(row, column, value) for column, value in terms]
        self.row_lower.append(lower)
        self.row_upper.append(upper)

    def program(self) -> Program:
        """Return the program as arrays."""
        row, column, value = zip(*self.entries, strict=True)
        shape = (len(self.row_upper), len(self.cost))
        return Program(
            cost=np.array(self.cost),
            lower=np.array(self.lower),
            upper=np.array(self.upper),
            integer=np.array(self.integer),
            rows=csr_array((value, (row, column)), shape=shape),
            row_lower=np.array(self.row_lower),
            row_upper=np.array(self.row_upper),
        )

    def solve(self, limit_s: float) -> Found:
        """Hand the model to HiGHS."""
        return minimize(self.program(), limit_s)

    def proven(self, instance: Instance, found: Found, scenarios: list[int]) -> int:
        """Return the bound on the weighted makespans of `scenarios` that HiGHS's answer proves."""
        weight = instance.path_times.weight
        grids = [int(weight[s]) * makespan_grid(instance, s) for s in scenarios]
        unit = self.unit_ns * float(weight.max())
        return max(0, found.safe_bound(unit, reduce(gcd, grids)) or 0)


def aggregated(instance: Instance, scenarios: list[int], whole: bool = False) -> Model:
    """Return the model of some of the scenarios.

    With `whole`, paths are not divided either, and no piece of work is longer than what the longest
    DIMM does by itself: a higher bound, but a much harder model.
    """
    times = instance.path_times
    busy = (times.cost, times.pcie, times.read, times.channel_read)
    largest = max(times.base, *(int(of.max()) for of in busy))
    model = Model(unit_ns=max(float(largest), LARGEST) / LARGEST)
    experts = np.flatnonzero(times.active.any(axis=0)).tolist()
    model.resident = {i: model.column(integer=True) for i in experts}
    model.localized = {i: model.column(integer=True) for i in experts}
    model.at_most([(held, 1.0) for held in model.resident.values()], instance.hbm_slots)
    if instance.dimm_slots is not None:
        slots = instance.dimms * instance.dimm_slots
        model.at_most([(held, 1.0) for held in model.localized.values()], slots)
    heaviest = float(times.weight.max())
    for s in scenarios:
        makespan = model.column(float(times.weight[s]) / heaviest, upper=np.inf)
        model.makespans.append(makespan)
        _scenario(model, instance, s, makespan, whole)
    return model


def _scenario(model: Model, instance: Instance, s: int, makespan: int, whole: bool) -> None:
    """Add the paths of scenario s: hosts, striped reads, and the DIMMs' own work on average."""
    own, unit, times = model.column(upper=np.inf), model.unit_ns, instance.path_times
    striped, local = times.read[[Path.GPU_STRIPED, Path.GPU_LOCAL]] / unit
    through_all = times.channels * times.channel_read[Path.GPU_STRIPED] / unit
    links: Terms = [(makespan, -1.0)]
    channels: Terms = [(makespan, -float(times.channels))]
    gpu: Terms = [(makespan, -1.0)]
    cpu: Terms = [(makespan, -1.0)]
    every: Terms = [(makespan, -1.0), (own, 1.0)]
    average: Terms = [(own, -float(instance.dimms))]
    for i in np.flatnonzero(times.active[s]).tolist():
        ns = times.cost[:, s, i]
        cost, copy = ns / unit, times.pcie[:, s, i] / unit
        hit, gpu_striped, cpu_striped, ndp = (model.column(integer=whole) for _ in range(4))
        gpu += [(hit, cost[Path.HIT]), (gpu_striped, cost[Path.GPU_STRIPED])]
        cpu += [(cpu_striped, cost[Path.CPU_STRIPED])]
        every += [(gpu_striped, striped), (cpu_striped, striped)]
        links += [(gpu_striped, copy[Path.GPU_STRIPED])]
        channels += [(gpu_striped, through_all), (cpu_striped, through_all)]
        average += [(ndp, cost[Path.NDP])]
        on_own = [ndp]
        if ns[Path.NDP] > instance.dram_localized_ns:
            # Otherwise NDP costs the DIMM no more than a host's read, and the hosts nothing.
            gpu_local, cpu_local = (model.column(integer=whole) for _ in range(2))
            gpu += [(gpu_local, cost[Path.GPU_LOCAL])]
            cpu += [(cpu_local, cost[Path.CPU_LOCAL])]
            average += [(gpu_local, local), (cpu_local, local)]
            links += [(gpu_local, copy[Path.GPU_LOCAL])]
            channels += [(gpu_local, local), (cpu_local, local)]
            on_own += [gpu_local, cpu_local]
            if whole:
                model.at_most([(gpu_local, local), (cpu_local, local), (own, -1.0)], 0.0)
        if whole:
            model.at_most([(ndp, cost[Path.NDP]), (own, -1.0)], 0.0)
        held: Terms = [(column, 1.0) for column in on_own]
        away: Terms = [(gpu_striped, 1.0), (cpu_striped, 1.0)]
        model.at_most([(hit, 1.0), *away, *held], 1.0, lower=1.0)
        model.at_most([(hit, 1.0), (model.resident[i], -1.0)], 0.0)
        model.at_most([*held, (model.localized[i], -1.0)], 0.0)
        model.at_most([*away, (model.localized[i], 1.0)], 1.0)
    model.at_most(gpu, -times.base / unit)
    for terms in (cpu, every, average):
        model.at_most(terms, 0.0)
    if instance.in_two_parts:
        model.at_most(links, 0.0)
    if times.channels:
        model.at_most(channels, 0.0)


@dataclass
class Bounds:
    """What is proven: weighted bounds of the scenarios by themselves, and of all together."""

    alone: list[int] = field(default_factory=list)
    together: int = 0


def solve(instance: Instance, search: Search) -> Bounds:
    """Search for bounds and for incumbents in turn; return the bounds, for studies."""
    found, layouts = Bounds(), list[Layout]()
    _prove(instance, search, lower_bound(instance))
    share_s = WAIT_AND_SEE_SHARE * search.remaining_s
    found.alone = scenario_bounds(instance, search, share_s, layouts)
    _prove(instance, search, sum(found.alone))
    incumbents = _Incumbents(instance, search, layouts)
    incumbents.improve(search.remaining_s * (1 - FIRST_SHARE))
    until_s = search.remaining_s * (1 - BOUND_SHARE)
    for whole in (False, True):  # the second is for what time the first has left over
        if search.remaining_s > until_s and not search.closed:
            bound = _together(instance, found.alone, search.remaining_s - until_s, whole)
            found.together = max(found.together, bound)
            _prove(instance, search, bound, floats=True)
    incumbents.improve(0.0)
    search.note = "CLOSED" if search.closed else "OPEN"
    return found


def _together(instance: Instance, alone: list[int], limit_s: float, whole: bool) -> int:
    """Solve the aggregated model, with no makespan below its wait-and-see bound."""
    everything = list(range(len(alone)))
    model = aggregated(instance, everything, whole)
    for s, makespan in zip(everything, model.makespans, strict=True):
        model.lower[makespan] = alone[s] // instance.scenarios[s].weight / model.unit_ns
    return model.proven(instance, model.solve(limit_s), everything)


def _prove(instance: Instance, search: Search, bound: int, *, floats: bool = False) -> None:
    grid = objective_grid(instance)
    search.prove(-(-bound // grid) * grid, floats=floats)


class _Incumbents:
    """Rounds of iterated local search; what is better goes to the search.

    Attributes
    ----------
    best
        The best state so far.
    """

    def __init__(self, instance: Instance, search: Search, layouts: list[Layout]) -> None:
        self.instance, self.search = instance, search
        self.costs = costs_of(instance)
        self.experts = np.flatnonzero(instance.path_times.active.any(axis=0))
        first = state_of(instance, self.costs, *decision_of(best_of_rules(instance)))
        own = [self._scheduled(layout, first_devices(instance, layout)) for layout in layouts]
        self.best, self.value = first, float("inf")
        self._keep(first)
        self.starts = [first]
        if own:
            self.starts.insert(0, min(own, key=lambda state: objective_of(self.costs, state)))
        self.rounds = self.failures = 0

    def improve(self, until_s: float) -> None:
        """Go on until `until_s` seconds are left, all is proven, or nothing is found any more."""

        def stopped() -> bool:
            return self.search.remaining_s <= until_s or self.search.closed

        while not stopped() and self.failures < PATIENCE:
            start = self.starts[self.rounds] if self.rounds < len(self.starts) else self.best
            rng = np.random.default_rng([self.search.seed, self.rounds])
            budget = EVALUATIONS // len(self.instance.scenarios)
            found = iterated(self.costs, start, self.experts, rng, budget, DESCENTS, 0.0, stopped)
            self.rounds += 1
            self.failures = 0 if self._keep(found) else self.failures + 1

    def _scheduled(self, layout: Layout, device: Ints) -> SearchState:
        """Return a layout's state with its best schedules."""
        device = best_schedules(self.instance, layout, device)
        return state_of(self.instance, self.costs, layout, device)

    def _keep(self, state: SearchState) -> bool:
        """Offer a state with its best schedules; return whether it is better than any before."""
        layout = Layout(state.resident, state.dimm)
        state = self._scheduled(layout, state.device)
        solution = as_solution(self.instance, layout, state.device)
        solution = with_idle_localized(self.instance, solution)
        self.search.offer(solution, objective(self.instance, solution))
        value = objective_of(self.costs, state)
        better = value < self.value
        if better:
            self.best, self.value = state, value
        return better


def first_devices(instance: Instance, layout: Layout) -> Ints:
    """Return schedules: the GPU runs its hits, NDP what is localized, the CPU the rest."""
    device = np.where(layout.dimm == STRIPED, Device.CPU, Device.NDP)
    device = np.where(layout.resident, Device.GPU, device)
    return np.where(instance.path_times.active, device, IDLE).astype(np.int64)
