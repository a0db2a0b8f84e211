"""The GPUs and hosts that we know: one JSON file each."""

from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field

from moeopt.core.envelope import Frozen
from moeopt.core.json_files import read_object
from moeopt.sim.machines.machine import Compute, Device, Memory, Positive

FOLDER = Path(__file__).parent


class SoldPart(Frozen):
    """A memory with what computes on it, as sold, and what its link carries at most.

    Attributes
    ----------
    pcie_gb_s
        GB/s, one direction.
    sources
        Field path of the part -> where the number stands.
    """

    memory: Memory
    pcie_gb_s: Positive
    sources: dict[str, str]


class GpuPart(SoldPart):
    """A GPU as sold.

    Attributes
    ----------
    reported_names
        What nvidia-smi and torch call it.
    peer
        Whether two of them copy to each other over PCIe: data-centre and workstation cards do.
    """

    gpu: Compute
    reported_names: tuple[str, ...]
    peer: bool = False

    def device(self, name: str) -> Device:
        """Return it as a device of a machine."""
        return Device(id=name, memory=self.memory, computes=(self.gpu,))


class HostPart(SoldPart):
    """A CPU with all its memory channels filled; `pattern` is found in what lscpu calls it."""

    cpu: Compute
    pattern: Annotated[str, Field(min_length=1)]

    def device(self, name: str) -> Device:
        """Return it as a device of a machine."""
        return Device(id=name, memory=self.memory, computes=(self.cpu,))


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
