"""Names of the systems, and which machine lacks what a system needs."""

from collections.abc import Iterable
from inspect import isabstract

from moeopt.core.assumptions import split_name
from moeopt.core.errors import InputError
from moeopt.core.plugins import entries, loaded
from moeopt.core.wording import unknown_name
from moeopt.sim.machines.machine import Machine

from .published.collaborative import Collaborative
from .published.cxl_ndp import CxlNdp
from .published.edge_gpu_ndp import EdgeGpuNdp
from .published.enhanced_ktransformers import EnhancedKTransformers
from .published.fiddler import Fiddler, FiddlerAsCoded
from .published.hobbit import Hobbit
from .published.hybrimoe import HybriMoE
from .published.klotski import Klotski
from .published.ktransformers import KTransformers
from .published.llama_cpp import LlamaCpp
from .published.monde import MoNDE
from .published.trimoe import TriMoE
from .system import System

SYSTEMS: tuple[type[System], ...] = (
    *(TriMoE, KTransformers, EdgeGpuNdp, CxlNdp, Collaborative),
    *(Klotski, EnhancedKTransformers, MoNDE, Fiddler, FiddlerAsCoded, HybriMoE, Hobbit, LlamaCpp),
)
"""The five systems, then those that their papers compare with."""

GROUP = "moeopt.systems"
"""Entry points of other packages: a system's name -> a subclass of `System`."""


def system_names() -> list[str]:
    """Return the names of all systems: the package's, then those of other packages."""
    return [*(one.name for one in SYSTEMS), *entries(GROUP)]


def get_system(name: str) -> System:
    """Return a system by name; it may carry assumptions: ``trimoe[move_reads=yes]``.

    Raises
    ------
    InputError
        If there is none of that name, it takes no such assumption, or it cannot be loaded.
    """
    name, assumed = split_name(name)
    for one in SYSTEMS:
        if one.name == name:
            return one(assumed)
    if name in entries(GROUP):
        kind = loaded(entries(GROUP)[name], type)
        if not issubclass(kind, System) or isabstract(kind):
            text = "must be a subclass of moeopt's System, with prepare and route"
            raise InputError(f"system {name}: {text}")
        return kind(assumed)
    raise unknown_name("system", name, system_names())


def named_systems(names: Iterable[str] | None) -> list[System]:
    """Return the systems of these names, all without names, each once."""
    return [get_system(name) for name in dict.fromkeys(names or system_names())]


def what_is_missing(system: System, machine: Machine) -> str | None:
    """Return why a system cannot run on a machine; None if it can."""
    units = {
        "gpu": ("GPU", bool(machine.gpus)),
        "cpu": ("CPU that computes experts", bool(machine.nodes)),
        "ndp": ("NDP units", bool(machine.ndp_units)),
        "cxl": ("CXL box with NDP units", any(_is_box(one.id) for one in machine.having("ndp"))),
    }
    lacks = [units[unit][0] for unit in units if unit in system.needs and not units[unit][1]]
    return f"{machine.name} has no {' and no '.join(lacks)}" if lacks else None


def _is_box(device: str) -> bool:
    return device.startswith("cxl")
