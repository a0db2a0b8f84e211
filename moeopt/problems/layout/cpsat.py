"""The CP-SAT model: one method per constraint ID (`formulations/layout/spec.md`)."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from ortools.sat.python import cp_model

from moeopt.core.formulation import Formulation

from .bounds import makespan_grid, objective_grid
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
    """The textbook model: who is resident, who lies on which DIMM, who runs which way.

    Attributes
    ----------
    model
        The CP-SAT model; its objective is in units of `objective_unit` ns.
    objective_unit
        ns per unit of the model's objective. Makespans are counted in steps of their own scenario's
        common divisor.
    """

    parameters: ClassVar = {"linearization_level": 2}  # as in tri_domain: sums of booleans

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.objective_unit = objective_grid(instance)
        self.step = [makespan_grid(instance, number) for number in range(len(instance.scenarios))]
        self.model = cp_model.CpModel()
        self.local = {
            row: {d: self._bool(f"local[{row},{d}]") for d in dimms}
            for row, dimms in places(instance).items()
        }
        self.resident = {row: self._bool(f"resident[{row}]") for row in self.local}
        several = self.local if instance.copies is not None else ()
        self.striped = {row: self._bool(f"striped[{row}]") for row in several}
        self.runs = [
            {row: self._runs(number, row) for row, tokens in enumerate(scenario.tokens) if tokens}
            for number, scenario in enumerate(instance.scenarios)
        ]
        self.makespan = [
            self.model.new_int_var(0, 3 * longest_ns(instance, n) // step, f"makespan[{n}]")
            for n, step in enumerate(self.step)
        ]
        self.objective = sum(
            scenario.weight * step // self.objective_unit * makespan
            for scenario, step, makespan in zip(
                instance.scenarios, self.step, self.makespan, strict=True
            )
        )
        self.model.minimize(self.objective)
        self._define()

    def la_c1_one_domain(self) -> None:
        """Post LA-C1: in each scenario each expert with tokens runs in exactly one domain."""
        for runs in self._all_runs():
            self.model.add_exactly_one([*runs.way.values(), *runs.ndp.values()])

    def la_c2_ndp_where_localized(self) -> None:
        """Post LA-C2: only a localized expert runs on NDP."""
        for runs in self._all_runs():
            self.model.add(runs.way["ndp_nowhere"] == 0)

    def la_c3_hbm_slots(self) -> None:
        """Post LA-C3: at most `hbm_slots` experts are resident."""
        self.model.add(sum(self.resident.values()) <= self.instance.hbm_slots)

    def la_c4_dimm_slots(self) -> None:
        """Post LA-C4: at most `dimm_slots` experts are localized on one DIMM."""
        if self.instance.dimm_slots is not None:
            for dimm in range(self.instance.dimms):
                held = [local[dimm] for local in self.local.values() if dimm in local]
                self.model.add(sum(held) <= self.instance.dimm_slots)

    def la_c5_gpu_is_serial(self) -> None:
        """Post LA-C5: per scenario the GPU's base load and costs are within the makespan."""
        self._serial(("hit", "gpu_striped", "gpu_local"), self.instance.base_ns)

    def la_c6_cpu_is_serial(self) -> None:
        """Post LA-C6: per scenario the CPU's costs sum to at most the makespan."""
        self._serial(("cpu_striped", "cpu_local"))

    def la_c7_dimms_serve_ndp_and_hosts(self) -> None:
        """Post LA-C7: per scenario each DIMM's NDP work and host reads are within the makespan.

        Reads of striped experts load every DIMM alike, so they are summed once, in a variable.
        """
        for number in range(len(self.runs)):
            limit = 3 * longest_ns(self.instance, number) // self.step[number]
            every_dimm = self.model.new_int_var(0, limit, f"striped_reads[{number}]")
            charge_ns = self.instance.striped_charge_ns(self.instance.dram_striped_ns)
            striped = self._striped_reads(number, charge_ns)
            self.model.add(every_dimm == self._sum(number, striped))
            for dimm in range(self.instance.dimms):
                own = self._sum(number, self._own_work(number, dimm))
                self.model.add(every_dimm + own <= self.makespan[number])

    def la_c8_channels_serve_hosts(self) -> None:
        """Post LA-C8: per scenario the host reads through each channel are within the makespan."""
        channels = self.instance.channels or ()
        for number in range(len(self.runs)):
            full = list(self._striped_reads(number, self.instance.dram_striped_ns))
            for channel in sorted(set(channels)):
                dimms = [d for d, of in enumerate(channels) if of == channel]
                local = [read for dimm in dimms for read in self._local_reads(number, dimm)]
                self.model.add(self._sum(number, [*full, *local]) <= self.makespan[number])

    def la_c9_pcie_is_serial(self) -> None:
        """Post LA-C9: per scenario the transfers over PCIe sum to at most the makespan."""
        if self.instance.in_two_parts:
            for number, of in enumerate(self.runs):
                terms = [
                    (runs.way[way], ns)
                    for row, runs in of.items()
                    for way, ns in pcie_ns(self.instance, number, row).items()
                ]
                self.model.add(self._sum(number, terms) <= self.makespan[number])

    def la_c10_copies_per_expert(self) -> None:
        """Post LA-C10: at most `max_per_expert` copies of an expert, each in another place."""
        if self.instance.copies is not None:
            for row, local in self.local.items():
                copies = self.striped[row] + sum(local.values())
                self.model.add(copies <= self.instance.copies.max_per_expert)

    def la_c11_bytes_of_dimms(self) -> None:
        """Post LA-C11: localized copies and shares of striped ones fit each DIMM."""
        for dimm in range(self.instance.dimms):
            held, room = bytes_on_dimm(self.instance, self.striped, self.local, dimm)
            if held:
                variables, sizes = zip(*held, strict=True)
                self.model.add(cp_model.LinearExpr.weighted_sum(variables, sizes) <= room)

    def start_from(self, solution: Solution, objective: int) -> None:
        """Look for nothing worse than a known solution; the caller keeps that one."""
        self.model.add(self.objective <= objective // self.objective_unit)

    def decode(self, value: Callable[[Any], int]) -> Solution:
        """Read the decision off the solver's values; an expert that runs nowhere gets None."""
        of_instance = (self.instance, self.resident, self.local, self.runs)
        return read_off(*of_instance, value, self.striped)

    def _bool(self, name: str) -> Any:
        return self.model.new_bool_var(name)

    def _runs(self, number: int, row: int) -> Runs:
        at = f"{number},{row}"
        return Runs(
            {way: self._bool(f"{way}[{at}]") for way in (*HOST_WAYS, "ndp_nowhere")},
            {d: self._bool(f"read[{at},{d}]") for d in self.local[row]},
            {d: self._bool(f"ndp[{at},{d}]") for d in self.local[row]},
        )

    def _define(self) -> None:
        """Say what the variables mean: an expert runs as it lies. These rows have no ID."""
        for row, local in self.local.items():
            if row in self.striped:
                self.model.add_at_least_one([self.striped[row], *local.values()])
            else:
                self.model.add_at_most_one(local.values())
        for of in self.runs:
            for row, runs in of.items():
                way, local, resident = runs.way, self.local[row], self.resident[row]
                self.model.add(way["hit"] <= resident)
                self.model.add(way["gpu_striped"] + way["gpu_local"] + resident <= 1)
                striped = way["gpu_striped"] + way["cpu_striped"]
                if row in self.striped:
                    self.model.add(striped <= self.striped[row])
                    for d in local:
                        self.model.add(way["ndp_nowhere"] + local[d] <= 1)
                else:
                    self.model.add(striped + way["ndp_nowhere"] + sum(local.values()) <= 1)
                self.model.add(way["gpu_local"] + way["cpu_local"] == sum(runs.read.values()))
                for d in local:
                    self.model.add(runs.read[d] + runs.ndp[d] <= local[d])

    def _all_runs(self) -> Iterable[Runs]:
        return (runs for of in self.runs for runs in of.values())

    def _serial(self, ways: tuple[str, ...], base_ns: int = 0) -> None:
        for number, of in enumerate(self.runs):
            terms = [
                (runs.way[way], costs_ns(self.instance, number, row)[way])
                for row, runs in of.items()
                for way in ways
            ]
            base = base_ns // self.step[number]
            self.model.add(base + self._sum(number, terms) <= self.makespan[number])

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

    def _sum(self, number: int, terms: Terms) -> Any:
        """Return the sum of variables times ns, in the steps of a scenario."""
        variables, costs = zip((0, 0), *terms, strict=True)
        steps = [cost // self.step[number] for cost in costs]
        return cp_model.LinearExpr.weighted_sum(variables, steps)
