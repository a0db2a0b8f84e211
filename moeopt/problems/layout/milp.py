"""The MILP model in PuLP: one method per constraint ID (`formulations/layout/spec.md`)."""

from collections.abc import Callable, Iterable
from typing import Any

import pulp

from moeopt.core.formulation import Formulation, float_unit

from .instance import Instance, Solution
from .textbook import (
    HOST_WAYS,
    STRIPED_WAYS,
    Runs,
    bytes_on_dimm,
    costs_ns,
    longest_ns,
    pcie_ns,
    places,
    read_off,
)

Terms = Iterable[tuple[Any, int]]


class Model(Formulation):
    """The textbook model: binaries, and a continuous makespan per scenario in coarse units.

    Attributes
    ----------
    model
        The PuLP problem; its objective is in units of `objective_unit` ns.
    objective_unit
        ns per unit of the model's objective, as `float_unit` chooses it.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        numbered = list(enumerate(instance.scenarios))
        self.objective_unit = float_unit(
            sum(s.weight * longest_ns(instance, n) for n, s in numbered)
        )
        self.model = pulp.LpProblem("layout", pulp.LpMinimize)
        self.local = {
            row: {d: self._binary(f"local_{row}_{d}") for d in dimms}
            for row, dimms in places(instance).items()
        }
        self.resident = {row: self._binary(f"resident_{row}") for row in self.local}
        several = self.local if instance.copies is not None else ()
        self.striped = {row: self._binary(f"striped_{row}") for row in several}
        self.runs = [
            {row: self._runs(number, row) for row, tokens in enumerate(scenario.tokens) if tokens}
            for number, scenario in numbered
        ]
        self.makespan = [self.model.add_variable(f"makespan_{n}", lowBound=0) for n, _ in numbered]
        self.objective = pulp.LpAffineExpression(
            (makespan, s.weight)
            for s, makespan in zip(instance.scenarios, self.makespan, strict=True)
        )
        self.model.setObjective(self.objective)
        self._define()

    def la_c1_one_domain(self) -> None:
        """Post LA-C1: in each scenario each expert with tokens runs in exactly one domain."""
        for at, _, runs in self._all_runs():
            self.model += pulp.lpSum([*runs.way.values(), *runs.ndp.values()]) == 1, f"LA_C1_{at}"

    def la_c2_ndp_where_localized(self) -> None:
        """Post LA-C2: only a localized expert runs on NDP."""
        for at, _, runs in self._all_runs():
            self.model += runs.way["ndp_nowhere"] <= 0, f"LA_C2_{at}"

    def la_c3_hbm_slots(self) -> None:
        """Post LA-C3: at most `hbm_slots` experts are resident."""
        self.model += pulp.lpSum(self.resident.values()) <= self.instance.hbm_slots, "LA_C3"

    def la_c4_dimm_slots(self) -> None:
        """Post LA-C4: at most `dimm_slots` experts are localized on one DIMM."""
        if self.instance.dimm_slots is not None:
            for dimm in range(self.instance.dimms):
                held = [local[dimm] for local in self.local.values() if dimm in local]
                if held:
                    self.model += pulp.lpSum(held) <= self.instance.dimm_slots, f"LA_C4_{dimm}"

    def la_c5_gpu_is_serial(self) -> None:
        """Post LA-C5: per scenario the GPU's base load and costs are within the makespan."""
        self._serial("LA_C5", ("hit", "gpu_striped", "gpu_local"), self.instance.base_ns)

    def la_c6_cpu_is_serial(self) -> None:
        """Post LA-C6: per scenario the CPU's costs sum to at most the makespan."""
        self._serial("LA_C6", ("cpu_striped", "cpu_local"))

    def la_c7_dimms_serve_ndp_and_hosts(self) -> None:
        """Post LA-C7: per scenario each DIMM's NDP work and host reads are within the makespan.

        Reads of striped experts load every DIMM alike, so they are summed once, in a variable.
        """
        for number in range(len(self.runs)):
            every_dimm = self.model.add_variable(f"striped_reads_{number}", lowBound=0)
            charge_ns = self.instance.striped_charge_ns(self.instance.dram_striped_ns)
            striped = self._striped_reads(number, charge_ns)
            self.model += every_dimm == self._sum(striped), f"LA_C7_{number}_striped"
            for dimm in range(self.instance.dimms):
                own = every_dimm + self._sum(self._own_work(number, dimm))
                self.model += own <= self.makespan[number], f"LA_C7_{number}_{dimm}"

    def la_c8_channels_serve_hosts(self) -> None:
        """Post LA-C8: per scenario the host reads through each channel are within the makespan."""
        channels = self.instance.channels or ()
        for number in range(len(self.runs)):
            full = list(self._striped_reads(number, self.instance.dram_striped_ns))
            for channel in sorted(set(channels)):
                dimms = [d for d, of in enumerate(channels) if of == channel]
                local = [read for dimm in dimms for read in self._local_reads(number, dimm)]
                total = self._sum([*full, *local])
                self.model += total <= self.makespan[number], f"LA_C8_{number}_{channel}"

    def la_c9_pcie_is_serial(self) -> None:
        """Post LA-C9: per scenario the transfers over PCIe sum to at most the makespan."""
        if self.instance.in_two_parts:
            for number, of in enumerate(self.runs):
                terms = [
                    (runs.way[way], ns)
                    for row, runs in of.items()
                    for way, ns in pcie_ns(self.instance, number, row).items()
                ]
                self.model += self._sum(terms) <= self.makespan[number], f"LA_C9_{number}"

    def la_c10_copies_per_expert(self) -> None:
        """Post LA-C10: at most `max_per_expert` copies of an expert, each in another place."""
        if self.instance.copies is not None:
            for row, local in self.local.items():
                copies = self.striped[row] + pulp.lpSum(local.values())
                self.model += copies <= self.instance.copies.max_per_expert, f"LA_C10_{row}"

    def la_c11_bytes_of_dimms(self) -> None:
        """Post LA-C11: localized copies and shares of striped ones fit each DIMM."""
        for dimm in range(self.instance.dimms):
            held, room = bytes_on_dimm(self.instance, self.striped, self.local, dimm)
            if held:
                largest = max(size for _, size in held)  # so that no number is above 1
                terms = ((at, size / largest) for at, size in held)
                self.model += pulp.LpAffineExpression(terms) <= room / largest, f"LA_C11_{dimm}"

    def start_from(self, solution: Solution, objective: int) -> None:
        """Look for nothing worse than a known solution; the caller keeps that one."""
        self.model += self.objective <= objective / self.objective_unit, "no_worse"

    def decode(self, value: Callable[[Any], int]) -> Solution:
        """Read the decision off the solver's values; an expert that runs nowhere gets None."""
        of_instance = (self.instance, self.resident, self.local, self.runs)
        return read_off(*of_instance, value, self.striped)

    def _binary(self, name: str) -> Any:
        return self.model.add_variable(name, cat="Binary")

    def _runs(self, number: int, row: int) -> Runs:
        at = f"{number}_{row}"
        return Runs(
            {way: self._binary(f"{way}_{at}") for way in (*HOST_WAYS, "ndp_nowhere")},
            {d: self._binary(f"read_{at}_{d}") for d in self.local[row]},
            {d: self._binary(f"ndp_{at}_{d}") for d in self.local[row]},
        )

    def _define(self) -> None:
        """Say what the variables mean: an expert runs as it lies. These rows have no ID."""
        for row, local in self.local.items():
            if row in self.striped:
                copies = self.striped[row] + pulp.lpSum(local.values())
                self.model += copies >= 1, f"some_place_{row}"
            else:
                self.model += pulp.lpSum(local.values()) <= 1, f"one_place_{row}"
        for at, row, runs in self._all_runs():
            way, local, resident = runs.way, self.local[row], self.resident[row]
            self.model += way["hit"] <= resident, f"hit_if_resident_{at}"
            misses = way["gpu_striped"] + way["gpu_local"]
            self.model += misses + resident <= 1, f"miss_if_not_{at}"
            striped, nowhere = way["gpu_striped"] + way["cpu_striped"], way["ndp_nowhere"]
            if row in self.striped:
                self.model += striped <= self.striped[row], f"striped_if_there_{at}"
                for d in local:
                    self.model += nowhere + local[d] <= 1, f"nowhere_{at}_{d}"
            else:
                places = striped + nowhere + pulp.lpSum(local.values())
                self.model += places <= 1, f"striped_if_nowhere_{at}"
            reads = pulp.lpSum(runs.read.values())
            self.model += way["gpu_local"] + way["cpu_local"] == reads, f"local_reads_{at}"
            for d in local:
                self.model += runs.read[d] + runs.ndp[d] <= local[d], f"where_it_lies_{at}_{d}"

    def _all_runs(self) -> Iterable[tuple[str, int, Runs]]:
        for number, of in enumerate(self.runs):
            for row, runs in of.items():
                yield f"{number}_{row}", row, runs

    def _serial(self, rule: str, ways: tuple[str, ...], base_ns: int = 0) -> None:
        for number, of in enumerate(self.runs):
            terms = [
                (runs.way[way], costs_ns(self.instance, number, row)[way])
                for row, runs in of.items()
                for way in ways
            ]
            total = self._sum(terms) + base_ns / self.objective_unit
            self.model += total <= self.makespan[number], f"{rule}_{number}"

    def _striped_reads(self, number: int, read_ns: int) -> Terms:
        for runs in self.runs[number].values():
            for way in STRIPED_WAYS:
                yield runs.way[way], read_ns

    def _local_reads(self, number: int, dimm: int) -> Terms:
        for runs in self.runs[number].values():
            if dimm in runs.read:
                yield runs.read[dimm], self.instance.dram_localized_ns

    def _own_work(self, number: int, dimm: int) -> Terms:
        yield from self._local_reads(number, dimm)
        for row, runs in self.runs[number].items():
            if dimm in runs.ndp:
                yield runs.ndp[dimm], self.instance.scenarios[number].ndp_ns[row]

    def _sum(self, terms: Terms) -> Any:
        """Return the sum of variables times ns, in the model's units."""
        return pulp.LpAffineExpression((v, cost / self.objective_unit) for v, cost in terms)
