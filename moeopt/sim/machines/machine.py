"""Machines: devices with one memory each, what computes on it, and the links between devices."""

from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, field_validator, model_validator

from moeopt.core.envelope import Frozen, Name, field_error
from moeopt.core.errors import InputError
from moeopt.sim.machines.about import about
from moeopt.sim.machines.curve import Curve, TimeTable
from moeopt.sim.machines.runtimes.calibrated import CalibratedRuntime

Positive = Annotated[float, Field(strict=True, gt=0, le=1e9, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(strict=True, ge=0, le=1e9, allow_inf_nan=False)]
Fraction = Annotated[float, Field(strict=True, gt=0, le=1, allow_inf_nan=False)]
Whole = Annotated[int, Field(strict=True, ge=1, le=65536)]
DeviceId = Annotated[str, Field(strict=True, pattern=r"^[a-z]{1,8}\d{1,3}$")]

Kind = Literal["gpu", "cpu", "ndp"]
LinkKind = Literal["pcie", "nvlink", "socket", "cxl"]


FIT = "fitted to measurements"
SHEET = "the vendor's data sheet"


class LinkRate(Frozen):
    """A way between two places, one direction: bandwidth, and what every transfer takes besides."""

    gb_s: Positive = about("bandwidth, one direction", unit="GB/s", find="the device's data")
    latency_us: NonNegative = about(
        "what every transfer takes on top of its bytes", unit="us", absent="0", default=0.0
    )

    def transfer_s(self, size: float) -> float:
        """Return how long `size` bytes take, in s."""
        return self.latency_us / 1e6 + self.stream_s(size)

    def stream_s(self, size: float) -> float:
        """Return how long `size` bytes take, in s, that follow others: without latency."""
        return size / (self.gb_s * 1e9)


class Link(LinkRate):
    """A link between two devices, the same both ways."""

    ends: tuple[DeviceId, DeviceId] = about("the two devices")
    kind: LinkKind = about("what it is: to a CXL device, and between sockets, as well")


class KernelRate(Frozen):
    """What a device reaches, by tokens per expert; used up to `max_tokens`, the main one always."""

    name: Name = about("its name, e.g. AMX, AVX-512", find="`lscpu`: Flags")
    max_tokens: Annotated[int, Field(strict=True, ge=1, le=2**20)] | None = about(
        "tokens per expert up to which it is used", unit="tokens", absent="any", default=None
    )
    tflops: Curve = about(
        "what it reaches, by tokens per expert",
        unit="TFLOPS",
        find="`moeopt machine detect`; of a CPU half of cores x base clock x operations per cycle,"
        " of a GPU 0.6 of its peak, where nobody knows",
    )


class Dimms(Frozen):
    """Memory made of modules: a striped expert lies on all of them, a localized one on one."""

    count: Annotated[int, Field(strict=True, ge=1, le=1024)] = about(
        "how many DIMMs", find="`dmidecode -t memory`: devices with a size"
    )
    channels: Annotated[int, Field(strict=True, ge=1, le=1024)] | None = about(
        "memory channels in use", absent="not stated", find="`dmidecode -t memory`", default=None
    )
    speed_mt_s: Positive | None = about(
        "speed of the DIMMs as configured",
        unit="MT/s",
        absent="not stated",
        find="`dmidecode -t memory`: Configured Memory Speed; the 4800 of DDR5-4800",
        default=None,
    )
    one_gb_s: Positive | None = about(
        "peak bandwidth of one DIMM, as a localized expert is read",
        unit="GB/s",
        absent="no expert is ever localized",
        find="MT/s x 8 B / 1000",
        default=None,
    )
    link: LinkRate | None = about("between the DIMMs (DIMM-Link)", absent="none", default=None)


class Memory(Frozen):
    """One memory: how much it holds, and what reads of it reach."""

    capacity_gib: Annotated[Positive, Field(le=65536)] | None = about(
        "what it holds",
        unit="GiB",
        absent="not stated",
        find="`nvidia-smi`: memory.total / 1024; `/proc/meminfo`: MemTotal",
        default=None,
    )
    gb_s: Positive = about(
        "peak bandwidth of all of it",
        unit="GB/s",
        find=f"{SHEET}; of DIMMs: channels x MT/s x 8 B / 1000",
    )
    reached: Fraction | None = about(
        "share of `gb_s` that reads reach",
        absent="1 on a host; as GPUs usually do, in predictions",
        find="STREAM / peak; `moeopt machine detect`",
        default=None,
    )
    measured_gb_s: Positive | None = about(
        "what all cores together read from it, measured: wins over `gb_s` x `reached`",
        unit="GB/s",
        absent="`gb_s` x `reached`",
        find="`moeopt machine detect`, Intel MLC, or 4/3 of what STREAM prints for Triad",
        default=None,
    )
    attention_reached: Fraction | None = about(
        "share of `gb_s` that attention kernels reach", absent="1", find=FIT, default=None
    )
    dimms: Dimms | None = about("its modules", absent="none that matter", default=None)

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.reached is not None and self.measured_gb_s is not None:
            said = "has no effect beside measured_gb_s: leave one of them out"
            raise field_error(["reached"], said)
        return self

    @property
    def read_gb_s(self) -> float:
        """What reads reach together, in GB/s."""
        if self.measured_gb_s is not None:
            return self.measured_gb_s
        return self.gb_s * (1.0 if self.reached is None else self.reached)


class Compute(Frozen):
    """What computes on one memory: a GPU, a CPU, or near-data processing units.

    An NDP unit's `kernels` and `internal_gb_s` are those of one unit.
    """

    kind: Kind = about("what it is")
    name: Name = about(
        "its name", find="`nvidia-smi -L`, `rocm-smi --showproductname`, `lscpu`: Model name"
    )
    kernels: Annotated[tuple[KernelRate, ...], Field(min_length=1, max_length=17)] = about(
        "what it reaches; exactly one without `max_tokens`, the last, is the main one"
    )
    cores: Whole | None = about(
        "physical cores of a CPU", unit="cores", absent="not stated", find="`lscpu`", default=None
    )
    peak_tflops: Positive | None = about(
        "peak of a GPU's matrix units, 16-bit, without sparsity",
        unit="TFLOPS",
        absent="not stated; required of a GPU",
        find=f"{SHEET} (half of a figure with sparsity)",
        default=None,
    )
    vector_tflops: Positive | None = about(
        "peak of a GPU's ordinary cores, 32-bit: they unpack quantised weights",
        unit="TFLOPS",
        absent="a quarter of `peak_tflops`",
        find=f"{SHEET}: FP32",
        default=None,
    )
    clock_ghz: Positive | None = about(
        "boost clock of a GPU, which small kernels take",
        unit="GHz",
        absent="1.8",
        find=SHEET,
        default=None,
    )
    units: Annotated[int, Field(strict=True, ge=1, le=1024)] | None = about(
        "how many NDP units", absent="one per DIMM", default=None
    )
    internal_gb_s: Positive | None = about(
        "what one NDP unit reads from its own memory",
        unit="GB/s",
        absent="not stated; required of NDP units",
        find="the device's data",
        default=None,
    )
    rate_bits: Positive | None = about(
        "width of the weights at which an NDP unit reaches its rate; narrower ones are faster in"
        " proportion",
        unit="bits",
        absent="the width makes no difference",
        default=None,
    )
    most_gib: Positive | None = about(
        "what of the memory it may use, where it shares it",
        unit="GiB",
        absent="all",
        find="macOS: iogpu.wired_limit_mb; else two thirds up to 36 GiB, three quarters above",
        default=None,
    )
    most_gb_s: Positive | None = about(
        "what it reads at most of a memory that it shares, whatever that gives",
        unit="GB/s",
        absent="all that the memory gives",
        find="STREAM",
        default=None,
    )
    reached: Fraction | None = about(
        "share of what the memory gives that a CPU's kernels reach",
        absent="1",
        find=FIT,
        default=None,
    )
    kernel_us: NonNegative | None = about(
        "fixed time of running one expert (launches, tails, waking threads, barriers)",
        unit="us",
        absent="0",
        find=FIT,
        default=None,
    )
    layer_us: NonNegative | None = about(
        "fixed time of a layer's attention, router and norms, whatever their size",
        unit="us",
        absent="0",
        find=FIT,
        default=None,
    )
    step_us: NonNegative | None = about(
        "fixed time of a step: sampling, building the graph of kernels",
        unit="us",
        absent="0",
        find=FIT,
        default=None,
    )
    reserve_mib: Annotated[dict[str, NonNegative] | None, Field(max_length=20)] = about(
        'memory that a runtime takes for its context on a GPU, by runtime: `{"llama.cpp": 900}`',
        unit="MiB",
        absent="as runtimes usually take",
        find="`nvidia-smi` while the runtime runs, less what its log says of weights, cache and"
        " buffers",
        default=None,
    )

    @field_validator("kernels")
    @classmethod
    def _limits_rise(cls, kernels: tuple[KernelRate, ...]) -> tuple[KernelRate, ...]:
        for row, kernel in enumerate(kernels[:-1]):
            if kernel.max_tokens is None:
                raise field_error([row, "max_tokens"], "is missing: only the last has none")
            if row and kernel.max_tokens <= (kernels[row - 1].max_tokens or 0):
                raise field_error([row, "max_tokens"], "must be above that of the kernel before")
        if kernels[-1].max_tokens is not None:
            raise field_error([len(kernels) - 1, "max_tokens"], "must be absent: it is the last")
        return kernels

    @model_validator(mode="after")
    def _fields_of_kind(self) -> Self:
        for kind, needed in (("gpu", "peak_tflops"), ("ndp", "internal_gb_s")):
            if self.kind == kind and getattr(self, needed) is None:
                raise field_error([needed], "is missing")
        for name, kinds in OF_KINDS.items():
            if self.kind not in kinds and getattr(self, name) is not None:
                raise field_error([name], f"is no field of {WORDS[self.kind]}")
        return self

    def rate_tflops(self, tokens: ArrayLike, bits: float = 16.0) -> NDArray[np.float64]:
        """Return the rate at each token count, of the kernel used there; of one NDP unit."""
        count = np.asarray(tokens)
        rate = self.kernels[-1].tflops(count)
        for kernel in reversed(self.kernels[:-1]):
            rate = np.where(count <= (kernel.max_tokens or 0), kernel.tflops(count), rate)
        if self.rate_bits is not None:
            rate = rate * max(self.rate_bits / bits, 1.0)
        return np.asarray(rate, dtype=float)

    def scaled(self, share: float) -> Self:
        """Return the same with kernels so many times as fast."""
        kernels = tuple(
            kernel.model_copy(update={"tflops": kernel.tflops.scaled(share)})
            for kernel in self.kernels
        )
        return self.model_copy(update={"kernels": kernels})


OF_KINDS: dict[str, tuple[Kind, ...]] = {
    "cores": ("cpu",),
    "peak_tflops": ("gpu",),
    "vector_tflops": ("gpu",),
    "clock_ghz": ("gpu",),
    "units": ("ndp",),
    "internal_gb_s": ("ndp",),
    "rate_bits": ("ndp",),
    "most_gib": ("gpu",),
    "most_gb_s": ("cpu",),
    "reached": ("cpu",),
    "kernel_us": ("gpu", "cpu"),
    "layer_us": ("gpu",),
    "step_us": ("gpu",),
    "reserve_mib": ("gpu",),
}
"""Field of `Compute` -> the kinds that have it; the others are of all kinds."""

MOST_GPU_GIB = 4096
"""No GPU has more memory of its own: such a number is one of MiB."""

WORDS: dict[Kind, str] = {"gpu": "a GPU", "cpu": "a CPU", "ndp": "NDP units"}


class Device(Frozen):
    """A memory and what computes on it.

    A GPU; a NUMA node with its CPU, and with NDP units where its DIMMs compute (TriMoE); a CXL box
    with NDP units; a memory that GPU and CPU share.
    """

    id: DeviceId = about("its name: gpu0, numa0, cxl0, soc0, counted from 0")
    memory: Memory = about("its memory")
    computes: Annotated[tuple[Compute, ...], Field(max_length=3)] = about(
        "what computes on it, in a path by kind: `devices.numa0.cpu.cores`",
        absent="nothing: experts are fetched from it",
        default=(),
    )

    @field_validator("computes")
    @classmethod
    def _kinds_differ(cls, computes: tuple[Compute, ...]) -> tuple[Compute, ...]:
        kinds = [compute.kind for compute in computes]
        for row, kind in enumerate(kinds):
            if kind in kinds[:row]:
                raise field_error([row, "kind"], f"is a second {kind}: give it a device of its own")
        if set(kinds) == {"gpu", "ndp"}:
            raise field_error([], "must not be GPU and NDP units on one memory")
        return computes

    @model_validator(mode="after")
    def _limit_is_of_the_memory(self) -> Self:
        gpu, whole = self.part("gpu"), self.memory.capacity_gib
        most = None if gpu is None else gpu.most_gib
        if most is not None and whole is not None and most > whole:
            row = [compute.kind for compute in self.computes].index("gpu")
            said = f"must be at most the memory's {whole:g} GiB, not {most:g}"
            raise field_error(["computes", row, "most_gib"], said)
        return self

    @model_validator(mode="after")
    def _gpu_memory_in_gib(self) -> Self:
        size = self.memory.capacity_gib
        alone = self.part("gpu") is not None and self.part("cpu") is None
        if alone and size is not None and size > MOST_GPU_GIB:
            said = f"must be at most {MOST_GPU_GIB} on a GPU, not {size:g} (GiB, not MiB)"
            raise field_error(["memory", "capacity_gib"], said)
        return self

    def part(self, kind: Kind) -> Compute | None:
        """Return what computes there of a kind, if there is any."""
        return next((compute for compute in self.computes if compute.kind == kind), None)

    def only(self, kind: Kind) -> Compute:
        """Return what computes there of a kind, which is known to be there."""
        found = self.part(kind)
        assert found is not None  # noqa: S101
        return found

    def with_part(self, kind: Kind, **changes: object) -> Self:
        """Return the same with other fields of what computes there of a kind."""
        computes = tuple(
            compute.model_copy(update=changes) if compute.kind == kind else compute
            for compute in self.computes
        )
        return self.model_copy(update={"computes": computes})

    def with_memory(self, **changes: object) -> Self:
        """Return the same with other fields of its memory."""
        return self.model_copy(update={"memory": self.memory.model_copy(update=changes)})

    def with_capacity(self, gib: float) -> Self:
        """Return the same with so much memory, all of it the GPU's where one is there."""
        found = self.with_memory(capacity_gib=gib)
        return found if self.part("gpu") is None else found.with_part("gpu", most_gib=None)

    @property
    def gpu_gib(self) -> float:
        """GiB that its GPU may use; 0 where the memory's size is not stated."""
        found = self.only("gpu").most_gib
        return (self.memory.capacity_gib or 0.0) if found is None else found


class Machine(Frozen):
    """A machine, with the source of every number in `sources` (field path -> where it stands).

    `tables` are measurements; where there is none for a model and device, times come from rates.
    What each field means, its unit and where to find it: `moeopt machine fields`.
    """

    schema_version: Literal[2] = about("2: the form of the file", absent="2", default=2)
    name: Name = about("name of the machine")
    devices: Annotated[tuple[Device, ...], Field(min_length=1, max_length=96)] = about(
        "what it has: GPUs, NUMA nodes, CXL boxes, memories that GPU and CPU share"
    )
    links: Annotated[tuple[Link, ...], Field(max_length=512)] = about(
        "between devices; each GPU needs one to every memory in which offloaded experts lie",
        find="16 lanes: 15.75 GB/s (PCIe 3), 31.5 (4), 63 (5); `nvidia-smi -q`: Link Width;"
        " `nvidia-smi topo -p2p r` between GPUs; Intel MLC between sockets",
        absent="none",
        default=(),
    )
    sync_us: NonNegative | None = about(
        "one synchronisation of a layer's activations between GPU and CPU, one way",
        unit="us",
        absent="0",
        find=FIT,
        default=None,
    )
    tables: Annotated[tuple[TimeTable, ...], Field(max_length=1000)] = about(
        "measured times of experts, instead of the rates",
        absent="none",
        find="`moeopt profile`",
        default=(),
    )
    runtimes: Annotated[tuple[CalibratedRuntime, ...], Field(max_length=20)] = about(
        "runtimes whose speed was measured on it",
        absent="none",
        find="`moeopt calibrate`",
        default=(),
    )
    sources: dict[str, str] = about("where each number stands: field path -> source; may be empty")

    def __repr__(self) -> str:
        parts = []
        for one in self.devices:
            size = one.memory.capacity_gib
            parts.append(one.id if size is None else f"{one.id} {size:g} GiB")
        return f"<machine {self.name!r}: {', '.join(parts)}>"

    __str__ = __repr__

    @field_validator("devices")
    @classmethod
    def _ids_differ(cls, devices: tuple[Device, ...]) -> tuple[Device, ...]:
        ids = [device.id for device in devices]
        for row, name in enumerate(ids):
            if name in ids[:row]:
                raise field_error([row, "id"], f"is a second {name}")
        if not any(device.part("cpu") or device.part("gpu") for device in devices):
            raise field_error([], "must have a GPU or a CPU among them")
        return devices

    @model_validator(mode="after")
    def _links_exist(self) -> Self:
        ids, seen = [device.id for device in self.devices], set[frozenset[str]]()
        for row, link in enumerate(self.links):
            ends = frozenset(link.ends)
            for number, name in enumerate(link.ends):
                if name not in ids:
                    reason = f"there is no device {name!r}; there are {', '.join(ids)}"
                    raise field_error(["links", row, "ends", number], reason)
            if len(ends) == 1:
                raise field_error(["links", row, "ends"], "must be two devices")
            if ends in seen:
                said = " and ".join(sorted(ends))
                raise field_error(["links", row], f"is a second one between {said}")
            seen.add(ends)
        for gpu in self.gpus:
            for other in self.offload:
                if gpu.id != other.id and frozenset((gpu.id, other.id)) not in seen:
                    said = f"there is none between {gpu.id} and {other.id}"
                    raise field_error(["links"], said)
        return self

    @field_validator("tables")
    @classmethod
    def _tables_differ(cls, tables: tuple[TimeTable, ...]) -> tuple[TimeTable, ...]:
        seen = set()
        for row, table in enumerate(tables):
            if table.key in seen:
                what = f"{_plain(table.model)} on {' '.join(map(_plain, table.at))}"
                raise field_error([row], f"is a second table of {what}")
            seen.add(table.key)
        return tables

    def having(self, kind: Kind) -> tuple[Device, ...]:
        """Return the devices on which something of a kind computes."""
        return tuple(device for device in self.devices if device.part(kind) is not None)

    @property
    def gpus(self) -> tuple[Device, ...]:
        """Devices with a GPU."""
        return self.having("gpu")

    @property
    def nodes(self) -> tuple[Device, ...]:
        """Devices with a CPU: NUMA nodes, or the memory that it shares with a GPU."""
        return self.having("cpu")

    @property
    def offload(self) -> tuple[Device, ...]:
        """Devices in whose memory offloaded experts lie: nodes, else those without a GPU."""
        if self.nodes:
            return self.nodes
        others = tuple(device for device in self.devices if device.part("gpu") is None)
        return others or self.gpus[:1]

    @property
    def unified(self) -> bool:
        """Whether GPU and CPU share one memory."""
        return any(device.part("gpu") is not None for device in self.nodes)

    def require(self, kind: Kind) -> Device:
        """Return the first device of a kind; InputError if the machine has none."""
        found = self.having(kind)
        if not found:
            raise InputError(f"machine {self.name}: {kind}: is missing; a cost on it is asked for")
        return found[0]

    def device(self, name: str) -> Device:
        """Return a device by its name; InputError if there is none."""
        for found in self.devices:
            if found.id == name:
                return found
        known = ", ".join(device.id for device in self.devices)
        raise InputError(f"machine {self.name}: devices: there is no {_plain(name)}; {known}")

    def between(self, first: str, second: str) -> LinkRate | None:
        """Return the direct link between two devices; None if they have none.

        A copy within one memory that GPU and CPU share goes at the memory's bandwidth.
        """
        if first == second:
            return LinkRate(gb_s=self.device(first).memory.gb_s)
        for link in self.links:
            if set(link.ends) == {first, second}:
                return link
        return None

    @property
    def pcie(self) -> LinkRate:
        """The way of an expert to the first GPU; InputError if the machine has no GPU."""
        gpu, lies = self.require("gpu").id, self.offload[0].id
        found = self.between(gpu, lies)
        if found is None:  # refused when the machine was made
            raise InputError(f"machine {self.name}: links: there is none between {gpu} and {lies}")
        return found

    @property
    def dimm_link(self) -> LinkRate:
        """The link between DIMMs; InputError if the machine has none."""
        dimms = self.offload[0].memory.dimms
        if dimms is None or dimms.link is None:
            raise InputError(
                f"machine {self.name}: dram.link: is missing; a cost on it is asked for"
            )
        return dimms.link

    @property
    def dimm_count(self) -> int:
        """How many DIMMs there are where offloaded experts lie; at least 1."""
        return sum(1 if d.memory.dimms is None else d.memory.dimms.count for d in self.offload)

    @property
    def ndp_units(self) -> int:
        """How many NDP units there are; 0 without any."""
        count = 0
        for device in self.having("ndp"):
            units, dimms = device.only("ndp").units, device.memory.dimms
            count += (1 if dimms is None else dimms.count) if units is None else units
        return count

    @property
    def taken_as_one(self) -> str | None:
        """What becomes of several GPUs where one is meant, in words; None with one."""
        gpus = len(self.gpus)
        if gpus < 2:
            return None
        return f"machine {self.name}: the first of {gpus} GPUs alone counts"

    def with_devices(self, *changed: Device) -> Self:
        """Return the machine with these devices in place of those of the same names."""
        new = {device.id: device for device in changed}
        devices = tuple(new.get(device.id, device) for device in self.devices)
        return self.model_copy(update={"devices": devices})

    def with_gpus(self, count: int) -> Self:
        """Return the machine with so many GPUs like its first, each with that one's links."""
        first = self.require("gpu")
        if first in self.nodes:
            raise InputError(f"machine {self.name}: gpus: it shares the memory of its one GPU")
        others = tuple(device for device in self.devices if device.part("gpu") is None)
        gpus = tuple(first.model_copy(update={"id": f"gpu{row}"}) for row in range(count))
        ids = {device.id for device in others}
        links = [link for link in self.links if set(link.ends) <= ids]
        for gpu in gpus:
            for other in others:
                rate = self.between(first.id, other.id)
                if isinstance(rate, Link):
                    links.append(rate.model_copy(update={"ends": (gpu.id, other.id)}))
        changes = {"devices": (*gpus, *others), "links": tuple(links)}
        return self.model_copy(update=changes)

    def with_threads(self, threads: int | None) -> Self:
        """Return the machine with fewer of its cores: the rates of kernels follow.

        A machine that does not state its cores, or has no more of them, stays as it is.
        """
        counts = [node.only("cpu").cores for node in self.nodes]
        cores = sum(count or 0 for count in counts)
        if threads is None or None in counts or threads >= cores:
            return self
        fewer, left = [], threads
        for number, node in enumerate(self.nodes):
            own = -(-left // (len(counts) - number))
            left -= own
            cpu = node.only("cpu").scaled(threads / cores)
            fewer.append(node.with_part("cpu", cores=max(1, own), kernels=cpu.kernels))
        return self.with_devices(*fewer)

    def with_ndp_rate(self, share: float) -> Self:
        """Return the machine with NDP units that compute so many times as fast."""
        if share == 1.0:
            return self
        faster = (
            device.with_part("ndp", kernels=device.only("ndp").scaled(share).kernels)
            for device in self.having("ndp")
        )
        return self.with_devices(*faster)

    def without_gpus(self) -> Self:
        """Return the machine without its GPUs; a memory that one shares with a CPU stays."""
        kept = [
            device.model_copy(
                update={"computes": tuple(c for c in device.computes if c.kind != "gpu")}
            )
            for device in self.devices
            if device.part("gpu") is None or device.part("cpu") is not None
        ]
        return self.of_devices(*kept)

    def of_devices(self, *kept: Device) -> Self:
        """Return the machine with these devices alone, and the links between them."""
        ids = {device.id for device in kept}
        links = tuple(link for link in self.links if set(link.ends) <= ids)
        return self.model_copy(update={"devices": kept, "links": links})

    def measured(
        self, model: str, at: tuple[str, str], bits: float | None, threads: int | None = None
    ) -> TimeTable | None:
        """Return the measurement of a model's experts at a place, if there is one.

        Parameters
        ----------
        at
            Device and kind, or the ends of a link.
        bits
            Width of the weights if not the model's own.
        threads
            How many of a CPU's threads compute; by default all cores, or as many of them as were
            measured.

        Raises
        ------
        InputError
            If the CPU was measured, but not with so many threads.
        """
        found = [t for t in self.tables if (t.model, t.bits_per_weight) == (model, bits)]
        found = [t for t in found if t.at == at or (t.is_link and set(t.at) == set(at))]
        cores = self.device(at[0]).only("cpu").cores if at[1] == "cpu" else None
        of = {table.threads: table for table in found}
        if not found or None in of or threads in of:
            return of.get(threads, of.get(None))
        known = sorted(count for count in of if count is not None)
        fitting = [count for count in known if cores is None or count <= cores]
        if threads is not None or not fitting:
            said = ", ".join(map(str, known))
            asked = cores if threads is None else threads
            raise InputError(
                f"machine {self.name}: threads: {model} was measured with {said}, not {asked}"
            )
        return of[fitting[-1]]

    def check_threads(self, threads: int | None) -> None:
        """Raise InputError where nothing says what so many threads take.

        Rates do not scale by themselves; a time table says it, and all cores are what rates mean.
        """
        own = self.require("cpu").only("cpu").cores
        measured = {table.threads for table in self.tables if table.at[1] == "cpu"}
        if threads is not None and threads != own and threads not in measured:
            known = ", ".join(str(t) for t in sorted(t for t in measured if t)) or "none"
            raise InputError(
                f"machine {self.name}: threads: must be one of those measured ({known}),"
                f" not {threads}"
            )


def _plain(text: str) -> str:
    """Return untrusted text without what an error template or a terminal would act on."""
    return "".join(c for c in text[:60] if c.isprintable() and c not in "{}")
