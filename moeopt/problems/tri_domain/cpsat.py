"""The CP-SAT model: one method per constraint ID (`formulations/tri_domain/spec.md`)."""

from collections.abc import Callable
from typing import ClassVar

from moeopt.core.formulation import Formulation, IntVar, cp_model

from .bounds import objective_grid
from .instance import Instance, Run, Solution, read_off, runs_of


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
        longest = instance.base_ns + 3 * instance.modes.longest  # no assignment exceeds it
        self.horizon = longest // self.objective_unit
        self.makespan = self.model.new_int_var(0, self.horizon, "makespan")
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
        self._serial("gpu")

    def td_c4_cpu_is_serial(self) -> None:
        """Post TD-C4: the CPU's costs sum to at most the makespan."""
        self._serial("cpu")

    def td_c5_dimms_serve_ndp_and_hosts(self) -> None:
        """Post TD-C5: each DIMM's NDP work and host reads sum to at most the makespan.

        Reads of striped experts load every DIMM alike, so they are summed once, in a variable.
        """
        self._serial("dimm", every="striped_reads")

    def td_c6_channels_serve_hosts(self) -> None:
        """Post TD-C6: each channel's host reads, at full length, sum to at most the makespan."""
        if self.instance.channels is not None:
            self._serial("channel", every="striped_reads_of_channels")

    def td_c7_transfers_are_serial(self) -> None:
        """Post TD-C7: the transfers over PCIe sum to at most the makespan."""
        if self.instance.two_parts:
            self._serial("pcie")

    def start_from(self, solution: Solution, objective: int) -> None:
        """Look for nothing worse than a known solution.

        A hint or the combinatorial bound on top makes CP-SAT slower on the instance library, the
        bound up to twenty times; the known solution is kept by the caller.
        """
        self.model.add(self.makespan <= objective // self.objective_unit)

    def decode(self, value: Callable[[IntVar], int]) -> Solution:
        """Read the decision off the solver's values; an expert that runs nowhere gets None."""
        return read_off(self.instance, self.runs, value)

    def _serial(self, name: str, every: str = "") -> None:
        """Post the rows of a group of devices, see `ModeTable.add_serial`."""
        of = self.instance.modes
        modes = zip(of.owner.tolist(), of.label, strict=True)
        chosen = [self.runs[row][mode.path, mode.copy] for row, mode in modes]
        of.add_serial(
            self.model, name, chosen, self.makespan, self.objective_unit, self.horizon, every
        )
