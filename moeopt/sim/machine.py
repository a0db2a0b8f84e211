"""Machines: what computes, what stores and what connects them, in units that stand in the names."""

from typing import Annotated

from pydantic import Field

from moeopt.problems.envelope import Frozen
from moeopt.sim.curve import Curve, TimeTable

Positive = Annotated[float, Field(strict=True, gt=0, le=1e9, allow_inf_nan=False)]


class Gpu(Frozen):
    """A GPU; `utilization` is the fraction of its peak reached at a number of tokens per expert."""

    name: str
    peak_tflops: Positive
    hbm_gb_s: Positive
    hbm_gb: Positive
    utilization: Curve


class Cpu(Frozen):
    """A CPU; `tflops` is what its kernels reach at a number of tokens per expert."""

    name: str
    tflops: Curve


class Dram(Frozen):
    """Host memory: reading a striped expert uses all DIMMs, a localized one only its own."""

    dimms: Annotated[int, Field(strict=True, ge=1, le=1024)]
    striped_gb_s: Positive
    localized_gb_s: Positive


class Ndp(Frozen):
    """The near-data-processing unit of one DIMM."""

    gflops: Positive
    internal_gb_s: Positive


class Machine(Frozen):
    """A machine, with the source of every number in `sources` (field path -> where it stands).

    `time_tables` are measurements; where there is none for a model and device, times come from the
    rates above.
    """

    name: str
    gpu: Gpu
    cpu: Cpu
    dram: Dram
    ndp: Ndp
    pcie_gb_s: Positive
    time_tables: Annotated[tuple[TimeTable, ...], Field(max_length=1000)] = ()
    sources: dict[str, str]

    def time_table(self, model: str, device: str) -> TimeTable | None:
        """Return the measurement of a model's experts on a device, if there is one."""
        tables = (t for t in self.time_tables if (t.model, t.device) == (model, device))
        return next(tables, None)
