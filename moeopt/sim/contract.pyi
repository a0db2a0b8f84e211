"""Types that `moeopt.sim` gets in version 2.0: setting, placement and costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal, NamedTuple

from moeopt.sim.machines.cores import NumaMode
from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.runtimes.context import Context
from moeopt.sim.machines.runtimes.flags import KvType
from moeopt.sim.machines.runtimes.speeds import Speed
from moeopt.sim.models.model_shape import ModelShape

RuntimeId = Literal["llama.cpp", "ik_llama.cpp", "ktransformers"]

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
