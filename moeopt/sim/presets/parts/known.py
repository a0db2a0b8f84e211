"""The GPUs and hosts that we know: one JSON file each."""

from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field

from moeopt.core.envelope import Frozen
from moeopt.core.json_files import read_object
from moeopt.sim.machines.cpu import Cpu, Positive
from moeopt.sim.machines.machine import Dram, Gpu

FOLDER = Path(__file__).parent


class GpuPart(Frozen):
    """A GPU as sold.

    Attributes
    ----------
    gpu
        What it is by the vendor's data.
    pcie_gb_s
        What its link carries at most, in GB/s, one direction.
    reported_names
        What nvidia-smi and torch call it.
    sources
        Field path of a machine -> where the number stands.
    peer
        Whether two of them copy to each other over PCIe: data-centre and workstation cards do.
    """

    gpu: Gpu
    pcie_gb_s: Positive
    reported_names: tuple[str, ...]
    sources: dict[str, str]
    peer: bool = False


class HostPart(Frozen):
    """A CPU with all its memory channels filled; `pattern` is found in what lscpu calls it."""

    cpu: Cpu
    dram: Dram
    pcie_gb_s: Positive
    pattern: Annotated[str, Field(min_length=1)]
    sources: dict[str, str]


def gpu_names() -> list[str]:
    """Return the names of the GPUs."""
    return _names("gpus")


def host_names() -> list[str]:
    """Return the names of the hosts."""
    return _names("hosts")


@cache
def gpu_part(name: str) -> GpuPart:
    """Return a GPU by name."""
    return GpuPart.model_validate(read_object(FOLDER / "gpus" / f"{name}.json"))


@cache
def host_part(name: str) -> HostPart:
    """Return a host by name."""
    return HostPart.model_validate(read_object(FOLDER / "hosts" / f"{name}.json"))


def _names(folder: str) -> list[str]:
    return sorted(path.stem for path in (FOLDER / folder).glob("*.json"))
