"""Types that `moeopt.systems` gets in version 2.0: a published system, and what runs it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from moeopt.sim.machines.cores import NumaMode
from moeopt.sim.machines.runtimes.setting import Setting

Ints = NDArray[np.int64]
Loads = Mapping[str, Ints]
"""Tokens by layer and expert of each batch that a system may know."""

class Launches(NamedTuple):
    """Kernel launches of a layer, and the time of one."""

    per_layer: int
    us: float

@dataclass(frozen=True)
class Mechanisms:
    """Ways in which systems differ that are no decisions."""

    graph: bool
    launches: Launches
    overlap: bool
    numa: NumaMode
    kv_on: Literal["gpu", "host"]
    prompt: Literal["on-gpu", "on-cpu", "by-layer"]
    batching: Literal["streams", "window"] = "streams"

@dataclass(frozen=True)
class World:
    """Machine, model and setting that a system runs in."""

    setting: Setting
    loads: Loads

@dataclass
class State:
    """Residents, layout, caches and widths, as they are before a layer of a step."""

    residents: Ints
    layout: Ints
    bits: Ints | None
    own: Any

class Migration(NamedTuple):
    """Move of an expert between two memories."""

    layer: int
    expert: int
    source: str
    target: str

@dataclass(frozen=True)
class Assignment:
    """Where each expert of a layer runs in one step."""

    path: tuple[str, ...]
    tokens: Ints

class System(Protocol):
    """A published system: its mechanisms, and the heuristic of each of its decisions."""

    name: str
    paper: str
    needs: frozenset[Literal["gpu", "cpu", "ndp", "cxl"]]
    mechanisms: Mechanisms
    decisions: Mapping[str, tuple[str, str]]

    def prepare(self, world: World, seen: Loads) -> State: ...
    def before(self, state: State, layer: int, step: int) -> list[Migration]: ...
    def route(self, state: State, layer: int, tokens: Ints) -> Assignment: ...
