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
from moeopt.sim.machines.runtimes.terms import CalibratedRuntime

Whole = Annotated[int, Field(strict=True, ge=1, le=1024)]
LinkName = Literal["pcie", "dimm_link"]


class Gpu(Frozen):
    """A GPU; `utilization` is the fraction of its peak reached at a number of tokens per expert.

    What each field means, its unit and where to find it: `moeopt machine fields`.
    """

    name: Name
    peak_tflops: Positive
    hbm_gb_s: Positive
    hbm_gb: Annotated[Positive, Field(le=4096)]
    utilization: Curve
    vector_tflops: Positive | None = None
    clock_ghz: Positive | None = None
    bandwidth_efficiency: Fraction | None = None
    attention_bandwidth_efficiency: Fraction | None = None
    kernel_us: NonNegative | None = None
    layer_fixed_us: NonNegative | None = None
    step_fixed_us: NonNegative | None = None
    reserve_mib: Annotated[dict[str, NonNegative] | None, Field(max_length=20)] = None

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

    dimms: Whole
    striped_gb_s: Positive
    localized_gb_s: Positive | None = None
    channels: Whole | None = None
    speed_mt_s: Positive | None = None
    capacity_gb: Annotated[Positive, Field(le=65536)] | None = None
    efficiency: Fraction | None = None


class Ndp(Frozen):
    """Near-data processing: `gflops` and `internal_gb_s` of one unit (`moeopt machine fields`)."""

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


class DeviceLink(Link):
    """A link between two devices, the same both ways: ``gpu0``, ``gpu1``, ... or a node's name."""

    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True)

    source: Annotated[str, Field(alias="from", max_length=200)]
    to: Annotated[str, Field(max_length=200)]


class Links(Frozen):
    """Links besides PCIe: between DIMMs, to a CXL device, and between several GPUs and nodes."""

    dimm_link: Link | None = None
    cxl: Link | None = None
    between: Annotated[tuple[DeviceLink, ...], Field(max_length=256)] = ()


class Node(Frozen):
    """A part of the host's memory with the cores beside it: a NUMA node."""

    name: Name
    cores: Whole
    bandwidth_gb_s: Positive
    capacity_gb: Positive


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

    name: Name
    gpu: Gpu | None = None
    gpus: Annotated[tuple[Gpu, ...], Field(max_length=64)] = ()
    cpu: Annotated[Cpu | None, Field(validate_default=True)] = None
    dram: Dram
    ndp: Ndp | None = None
    pcie_gb_s: Annotated[Positive | None, Field(validate_default=True)] = None
    pcie_latency_us: NonNegative | None = None
    sync_us: NonNegative | None = None
    links: Annotated[Links, BeforeValidator(_links)] = Links()
    nodes: Annotated[tuple[Node, ...], Field(max_length=64)] = ()
    unified: bool | None = None
    time_tables: Annotated[tuple[TimeTable, ...], Field(max_length=1000)] = ()
    runtimes: Annotated[tuple[CalibratedRuntime, ...], Field(max_length=20)] = ()
    sources: dict[str, str]

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
