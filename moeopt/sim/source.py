"""What every generator starts from: machine, model, trace or workload, seed and quantum."""

from dataclasses import dataclass, replace

from moeopt.core.errors import InputError
from moeopt.sim.machines.cost import DEFAULT_QUANTUM_NS
from moeopt.sim.machines.machine import Machine
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.traces.synthetic import synthetic_trace
from moeopt.sim.traces.trace import Counts, Trace
from moeopt.sim.traces.workload import Workload


@dataclass(frozen=True)
class Source:
    """The common input of all generators; exactly one of `trace`, `counts`, `workload` is given.

    `counts` are in one step and the model's; only generators that say `FROM_COUNTS` take them.
    `notes` is added to the provenance as it is: licence, origin, paper.
    """

    machine: Machine
    model: ModelShape
    trace: Trace | None = None
    workload: Workload | None = None
    counts: Counts | None = None
    seed: int = 0
    quantum_ns: int = DEFAULT_QUANTUM_NS
    name: str | None = None
    notes: dict[str, object] | None = None

    def paced(self, ndp_rate: float) -> "Source":
        """Return the same with NDP units so many times as fast; memory stays as it is."""
        if ndp_rate == 1.0 or self.machine.ndp is None:
            return self
        ndp = self.machine.ndp
        faster = ndp.model_copy(update={"gflops": ndp.gflops * ndp_rate})
        return replace(self, machine=self.machine.model_copy(update={"ndp": faster}))

    def trace_of(self, batch: int, batches: int = 2) -> Trace:
        """Return the real trace, or synthetic batches: by default one to decide on, one to execute.

        Parameters
        ----------
        batch, batches
            Tokens of a synthetic batch, and how many are drawn; a real trace is what it is.
        """
        model = self.model
        if self.workload is not None and self.trace is None:
            return synthetic_trace(self.workload, model, batch, batches, self.seed)
        if self.trace is None or self.workload is not None:
            raise InputError("trace, workload: exactly one of the two must be given")
        with_experts = model.layers - model.dense_layers
        self.trace.check_fits(model.routed_experts, model.top_k, with_experts)
        return self.trace

    def provenance(self, trace: Trace | None, options: dict[str, object]) -> dict[str, object]:
        """Return the record that stands in the instance: enough to make it again.

        The trace is None where nothing was taken from one.
        """
        return {
            "machine": self.machine.name,
            "model": self.model.name,
            "trace": None if trace is None else {"name": trace.name} | (trace.facts or {}),
            "seed": self.seed,
            "options": options,
            "rounding": f"costs rounded up to multiples of {self.quantum_ns} ns",
        } | (self.notes or {})
