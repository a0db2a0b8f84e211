"""What people own: a GPU and a host by name, put together as ``rtx4090+epyc-9004``."""

import re
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from moeopt.core.envelope import Frozen
from moeopt.core.errors import InputError
from moeopt.core.json_files import read_object
from moeopt.core.wording import shortened
from moeopt.sim.machines.cpu import Cpu, Positive
from moeopt.sim.machines.machine import Dram, Gpu, Machine

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
    """

    gpu: Gpu
    pcie_gb_s: Positive
    reported_names: tuple[str, ...]
    sources: dict[str, str]


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


def gpu_called(reported: str) -> str | None:
    """Return the name of the GPU that nvidia-smi or torch calls so, if it is one of ours."""
    found = (name for name in gpu_names() if reported.strip() in gpu_part(name).reported_names)
    return next(found, None)


def host_called(reported: str) -> str | None:
    """Return the name of the host whose CPU lscpu calls so, if it is one of ours."""
    found = (name for name in host_names() if re.search(host_part(name).pattern, reported))
    return next(found, None)


def is_composed(name: str) -> bool:
    """Return whether a name is one of a host, or of two parts, existing or not."""
    return name in host_names() or re.fullmatch(r"[\w.-]+\+[\w.-]+", name) is not None


def compose(name: str) -> Machine:
    """Return the machine called ``GPU+HOST``, or ``HOST`` for one without a GPU.

    The link between them is the slower of the two ends.

    Parameters
    ----------
    name
        Names of parts, e.g. ``rtx4090+epyc-9004``.

    Raises
    ------
    InputError
        If there is no such GPU or host; both are named.
    """
    gpu_name, _, host_name = name.rpartition("+")
    wrong = [
        f"no {kind} is called {shortened(asked)!r}; there are {', '.join(known)}"
        for kind, asked, known in (
            ("GPU", gpu_name, gpu_names()),
            ("host", host_name, host_names()),
        )
        if asked and asked not in known
    ]
    if wrong:
        raise InputError(f"machine: {shortened(name)!r}: {'; '.join(wrong)}")
    host = host_part(host_name)
    data: dict[str, Any] = {"name": name, "cpu": host.cpu, "dram": host.dram}
    sources = {"name": "of its parts"} | host.sources
    del sources["pcie_gb_s"]
    if gpu_name:
        gpu = gpu_part(gpu_name)
        slower = host if host.pcie_gb_s < gpu.pcie_gb_s else gpu
        data |= {"gpu": gpu.gpu, "pcie_gb_s": slower.pcie_gb_s}
        sources = gpu.sources | sources | {"pcie_gb_s": slower.sources["pcie_gb_s"]}
    return Machine(**data, sources=sources)


def _names(folder: str) -> list[str]:
    return sorted(path.stem for path in (FOLDER / folder).glob("*.json"))
