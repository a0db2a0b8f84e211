"""Machines: what computes, what stores and what connects them, in units that stand in the names."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticKnownError

from moeopt.core.envelope import Frozen, Name, field_error
from moeopt.core.errors import InputError
from moeopt.sim.machines.cpu import Cpu, Fraction, NonNegative, Positive
from moeopt.sim.machines.curve import Curve, Device, TimeTable
from moeopt.sim.machines.fields import about
from moeopt.sim.machines.runtimes.terms import CalibratedRuntime

Whole = Annotated[int, Field(strict=True, ge=1, le=1024)]
LinkName = Literal["pcie", "dimm_link"]


class Gpu(Frozen):
    """A GPU; `utilization` is the fraction of its peak reached at a number of tokens per expert.

    What each field means, its unit and where to find it: `moeopt machine fields`.
    """

    name: Annotated[Name, about("its name", find="`nvidia-smi -L`, `rocm-smi --showproductname`")]
    peak_tflops: Annotated[
        Positive,
        about(
            "peak of its matrix units, 16-bit, without sparsity",
            "TFLOPS",
            "the vendor's data sheet (half of a figure with sparsity)",
        ),
    ]
    hbm_gb_s: Annotated[
        Positive,
        about("peak bandwidth of its memory", "GB/s", "the vendor's data sheet"),
    ]
    hbm_gb: Annotated[
        Positive,
        Field(le=4096),
        about("capacity of its memory", "GiB", "`nvidia-smi`: memory.total / 1024"),
    ]
    utilization: Annotated[
        Curve,
        about(
            "fraction of `peak_tflops` reached, by tokens per expert",
            find="`moeopt machine detect` where torch sees the GPU; 0.6, flat, where nobody knows",
        ),
    ]
    vector_tflops: Annotated[
        Positive | None,
        about(
            "peak of its ordinary cores, 32-bit: they unpack quantised weights",
            "TFLOPS",
            "the vendor's data sheet: FP32",
            "a quarter of `peak_tflops`",
        ),
    ] = None
    clock_ghz: Annotated[
        Positive | None,
        about("boost clock, which small kernels take", "GHz", "the vendor's data sheet", "1.8"),
    ] = None
    bandwidth_efficiency: Annotated[
        Fraction | None,
        about(
            "fraction of `hbm_gb_s` that expert kernels reach",
            find="`moeopt machine detect` or `import`: read bandwidth / `hbm_gb_s`",
            absent="1",
        ),
    ] = None
    attention_bandwidth_efficiency: Annotated[
        Fraction | None,
        about(
            "fraction of `hbm_gb_s` that attention kernels reach",
            find="fitted to measurements",
            absent="1",
        ),
    ] = None
    kernel_us: Annotated[
        NonNegative | None,
        about(
            "fixed time of running one expert (launches, tails)",
            "us",
            "fitted to measurements",
            "0",
        ),
    ] = None
    layer_fixed_us: Annotated[
        NonNegative | None,
        about(
            "fixed time of a layer's attention, router and norms, whatever their size",
            "us",
            "fitted to measurements",
            "0",
        ),
    ] = None
    step_fixed_us: Annotated[
        NonNegative | None,
        about(
            "fixed time of a step: sampling, building the graph of kernels",
            "us",
            "fitted to measurements",
            "0",
        ),
    ] = None
    reserve_mib: Annotated[
        dict[str, NonNegative] | None,
        Field(max_length=20),
        about(
            "memory that a runtime takes there for its context and compute buffers, by runtime:"
            ' `{"llama.cpp": 900}`',
            "MiB",
            "the runtime's log: compute buffer size, and `nvidia-smi` before it starts",
            "as runtimes usually take",
        ),
    ] = None

    @field_validator("utilization")
    @classmethod
    def _utilization_is_a_fraction(cls, curve: Curve) -> Curve:
        for row, (_, value) in enumerate(curve.points):
            if value > 1:
                reason = f"must be a fraction of peak_tflops, at most 1, not {value:g}"
                raise field_error(["points", row, 1], reason)
        return curve


class Dram(Frozen):
    """The memory in which offloaded experts lie: the host's, or that of a CXL device.

    A striped expert lies on all DIMMs, a localized one on its own. What each field means, its unit
    and where to find it: `moeopt machine fields`.
    """

    dimms: Annotated[
        Whole, about("how many DIMMs", find="`dmidecode -t memory`: devices with a size")
    ]
    striped_gb_s: Annotated[
        Positive,
        about(
            "peak bandwidth of all DIMMs together, as a striped expert is read",
            "GB/s",
            "channels x MT/s x 8 B / 1000",
        ),
    ]
    localized_gb_s: Annotated[
        Positive | None,
        about(
            "peak bandwidth of one DIMM, as a localized expert is read",
            "GB/s",
            "MT/s x 8 B / 1000",
            "no expert is ever localized",
        ),
    ] = None
    channels: Annotated[
        Whole | None,
        about("memory channels in use", find="`dmidecode -t memory`", absent="not stated"),
    ] = None
    speed_mt_s: Annotated[
        Positive | None,
        about(
            "speed of the DIMMs as configured",
            "MT/s",
            "`dmidecode -t memory`: Configured Memory Speed; the 4800 of DDR5-4800",
            "not stated",
        ),
    ] = None
    capacity_gb: Annotated[
        Annotated[Positive, Field(le=65536)] | None,
        about("what they hold together", "GiB", "`/proc/meminfo`: MemTotal", "not stated"),
    ] = None
    efficiency: Annotated[
        Fraction | None,
        about("fraction of these bandwidths that reads reach", find="STREAM / peak", absent="1"),
    ] = None


class Ndp(Frozen):
    """Near-data processing: `gflops` and `internal_gb_s` of one unit (`moeopt machine fields`)."""

    gflops: Annotated[Positive, about("rate of one unit", "GFLOPS", "the device's data")]
    internal_gb_s: Annotated[
        Positive, about("what one unit reads from its own memory", "GB/s", "the device's data")
    ]
    units: Annotated[Whole | None, about("how many units", absent="one per DIMM")] = None
    gflops_bits: Annotated[
        Positive | None,
        about(
            "width of the weights at which `gflops` is reached; narrower ones are faster in"
            " proportion",
            "bits",
            absent="the width makes no difference",
        ),
    ] = None

    def rate_gflops(self, bits: float) -> float:
        """Return the rate of one unit on weights of so many bits."""
        if self.gflops_bits is None:
            return self.gflops
        return self.gflops * max(self.gflops_bits / bits, 1.0)


class Link(Frozen):
    """A link, one direction: bandwidth, and what every transfer takes on top of its bytes."""

    gb_s: Annotated[Positive, about("bandwidth, one direction", "GB/s", "the device's data")]
    latency_us: Annotated[
        NonNegative | None, about("what every transfer takes on top of its bytes", "us", absent="0")
    ] = None

    def transfer_s(self, size: float) -> float:
        """Return how long `size` bytes take, in s."""
        return (self.latency_us or 0.0) / 1e6 + size / (self.gb_s * 1e9)


class DeviceLink(Link):
    """A link between two devices, the same both ways: ``gpu0``, ``gpu1``, ... or a node's name."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True)

    source: Annotated[
        str, Field(alias="from", max_length=200), about("one end: gpu0, or a node's name")
    ]
    to: Annotated[str, Field(max_length=200), about("the other end")]


class Links(Frozen):
    """Links besides PCIe: between DIMMs, to a CXL device, and between several GPUs and nodes."""

    dimm_link: Annotated[Link | None, about("between DIMMs", absent="none")] = None
    cxl: Annotated[Link | None, about("to a CXL device", absent="none")] = None
    between: Annotated[
        tuple[DeviceLink, ...],
        Field(max_length=256),
        about(
            "between GPUs and nodes; in a file `links` may be just this list",
            find="`nvidia-smi topo -p2p r`; the vendor's data of NVLink",
            absent="each GPU has `pcie_gb_s` to the host, and reaches other GPUs through it",
        ),
    ] = ()


class Node(Frozen):
    """A part of the host's memory with the cores beside it: a NUMA node."""

    name: Annotated[Name, about("its name", find="`numactl --hardware`")]
    cores: Annotated[Whole, about("physical cores", "cores", "`numactl --hardware`, `lscpu`")]
    bandwidth_gb_s: Annotated[
        Positive,
        about("what its cores read from its memory", "GB/s", "STREAM under `numactl -N 0 -m 0`"),
    ]
    capacity_gb: Annotated[Positive, about("its memory", "GiB", "`numactl --hardware`")]


def _links(value: object) -> object:
    """Take a plain list of links between devices, as files of several GPUs have it."""
    return {"between": value} if isinstance(value, list | tuple) else value


class Machine(Frozen):
    """A machine, with the source of every number in `sources` (field path -> where it stands).

    `time_tables` are measurements; where there is none for a model and device, times come from the
    rates above. A machine without a GPU has neither `gpu` nor `pcie_gb_s`: its CPU computes alone.
    One without a CPU that computes experts has no `cpu`, one without near-data processing no `ndp`.
    What each field means, its unit and where to find it: `moeopt machine fields`.
    """

    name: Annotated[Name, about("name of the machine")]
    gpu: Annotated[Gpu | None, about("its GPU", absent="none: the CPU computes alone")] = None
    gpus: Annotated[
        tuple[Gpu, ...],
        Field(max_length=64),
        about(
            "all its GPUs if there are several, called gpu0, gpu1, ...; `gpu` is then the first",
            find="`nvidia-smi -L`",
            absent="`gpu` alone",
        ),
    ] = ()
    cpu: Annotated[
        Cpu | None,
        Field(validate_default=True),
        about("its CPU", absent="no CPU that computes experts; not without a `gpu`"),
    ] = None
    dram: Annotated[Dram, about("the memory in which offloaded experts lie")]
    ndp: Annotated[Ndp | None, about("near-data processing", absent="none")] = None
    pcie_gb_s: Annotated[
        Positive | None,
        Field(validate_default=True),
        about(
            "from where offloaded experts lie to the GPU, one direction",
            "GB/s",
            "16 lanes: 15.75 (PCIe 3), 31.5 (4), 63 (5); `nvidia-smi -q`: Link Width, PCIe"
            " Generation",
            "not without a `gpu`; required with one",
        ),
    ] = None
    pcie_latency_us: Annotated[
        NonNegative | None, about("what every transfer takes on top of its bytes", "us", absent="0")
    ] = None
    sync_us: Annotated[
        NonNegative | None,
        about(
            "one hand-over of a layer's activations between GPU and CPU, one way",
            "us",
            "fitted to measurements",
            "0",
        ),
    ] = None
    links: Annotated[Links, BeforeValidator(_links), about("links besides PCIe", absent="none")] = (
        Links()
    )
    nodes: Annotated[
        tuple[Node, ...],
        Field(max_length=64),
        about(
            "the parts of the host's memory",
            find="`numactl --hardware`",
            absent="one, as `cpu` and `dram` say",
        ),
    ] = ()
    unified: Annotated[
        bool | None, about("whether GPU and host share one memory", absent="they do not")
    ] = None
    time_tables: Annotated[
        tuple[TimeTable, ...],
        Field(max_length=1000),
        about(
            "measured times of experts, instead of the rates",
            find="`moeopt profile`",
            absent="none",
        ),
    ] = ()
    runtimes: Annotated[
        tuple[CalibratedRuntime, ...],
        Field(max_length=20),
        about("runtimes whose speed was measured on it", find="`moeopt calibrate`", absent="none"),
    ] = ()
    sources: Annotated[
        dict[str, str], about("where each number stands: field path -> source; may be empty")
    ]

    @model_validator(mode="before")
    @classmethod
    def _first_of_several(cls, data: object) -> object:
        """Let `gpu` be the first of `gpus`."""
        if isinstance(data, Mapping) and isinstance(data.get("gpus"), list | tuple):
            first = next(iter(data["gpus"]), None)
            given = data.get("gpu")
            if isinstance(first, dict) and isinstance(given, dict) and first != given:
                raise field_error(["gpu"], "is another than gpus[0]: leave one of them out")
            if first is not None and data.get("gpu", first) is not None:
                return {**data, "gpu": first}
        return data

    @field_validator("nodes")
    @classmethod
    def _names_differ(cls, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        names = [node.name for node in nodes]
        for row, name in enumerate(names):
            if name in names[:row] or name.startswith("gpu"):
                raise field_error([row, "name"], "must differ from other nodes' and GPUs' names")
        return nodes

    @model_validator(mode="after")
    def _links_exist(self) -> Self:
        known, seen = self.device_names, set[frozenset[str]]()
        for row, link in enumerate(self.links.between):
            ends = frozenset((link.source, link.to))
            if ends in seen:
                between = " and ".join(map(_plain, sorted(ends)))
                raise field_error(["links", row], f"is a second one between {between}")
            seen.add(ends)
            for end, name in (("from", link.source), ("to", link.to)):
                if name not in known:
                    there = ", ".join(known)
                    reason = f"there is no device {_plain(name)!r}; there are {there}"
                    raise field_error(["links", row, end], reason)
            if link.source == link.to:
                raise field_error(["links", row, "to"], "must be another device than from")
        return self

    @field_validator("cpu", "pcie_gb_s")
    @classmethod
    def _something_computes(cls, value: object, info: ValidationInfo) -> object:
        """Let `cpu` be absent only beside a GPU, `pcie_gb_s` only without one.

        Here and not in a rule for the whole, which would be silent while other fields are missing.
        """
        without_gpu = info.data.get("gpu", "faulty") is None
        if value is None and without_gpu == (info.field_name == "cpu"):
            raise PydanticKnownError("missing")
        return value

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

    def require_gpu(self) -> Gpu:
        """Return the GPU; InputError if the machine has none."""
        if self.gpu is None:
            raise InputError(f"machine {self.name}: gpu: is missing; a cost on it is asked for")
        return self.gpu

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
    def taken_as_one(self) -> str | None:
        """What becomes of several GPUs or nodes where one of each is meant, in words."""
        gpus, nodes, said = len(self.every_gpu), len(self.nodes), []
        if gpus > 1:
            said.append(f"the first of {gpus} GPUs alone counts")
        if nodes > 1:
            said.append(f"{nodes} memory nodes count as one")
        return f"machine {self.name}: {' and '.join(said)}" if said else None

    @property
    def every_gpu(self) -> tuple[Gpu, ...]:
        """All GPUs, of files with `gpu` as of those with `gpus`."""
        return self.gpus or (() if self.gpu is None else (self.gpu,))

    @property
    def device_names(self) -> tuple[str, ...]:
        """What `links` call the devices: gpu0, gpu1, ..., then the nodes, or ``host``."""
        nodes = tuple(node.name for node in self.nodes) or ("host",)
        return (*(f"gpu{number}" for number in range(len(self.every_gpu))), *nodes)

    def between(self, first: str, second: str) -> Link | None:
        """Return the direct link between two devices; None if they have none.

        A GPU without one to a node has `pcie_gb_s` to every node.
        """
        for link in self.links.between:
            if {link.source, link.to} == {first, second}:
                return link
        ends = [name.startswith("gpu") for name in (first, second)]
        if first != second and sum(ends) == 1 and self.pcie_gb_s is not None:
            return Link(gb_s=self.pcie_gb_s, latency_us=self.pcie_latency_us)
        return None

    @property
    def ndp_units(self) -> int:
        """How many NDP units there are; 0 without any."""
        if self.ndp is None:
            return 0
        return self.dram.dimms if self.ndp.units is None else self.ndp.units

    def link(self, name: LinkName) -> Link:
        """Return a link by name; InputError if the machine has none of it."""
        gb_s, found, place = self.pcie_gb_s, self.links.dimm_link, "links.dimm_link"
        if name == "pcie":
            found = None if gb_s is None else Link(gb_s=gb_s, latency_us=self.pcie_latency_us)
            place = "pcie_gb_s"
        if found is None:
            raise InputError(f"machine {self.name}: {place}: is missing; a cost on it is asked for")
        return found


def _plain(text: str) -> str:
    """Return untrusted text without what an error template or a terminal would act on."""
    return "".join(c for c in text[:60] if c.isprintable() and c not in "{}")
