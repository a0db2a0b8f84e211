"""The MILP model in PuLP: one method per constraint ID (`formulations/tri_domain/spec.md`)."""

from collections.abc import Callable, Container, Iterator

import pulp
from pulp import LpAffineExpression, LpVariable

from moeopt.core.formulation import Formulation, float_unit

from .expert import Copy, Expert
from .instance import Domain, Instance, Run, Solution, read_off, runs_of


class Model(Formulation):
    """Binaries ``runs[i][o, k]`` and a continuous makespan, in microseconds or coarser units.

    Attributes
    ----------
    model
        The PuLP problem; its objective is in units of `objective_unit` ns.
    objective_unit
        ns per unit of the model's objective, as `float_unit` chooses it.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        longest = sum(max(instance.times_ns(e), default=0) for e in instance.experts)
        self.objective_unit = float_unit(instance.base_ns + longest)
        self.model = pulp.LpProblem("tri_domain", pulp.LpMinimize)
        self.runs: list[dict[Run, LpVariable]] = [
            {(o, k): self.model.add_variable(f"{o}_{row}_{k}", cat="Binary") for o, k in runs}
            for row, runs in enumerate(runs_of(instance))
        ]
        self.makespan = self.model.add_variable("makespan", lowBound=0)
        self.model.setObjective(self.makespan + 0)

    def td_c1_one_domain(self) -> None:
        """Post TD-C1: each expert runs in exactly one domain."""
        for row, runs in enumerate(self.runs):
            self.model += pulp.lpSum(runs.values()) == 1, f"TD_C1_{row}"

    def td_c2_ndp_where_localized(self) -> None:
        """Post TD-C2: only a localized expert runs on NDP."""
        for row, expert in enumerate(self.instance.experts):
            if expert.dimm is None:
                self.model += self.runs[row]["ndp", 0] <= 0, f"TD_C2_{row}"

    def td_c3_gpu_is_serial(self) -> None:
        """Post TD-C3: the GPU's costs, after its base load, sum to at most the makespan."""
        base = self.instance.base_ns / self.objective_unit
        work = self._sum("gpu", lambda lie: lie.gpu_work_ns)
        self.model += base + work <= self.makespan, "TD_C3"

    def td_c4_cpu_is_serial(self) -> None:
        """Post TD-C4: the CPU's costs sum to at most the makespan."""
        work = self._sum("cpu", lambda lie: lie.cpu_ns)
        self.model += work <= self.makespan, "TD_C4"

    def td_c5_dimms_serve_ndp_and_hosts(self) -> None:
        """Post TD-C5: each DIMM's NDP work and host reads sum to at most the makespan.

        Reads of striped experts load every DIMM alike, so they are summed once, in a variable.
        """
        every_dimm = self.model.add_variable("striped_reads", lowBound=0)
        self.model += every_dimm == self._busy(None), "TD_C5_striped"
        for dimm in range(self.instance.dimms):
            self.model += every_dimm + self._busy(dimm) <= self.makespan, f"TD_C5_{dimm}"

    def td_c6_channels_serve_hosts(self) -> None:
        """Post TD-C6: each channel's host reads, at full length, sum to at most the makespan."""
        channel_of = self.instance.channels
        if channel_of is not None:
            every_channel = self.model.add_variable("striped_reads_of_channels", lowBound=0)
            self.model += every_channel == self._read({None}), "TD_C6_striped"
            for channel in sorted(set(channel_of)):
                dimms = {dimm for dimm, of in enumerate(channel_of) if of == channel}
                self.model += every_channel + self._read(dimms) <= self.makespan, f"TD_C6_{channel}"

    def td_c7_transfers_are_serial(self) -> None:
        """Post TD-C7: the transfers over PCIe sum to at most the makespan."""
        if self.instance.two_parts:
            transfers = self._sum("gpu", lambda lie: lie.pcie_ns or 0)
            self.model += transfers <= self.makespan, "TD_C7"

    def start_from(self, solution: Solution, objective: int) -> None:
        """Look for nothing worse than a known solution; the caller keeps that one."""
        self.makespan.upBound = objective / self.objective_unit

    def decode(self, value: Callable[[LpVariable], int]) -> Solution:
        """Read the decision off the solver's values; an expert that runs nowhere gets None."""
        return read_off(self.instance, self.runs, value)

    def _lies(
        self,
    ) -> Iterator[tuple[Expert | Copy, LpVariable, LpVariable, LpVariable]]:
        """Yield every copy of every expert with its variables of GPU, CPU and NDP."""
        for expert, runs in zip(self.instance.experts, self.runs, strict=True):
            for k, lie in enumerate(expert.lies):
                yield lie, runs["gpu", k], runs["cpu", k], runs["ndp", k]

    def _sum(self, domain: Domain, cost_ns: Callable[[Expert | Copy], int]) -> LpAffineExpression:
        return pulp.LpAffineExpression(
            (gpu if domain == "gpu" else cpu, cost_ns(lie) / self.objective_unit)
            for lie, gpu, cpu, _ in self._lies()
        )

    def _busy(self, dimm: int | None) -> LpAffineExpression:
        """Return the busy time that copies lying on `dimm` (None: striped ones) cause there."""
        terms = []
        for lie, *runs in self._lies():
            if lie.dimm == dimm:
                reads = (lie.gpu_dram_ns, lie.cpu_dram_ns)
                charges = [self.instance.charge_ns(lie, read) for read in reads]
                times = [time / self.objective_unit for time in (*charges, lie.ndp_ns or 0)]
                terms += list(zip(runs, times, strict=True))
        return pulp.LpAffineExpression(terms)

    def _read(self, dimms: Container[int | None]) -> LpAffineExpression:
        """Return the time of host reads of copies that lie on `dimms` (None: striped ones)."""
        terms = []
        for lie, gpu, cpu, _ in self._lies():
            if lie.dimm in dimms:
                terms.append((gpu, lie.gpu_dram_ns / self.objective_unit))
                terms.append((cpu, lie.cpu_dram_ns / self.objective_unit))
        return pulp.LpAffineExpression(terms)
