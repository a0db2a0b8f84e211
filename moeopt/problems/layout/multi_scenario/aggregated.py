"""The aggregated model: one layout for all scenarios, the DIMMs taken together.

A solution's residents, localized experts and paths satisfy every row below, with each scenario's
makespan in its column: the DIMM rows hold for the average over the DIMMs because they hold for each
of them. So the model's optimum is a lower bound; `formulations/layout/spec.md`, section "Several
scenarios", has the proof. Its linear relaxation also says what to localize to begin with.
"""

from dataclasses import dataclass, field
from functools import reduce
from math import gcd

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from moeopt.core.highs import Found, Program, minimize
from moeopt.problems.layout.bounds import makespan_grid
from moeopt.problems.layout.instance import Instance
from moeopt.problems.layout.paths import Path

LARGEST = 1000.0
"""The largest cost in the model's units, so that HiGHS's tolerances of 1e-6 are small."""

Terms = list[tuple[int, float]]


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

    def program(self, integer: bool) -> Program:
        """Return the program as arrays; without `integer` its linear relaxation."""
        row, column, value = zip(*self.entries, strict=True)
        shape = (len(self.row_upper), len(self.cost))
        return Program(
            cost=np.array(self.cost),
            lower=np.array(self.lower),
            upper=np.array(self.upper),
            integer=np.array(self.integer) * int(integer),
            rows=csr_array((value, (row, column)), shape=shape),
            row_lower=np.array(self.row_lower),
            row_upper=np.array(self.row_upper),
        )

    def solve(self, limit_s: float, integer: bool = True) -> Found:
        """Hand the model to HiGHS."""
        return minimize(self.program(integer), limit_s)

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


def chosen(found: Found, columns: dict[int, int], experts: int) -> NDArray[np.bool_]:
    """Return the experts whose column is at least one half, as a mask of shape (experts,)."""
    mask = np.zeros(experts, dtype=np.bool_)
    if found.values is not None:
        mask[list(columns)] = found.values[list(columns.values())] >= 0.5
    return mask
