"""The CP-SAT model: one method per constraint ID (`formulations/layout/spec.md`)."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from moeopt.core.formulation import Formulation, IntVar, LinearExpr, cp_model
from moeopt.core.rows import take_out_divisor

from .bounds import makespan_grid, objective_grid
from .copies import fields_of
from .instance import Domain, Instance, Solution, with_idle_localized
from .paths import CPU_PATHS, GPU_PATHS, STRIPED_READS, Path


@dataclass(frozen=True)
class Runs:
    """The variables of one expert in one scenario.

    Attributes
    ----------
    host
        One per path on the GPU or the CPU.
    nowhere
        On NDP without lying on any DIMM.
    read, ndp
        Per DIMM: a host reads the expert there, or NDP runs it there.
    """

    host: dict[Path, IntVar]
    nowhere: IntVar
    read: dict[int, IntVar]
    ndp: dict[int, IntVar]


def places(instance: Instance) -> dict[int, tuple[int, ...]]:
    """Return the experts whose place is decided, each with the DIMMs it may lie on.

    Those with tokens anywhere. Where several copies are permitted all of them, as a place takes
    bytes from others (LA-C11) whether it is used or not; else one without tokens is striped, which
    takes no slot.

    DIMMs of one channel are identical, and so are channels of as many DIMMs. So they may be
    numbered in the order of their first expert, the channels first: before an expert lies on a
    DIMM, each lower one of that channel and each lower channel like it has one. That holds whatever
    constraint is left out, since all of them treat such DIMMs and channels alike. Without channels
    the k-th expert lies on one of the first k DIMMs. Where several copies are permitted, each may
    lie on any DIMM: an expert may be the first of several DIMMs at once.
    """
    if instance.copies is not None:
        return dict.fromkeys(range(instance.experts), tuple(range(instance.dimms)))
    rows = np.flatnonzero(instance.path_times.active.any(axis=0)).tolist()
    before = experts_before(instance.channels or (0,) * instance.dimms)
    return {
        row: tuple(dimm for dimm, least in enumerate(before) if least <= k)
        for k, row in enumerate(rows)
    }


def experts_before(channels: Sequence[int]) -> list[int]:
    """Return how many experts at least lie on other DIMMs before one lies on each DIMM."""
    dimms_of = Counter(channels)
    alike = Counter[int]()  # number of DIMMs -> channels seen with so many
    lower_channels: dict[int, int] = {}
    lower_dimms = Counter[int]()
    found = []
    for channel in channels:
        if channel not in lower_channels:
            lower_channels[channel] = alike[dimms_of[channel]]
            alike[dimms_of[channel]] += 1
        found.append(lower_dimms[channel] + lower_channels[channel])
        lower_dimms[channel] += 1
    return found


Terms = Iterable[tuple[IntVar, int]]
Times = NDArray[np.int64]


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
            self.model.new_int_var(0, 3 * instance.longest_ns(n) // step, f"makespan[{n}]")
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
            self.model.add_exactly_one([*runs.host.values(), runs.nowhere, *runs.ndp.values()])

    def la_c2_ndp_where_localized(self) -> None:
        """Post LA-C2: only a localized expert runs on NDP."""
        for runs in self._all_runs():
            self.model.add(runs.nowhere == 0)

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
        self._serial(self.instance.path_times.cost, GPU_PATHS, self.instance.base_ns)

    def la_c6_cpu_is_serial(self) -> None:
        """Post LA-C6: per scenario the CPU's costs sum to at most the makespan."""
        self._serial(self.instance.path_times.cost, CPU_PATHS)

    def la_c7_dimms_serve_ndp_and_hosts(self) -> None:
        """Post LA-C7: per scenario each DIMM's NDP work and host reads are within the makespan.

        Reads of striped experts load every DIMM alike, so they are summed once, in a variable.
        """
        for number in range(len(self.runs)):
            limit = 3 * self.instance.longest_ns(number) // self.step[number]
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
            self._serial(self.instance.path_times.pcie, (*GPU_PATHS, *CPU_PATHS))

    def la_c10_copies_per_expert(self) -> None:
        """Post LA-C10: at most `max_per_expert` copies of an expert, each in another place."""
        if self.instance.copies is not None:
            for row, local in self.local.items():
                copies = self.striped[row] + sum(local.values())
                self.model.add(copies <= self.instance.copies.max_per_expert)

    def la_c11_bytes_of_dimms(self) -> None:
        """Post LA-C11: localized copies and shares of striped ones fit each DIMM."""
        of, dimms = self.instance.copies, self.instance.dimms
        if of is None:
            return
        shares = of.share_bytes(dimms) * sum(self.striped.values())
        for dimm in range(dimms):
            held = of.expert_bytes * sum(local[dimm] for local in self.local.values())
            take_out_divisor(self.model.add(shares + held <= of.room_bytes))

    def start_from(self, solution: Solution, objective: int) -> None:
        """Look for nothing worse than a known solution; the caller keeps that one."""
        self.model.add(self.objective <= objective // self.objective_unit)

    def decode(self, value: Callable[[IntVar], int]) -> Solution:
        """Read the decision off the solver's values: each expert's first domain that is 1.

        With a constraint left out there may be several, or none: then the expert runs nowhere.
        """
        experts, several = range(self.instance.experts), self.instance.copies is not None
        lies = np.zeros((self.instance.experts, 1 + self.instance.dimms), dtype=np.bool_)
        for row, local in self.local.items():
            lies[row, 0] = row in self.striped and bool(value(self.striped[row]))
            lies[row, [1 + dimm for dimm, at in local.items() if value(at)]] = True
        first, copies = fields_of(lies)

        def domain(of: Runs) -> Domain | None:
            for path, at in of.host.items():
                if value(at):
                    return "gpu" if path in GPU_PATHS else "cpu"
            return "ndp" if any(value(at) for at in (of.nowhere, *of.ndp.values())) else None

        def source(row: int, of: Runs) -> int | None:
            used = [*of.read.items(), *of.ndp.items()]
            dimm = next((d for d, at in used if value(at)), None)
            return None if dimm == first[row] else dimm

        read = Solution(
            instance=self.instance.name,
            resident=tuple(
                row in self.resident and bool(value(self.resident[row])) for row in experts
            ),
            dimm=first,
            copies=copies if several else None,
            source=tuple(
                tuple(source(row, of[row]) if row in of else None for row in experts)
                for of in self.runs
            )
            if several
            else None,
            assignment=tuple(
                tuple(domain(of[row]) if row in of else None for row in experts) for of in self.runs
            ),
        )
        return with_idle_localized(self.instance, read)

    def _bool(self, name: str) -> IntVar:
        return self.model.new_bool_var(name)

    def _runs(self, number: int, row: int) -> Runs:
        at = f"{number},{row}"
        return Runs(
            {path: self._bool(f"{path.name.lower()}[{at}]") for path in (*GPU_PATHS, *CPU_PATHS)},
            self._bool(f"ndp_nowhere[{at}]"),
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
                host, local, resident = runs.host, self.local[row], self.resident[row]
                self.model.add(host[Path.HIT] <= resident)
                self.model.add(host[Path.GPU_STRIPED] + host[Path.GPU_LOCAL] + resident <= 1)
                striped = host[Path.GPU_STRIPED] + host[Path.CPU_STRIPED]
                if row in self.striped:
                    self.model.add(striped <= self.striped[row])
                    for d in local:
                        self.model.add(runs.nowhere + local[d] <= 1)
                else:
                    self.model.add(striped + runs.nowhere + sum(local.values()) <= 1)
                localized = host[Path.GPU_LOCAL] + host[Path.CPU_LOCAL]
                self.model.add(localized == sum(runs.read.values()))
                for d in local:
                    self.model.add(runs.read[d] + runs.ndp[d] <= local[d])

    def _all_runs(self) -> Iterable[Runs]:
        return (runs for of in self.runs for runs in of.values())

    def _serial(self, times: Times, paths: Sequence[Path], base_ns: int = 0) -> None:
        """Hold a device to the makespans; `times` are by path, scenario and expert."""
        for number, of in enumerate(self.runs):
            terms = [
                (runs.host[path], int(times[path, number, row]))
                for row, runs in of.items()
                for path in paths
            ]
            base = base_ns // self.step[number]
            self.model.add(base + self._sum(number, terms) <= self.makespan[number])

    def _striped_reads(self, number: int, read_ns: int) -> Terms:
        for runs in self.runs[number].values():
            for path in STRIPED_READS:
                yield runs.host[path], read_ns

    def _local_reads(self, number: int, dimm: int) -> Terms:
        for runs in self.runs[number].values():
            if dimm in runs.read:
                yield runs.read[dimm], self.instance.dram_localized_ns

    def _own_work(self, number: int, dimm: int) -> Terms:
        yield from self._local_reads(number, dimm)
        for row, runs in self.runs[number].items():
            if dimm in runs.ndp:
                yield runs.ndp[dimm], self.instance.scenarios[number].ndp_ns[row]

    def _sum(self, number: int, terms: Terms) -> LinearExpr:
        """Return the sum of variables times ns, in the steps of a scenario."""
        variables, costs = zip((0, 0), *terms, strict=True)
        steps = [cost // self.step[number] for cost in costs]
        return cp_model.LinearExpr.weighted_sum(variables, steps)
