"""Machines: what computes, what stores and what connects them, in units that stand in the names."""

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator

from moeopt.errors import InputError
from moeopt.problems.envelope import Frozen, field_error
from moeopt.sim.cpu import Cpu, Fraction, NonNegative, Positive
from moeopt.sim.curve import Curve, Device, TimeTable

Whole = Annotated[int, Field(strict=True, ge=1, le=1024)]
LinkName = Literal["pcie", "dimm_link", "cxl", "cross_socket"]


class Gpu(Frozen):
    """A GPU; `utilization` is the fraction of its peak reached at a number of tokens per expert.

    Parameters
    ----------
    peak_tflops, hbm_gb_s, hbm_gb
        Peak of its matrix units, bandwidth and capacity of its memory.
    bandwidth_efficiency, attention_bandwidth_efficiency
        Fraction of `hbm_gb_s` that expert kernels and attention kernels reach; by default 1.
    kernel_us
        Fixed time of running one expert (launches, tails); by default 0.
    layer_fixed_us
        Fixed time of a layer's attention, router and norms, whatever their size; by default 0.
    """

    name: str
    peak_tflops: Positive
    hbm_gb_s: Positive
    hbm_gb: Positive
    utilization: Curve
    bandwidth_efficiency: Fraction | None = None
    attention_bandwidth_efficiency: Fraction | None = None
    kernel_us: NonNegative | None = None
    layer_fixed_us: NonNegative | None = None


class Dram(Frozen):
    """The memory in which offloaded experts lie: the host's, or that of a CXL device.

    Parameters
    ----------
    dimms, channels, capacity_gb
        How many, and what they hold together.
    striped_gb_s, localized_gb_s
        Bandwidth of reading a striped expert, which uses all DIMMs, and a localized one, which
        uses only its own; absent where no expert is ever localized.
    efficiency
        Fraction of these that reads reach; by default 1.
    """

    dimms: Whole
    striped_gb_s: Positive
    localized_gb_s: Positive | None = None
    channels: Whole | None = None
    capacity_gb: Positive | None = None
    efficiency: Fraction | None = None


class Ndp(Frozen):
    """Near-data processing: `gflops` and `internal_gb_s` of one unit.

    Parameters
    ----------
    units
        How many there are; by default one per DIMM.
    gflops_bits
        Width of the weights at which `gflops` is reached, where narrower weights are computed
        faster in proportion; absent where the width makes no difference.
    """

    gflops: Positive
    internal_gb_s: Positive
    units: Whole | None = None
    gflops_bits: Positive | None = None

    def rate_gflops(self, bits: float) -> float:
        """Return the rate of one unit on weights of so many bits."""
        if self.gflops_bits is None:
            return self.gflops
        return self.gflops * max(self.gflops_bits / bits, 1.0)


class Link(Frozen):
    """A link, one direction: bandwidth, and what every transfer takes on top of its bytes."""

    gb_s: Positive
    latency_us: NonNegative | None = None

    def transfer_s(self, size: float) -> float:
        """Return how long `size` bytes take, in s."""
        return (self.latency_us or 0.0) / 1e6 + size / (self.gb_s * 1e9)


class Links(Frozen):
    """Links besides PCIe: between DIMMs, and to a CXL device."""

    dimm_link: Link | None = None
    cxl: Link | None = None


class Machine(Frozen):
    """A machine, with the source of every number in `sources` (field path -> where it stands).

    `time_tables` are measurements; where there is none for a model and device, times come from the
    rates above. A machine without a CPU that computes experts has no `cpu`, one without
    near-data processing no `ndp`.

    Parameters
    ----------
    pcie_gb_s, pcie_latency_us
        From where offloaded experts lie to the GPU, one direction.
    sync_us
        One hand-over of a layer's activations between GPU and CPU, one way; by default 0.
    """

    name: str
    gpu: Gpu
    cpu: Cpu | None = None
    dram: Dram
    ndp: Ndp | None = None
    pcie_gb_s: Positive
    pcie_latency_us: NonNegative | None = None
    sync_us: NonNegative | None = None
    links: Links = Links()
    time_tables: Annotated[tuple[TimeTable, ...], Field(max_length=1000)] = ()
    sources: dict[str, str]

    @field_validator("time_tables")
    @classmethod
    def _tables_differ(cls, tables: tuple[TimeTable, ...]) -> tuple[TimeTable, ...]:
        seen = set()
        for row, table in enumerate(tables):
            key = (table.model, table.device, table.threads, table.bits_per_weight)
            if key in seen:
                what = f"{table.model} on {table.device}"
                raise field_error([row], f"is a second table of {_plain(what)}")
            seen.add(key)
        return tables

    def time_table(
        self, model: str, device: Device, bits_per_weight: float | None = None
    ) -> TimeTable | None:
        """Return the measurement of a model's experts on a device, if there is one.

        For the CPU it is the one with the CPU's number of threads, or one that names none.

        Parameters
        ----------
        bits_per_weight
            Width of the weights if not the model's own.

        Raises
        ------
        InputError
            If the CPU was measured, but not with the number of threads it has.
        """
        found = [
            table
            for table in self.time_tables
            if (table.model, table.device, table.bits_per_weight)
            == (model, device, bits_per_weight)
        ]
        threads = self.cpu.threads if device == "cpu" and self.cpu is not None else None
        for table in found:
            if table.threads == threads:
                return table
        if found and all(table.threads is not None for table in found):
            measured = ", ".join(str(t) for t in sorted({table.threads or 0 for table in found}))
            asked = "no number" if threads is None else threads
            raise InputError(
                f"machine {self.name}: cpu.threads: {model} was measured with {measured},"
                f" not {asked}"
            )
        return next((table for table in found if table.threads is None), None)

    def with_threads(self, threads: int) -> Self:
        """Return this machine with its CPU computing on another number of threads.

        Raises
        ------
        InputError
            If no time table says what so many threads take: rates do not scale by themselves.
        """
        cpu = self.require_cpu()
        measured = {table.threads for table in self.time_tables if table.device == "cpu"}
        if threads != cpu.threads and threads not in measured:
            known = ", ".join(str(t) for t in sorted(t for t in measured if t)) or "none"
            raise InputError(
                f"machine {self.name}: threads: must be one of those measured ({known}),"
                f" not {threads}"
            )
        return self.model_copy(update={"cpu": cpu.model_copy(update={"threads": threads})})

    def require_cpu(self) -> Cpu:
        """Return the CPU; InputError if the machine has none."""
        if self.cpu is None:
            raise InputError(f"machine {self.name}: cpu: is missing; a cost on it is asked for")
        return self.cpu

    def require_ndp(self) -> Ndp:
        """Return the NDP units; InputError if the machine has none."""
        if self.ndp is None:
            raise InputError(f"machine {self.name}: ndp: is missing; a cost on it is asked for")
        return self.ndp

    @property
    def ndp_units(self) -> int:
        """How many NDP units there are; 0 without any."""
        if self.ndp is None:
            return 0
        return self.dram.dimms if self.ndp.units is None else self.ndp.units

    def link(self, name: LinkName) -> Link:
        """Return a link by name; InputError if the machine has none of it."""
        if name == "pcie":
            return Link(gb_s=self.pcie_gb_s, latency_us=self.pcie_latency_us)
        if name == "cross_socket":
            numa = None if self.cpu is None else self.cpu.numa
            found = None if numa is None else Link(gb_s=numa.cross_socket_gb_s)
        else:
            found = self.links.dimm_link if name == "dimm_link" else self.links.cxl
        if found is None:
            place = "cpu.numa" if name == "cross_socket" else f"links.{name}"
            raise InputError(f"machine {self.name}: {place}: is missing; a cost on it is asked for")
        return found


def _plain(text: str) -> str:
    """Return untrusted text without what an error template or a terminal would act on."""
    return "".join(c for c in text[:60] if c.isprintable() and c not in "{}")
