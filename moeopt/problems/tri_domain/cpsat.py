"""The CP-SAT model: one method per constraint ID (`formulations/tri_domain/spec.md`)."""

from collections.abc import Callable, Container, Iterator
from typing import ClassVar

from moeopt.core.formulation import Formulation, IntVar, LinearExpr, cp_model

from .bounds import objective_grid
from .expert import Copy, Expert
from .instance import Domain, Instance, Run, Solution, read_off, runs_of


class Model(Formulation):
    """Booleans ``runs[i][o, k]`` and the makespan, counted in steps of the costs' common divisor.

    Attributes
    ----------
    model
        The CP-SAT model; its objective is in units of `objective_unit` ns.
    objective_unit
        ns per unit of the model's objective.
    """

    # The linear relaxation is nearly tight here, but CP-SAT on one worker does not put the makespan
    # rows of booleans into it unless told to: instances that stall for 20 s close in 0.1 s.
    parameters: ClassVar = {"linearization_level": 2}

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.objective_unit = objective_grid(instance)
        self.model = cp_model.CpModel()
        self.runs: list[dict[Run, IntVar]] = [
            {(o, k): self.model.new_bool_var(f"{o}[{row},{k}]") for o, k in runs}
            for row, runs in enumerate(runs_of(instance))
        ]
        self.makespan = self.model.new_int_var(0, self._horizon(), "makespan")
        self.model.minimize(self.makespan)

    def td_c1_one_domain(self) -> None:
        """Post TD-C1: each expert runs in exactly one domain."""
        for runs in self.runs:
            self.model.add_exactly_one(runs.values())

    def td_c2_ndp_where_localized(self) -> None:
        """Post TD-C2: only a localized expert runs on NDP."""
        for expert, runs in zip(self.instance.experts, self.runs, strict=True):
            if expert.dimm is None:
                self.model.add(runs["ndp", 0] <= 0)

    def td_c3_gpu_is_serial(self) -> None:
        """Post TD-C3: the GPU's costs, after its base load, sum to at most the makespan."""
        base = self.instance.base_ns // self.objective_unit
        work = self._sum("gpu", lambda lie: lie.gpu_work_ns)
        self.model.add(base + work <= self.makespan)

    def td_c4_cpu_is_serial(self) -> None:
        """Post TD-C4: the CPU's costs sum to at most the makespan."""
        self.model.add(self._sum("cpu", lambda lie: lie.cpu_ns) <= self.makespan)

    def td_c5_dimms_serve_ndp_and_hosts(self) -> None:
        """Post TD-C5: each DIMM's NDP work and host reads sum to at most the makespan.

        Reads of striped experts load every DIMM alike, so they are summed once, in a variable.
        """
        every_dimm = self.model.new_int_var(0, self._horizon(), "striped_reads")
        self.model.add(every_dimm == self._busy(None))
        for dimm in range(self.instance.dimms):
            self.model.add(every_dimm + self._busy(dimm) <= self.makespan)

    def td_c6_channels_serve_hosts(self) -> None:
        """Post TD-C6: each channel's host reads, at full length, sum to at most the makespan."""
        channel_of = self.instance.channels
        if channel_of is not None:
            every_channel = self.model.new_int_var(0, self._horizon(), "striped_reads_of_channels")
            self.model.add(every_channel == self._read({None}))
            for channel in sorted(set(channel_of)):
                dimms = {dimm for dimm, of in enumerate(channel_of) if of == channel}
                self.model.add(every_channel + self._read(dimms) <= self.makespan)

    def td_c7_transfers_are_serial(self) -> None:
        """Post TD-C7: the transfers over PCIe sum to at most the makespan."""
        if self.instance.two_parts:
            transfers = self._sum("gpu", lambda lie: lie.pcie_ns or 0)
            self.model.add(transfers <= self.makespan)

    def start_from(self, solution: Solution, objective: int) -> None:
        """Look for nothing worse than a known solution.

        A hint or the combinatorial bound on top makes CP-SAT slower on the instance library, the
        bound up to twenty times; the known solution is kept by the caller.
        """
        self.model.add(self.makespan <= objective // self.objective_unit)

    def decode(self, value: Callable[[IntVar], int]) -> Solution:
        """Read the decision off the solver's values; an expert that runs nowhere gets None."""
        return read_off(self.instance, self.runs, value)

    def _horizon(self) -> int:
        """Return a makespan that no assignment exceeds."""
        longest = sum(max(self.instance.times_ns(e), default=0) for e in self.instance.experts)
        return (self.instance.base_ns + 3 * longest) // self.objective_unit

    def _lies(
        self,
    ) -> Iterator[tuple[Expert | Copy, IntVar, IntVar, IntVar]]:
        """Yield every copy of every expert with its variables of GPU, CPU and NDP."""
        for expert, runs in zip(self.instance.experts, self.runs, strict=True):
            for k, lie in enumerate(expert.lies):
                yield lie, runs["gpu", k], runs["cpu", k], runs["ndp", k]

    def _sum(self, domain: Domain, cost_ns: Callable[[Expert | Copy], int]) -> LinearExpr:
        terms = [
            (gpu if domain == "gpu" else cpu, cost_ns(lie) // self.objective_unit)
            for lie, gpu, cpu, _ in self._lies()
        ]
        return cp_model.LinearExpr.weighted_sum(*zip(*terms, strict=True))

    def _busy(self, dimm: int | None) -> LinearExpr:
        """Return the busy time that copies lying on `dimm` (None: striped ones) cause there."""
        variables, steps = [0], [0]
        for lie, *runs in self._lies():
            if lie.dimm == dimm:
                reads = (lie.gpu_dram_ns, lie.cpu_dram_ns)
                charges = [self.instance.charge_ns(lie, read) for read in reads]
                variables += runs
                steps += [time // self.objective_unit for time in (*charges, lie.ndp_ns or 0)]
        return cp_model.LinearExpr.weighted_sum(variables, steps)

    def _read(self, dimms: Container[int | None]) -> LinearExpr:
        """Return the time of host reads of copies that lie on `dimms` (None: striped ones)."""
        variables, steps = [0], [0]
        for lie, gpu, cpu, _ in self._lies():
            if lie.dimm in dimms:
                variables += [gpu, cpu]
                steps += [lie.gpu_dram_ns // self.objective_unit]
                steps += [lie.cpu_dram_ns // self.objective_unit]
        return cp_model.LinearExpr.weighted_sum(variables, steps)
