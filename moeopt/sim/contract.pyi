"""Types that `moeopt.sim` gets in version 2.0: machine, setting, placement and costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import Literal, NamedTuple

from pydantic import BaseModel

from moeopt.sim.machines.curve import Curve
from moeopt.sim.models.model_shape import ModelShape

RuntimeId = Literal["llama.cpp", "ik_llama.cpp", "ktransformers"]
NumaMode = Literal["interleaved", "first-touch", "nodes", "mirrored", "isolate", "tensor-parallel"]
KvType = Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"]

class Frozen(BaseModel):
    """Base of what a file holds: immutable, and without fields of other names."""

class Kernel(Frozen):
    """Rate of a compute by tokens per expert, used up to a number of tokens."""

    name: str
    max_tokens: int | None
    tflops: Curve

class LinkRate(Frozen):
    """Rate and latency of a link."""

    gb_s: float
    latency_us: float

class Dimms(Frozen):
    """Memory made of modules; an expert lies on all of them (striped) or on one (localized)."""

    count: int
    channels: int | None
    speed_mt_s: float | None
    one_gb_s: float | None
    link: LinkRate | None

class Memory(Frozen):
    """Memory of a device; a measured rate replaces the peak rate times its reached share."""

    capacity_gib: float | None
    gb_s: float
    reached: Fraction | None
    measured_gb_s: float | None
    attention_reached: Fraction | None
    dimms: Dimms | None

class Compute(Frozen):
    """Unit that computes on one memory."""

    kind: Literal["gpu", "cpu", "ndp"]
    name: str
    kernels: tuple[Kernel, ...]
    threads: int | None
    cores: int | None
    peak_tflops: float | None
    vector_tflops: float | None
    clock_ghz: float | None
    units: int | None
    internal_gb_s: float | None
    rate_bits: float | None
    kernel_us: float | None
    layer_us: float | None
    step_us: float | None
    launch_us: float | None
    reserve_mib: dict[RuntimeId, float]

class Device(Frozen):
    """One memory with what computes on it: a GPU, a NUMA node, a CXL box or a unified memory."""

    id: str
    memory: Memory
    computes: tuple[Compute, ...]

class Link(Frozen):
    """Connection of two devices."""

    ends: tuple[str, str]
    kind: Literal["pcie", "nvlink", "socket", "cxl"]
    gb_s: float
    latency_us: float

class TimeTable(Frozen):
    """Measured times of one compute or link for one model, number of threads and width."""

    at: str
    model: str
    threads: int | None
    bits: float | None
    tokens: tuple[int, ...]
    us: tuple[float, ...]

class CalibratedRuntime(Frozen):
    """Factors of one runtime on this machine, from measurements."""

    runtime: RuntimeId
    factors: dict[str, float]

class Machine(Frozen):
    """Devices and links of a machine."""

    schema_version: Literal[2]
    name: str
    devices: tuple[Device, ...]
    links: tuple[Link, ...]
    sync_us: float | None
    tables: tuple[TimeTable, ...]
    runtimes: tuple[CalibratedRuntime, ...]
    sources: dict[str, str]

@dataclass(frozen=True)
class Context:
    """Tokens that a step looks back on, and tokens for which the cache is allocated."""

    depth: int = 500
    allocated: int = 32768

@dataclass(frozen=True)
class Setting:
    """How a runtime is started; where things lie is a `Placement`."""

    machine: Machine
    model: ModelShape
    runtime: RuntimeId = "llama.cpp"
    runtime_date: date | None = None
    context: Context = ...
    kv: tuple[KvType, KvType] = ("f16", "f16")
    batch: int = 1
    ubatch: int = 512
    threads: int | None = None
    gpus: tuple[str, ...] | None = None
    numa: NumaMode = "interleaved"
    reserve_mib: Mapping[str, float] = ...
    flags: tuple[str, ...] = ()

class Share(NamedTuple):
    """Any so many experts of a layer."""

    experts: int

@dataclass(frozen=True)
class Placement:
    """Device of each layer's attention, and experts of each MoE layer by device."""

    attention: tuple[str, ...]
    experts: tuple[Mapping[str, tuple[int, ...] | Share], ...]

class Speed(NamedTuple):
    """Tokens per second at one depth, with the interval of each rate."""

    depth: int
    decode: float
    low: float
    high: float
    prompt: float | None
    prompt_low: float | None
    prompt_high: float | None

class Terms(NamedTuple):
    """Tokens of a step and their experts, for which costs are asked."""

    tokens: int
    depth: int
    popularity: Sequence[Sequence[float]] | None

class Cost(NamedTuple):
    """Time of one operation on one device or link."""

    layer: int
    what: str
    at: str
    seconds: float

@dataclass(frozen=True)
class StepCosts:
    """Every operation of one step: `predict` sums them, `simulate` executes them."""

    operations: tuple[Cost, ...]

@dataclass(frozen=True)
class Prediction:
    """Speed and memory of a setting, and what the time is spent on."""

    setting: Setting
    placement: Placement
    speeds: tuple[Speed, ...]
    memory_mib: Mapping[str, Mapping[str, float]]
    shares: Mapping[str, float]

def step_costs(setting: Setting, placement: Placement, terms: Terms) -> StepCosts: ...
def predict(
    setting: Setting,
    placement: Placement | None = None,
    popularity: Sequence[Sequence[float]] | None = None,
    depths: Sequence[int] = ...,
) -> Prediction: ...
