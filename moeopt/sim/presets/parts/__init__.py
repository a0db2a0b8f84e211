"""What people own: a GPU and a host by name, put together as ``rtx4090+epyc-9004``."""

import re
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Annotated

from pydantic import Field

from moeopt.core.envelope import Frozen
from moeopt.core.errors import InputError
from moeopt.core.json_files import JsonObject, read_object
from moeopt.core.wording import meant, shortened, suggested
from moeopt.sim.machines.cpu import Cpu, Numa, Positive
from moeopt.sim.machines.machine import Dram, Gpu, Machine, Node

FOLDER = Path(__file__).parent

MOST_GPUS, MOST_SOCKETS = 16, 8

CROSS_SOCKET_SHARE = 0.57
"""Of a socket's own bandwidth what it reads from another's: 125 of 220 GB/s (KTransformers 2.3)."""

USUAL_DIMM_GB = 64
"""GiB of a DIMM where a host part does not say what its memory holds."""


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


def gpu_called(reported: str) -> str | None:
    """Return the name of the GPU that nvidia-smi or torch calls so, if it is one of ours."""
    found = (name for name in gpu_names() if reported.strip() in gpu_part(name).reported_names)
    return next(found, None)


def host_called(reported: str) -> str | None:
    """Return the name of the host whose CPU lscpu calls so, if it is one of ours."""
    found = (name for name in host_names() if re.search(host_part(name).pattern, reported))
    return next(found, None)


def is_composed(name: str) -> bool:
    """Return whether a name is one of a host, or of several parts, existing or not."""
    alone = _counted(name)[1] in host_names()
    return alone or re.fullmatch(r"[\w.-]+(\+[\w.-]+)+", name) is not None


def _probably(name: str) -> str | None:
    """Return the machine whose parts are most like those of a name; None if one is like none."""
    *gpus, host = name.split("+")
    found = []
    for part, known in ((host, host_names()), *((gpu, ["none", *gpu_names()]) for gpu in gpus)):
        count, plain = _counted(part)
        close = plain if plain in known else suggested(plain, known)
        if close is None:
            return None
        found.append(close if count == 1 else f"{count}x{close}")
    return "+".join([*found[1:], found[0]])


def compose(name: str) -> Machine:
    """Return the machine called ``GPU+HOST``, ``2xGPU+GPU+HOST``, or ``HOST`` without a GPU.

    The link between a GPU and the host is the slower of the two ends. GPUs reach each other
    through the host. A host ``2xHOST`` has two sockets, each a node with its own memory, which
    programs read interleaved.

    Parameters
    ----------
    name
        Names of parts, e.g. ``rtx4090+epyc-9004``, ``2xrtx3090+epyc-7002`` or ``none+xeon-6980p``.

    Raises
    ------
    InputError
        If there is no such GPU or host; both are named.
    """
    *asked, host_name = name.split("+")
    sockets, host_name = _counted(host_name)
    given = [_counted(part) for part in asked if part not in ("", "none")]
    wrong = [
        f"no {kind} is called {shortened(part)!r}{meant(part, known) or ';'}"
        f" there are {', '.join(known)}"
        for parts, kind, known in (
            ([part for _, part in given], "GPU", gpu_names()),
            ([host_name], "host", host_names()),
        )
        for part in parts
        if part not in known
    ]
    if not 1 <= sum(count for count, _ in given) <= MOST_GPUS and given:
        wrong.append(f"from 1 to {MOST_GPUS} GPUs, please")
    if sockets not in range(1, MOST_SOCKETS + 1):
        wrong.append(f"from 1 to {MOST_SOCKETS} sockets, please")
    if wrong:
        reason = f"{shortened(name)!r}: {'; '.join(wrong)}"
        raise InputError(reason, field="machine", suggestion=_probably(name))
    host = host_part(host_name)
    data: dict[str, object] = {"name": name, "cpu": host.cpu, "dram": host.dram}
    sources = {"name": "of its parts"} | host.sources
    del sources["pcie_gb_s"]
    if sockets > 1:
        _add_sockets(data, sources, host, host_name, sockets)
    gpus = [gpu_part(part) for count, part in given for _ in range(count)]
    if len(gpus) == 1:
        gpu = gpus[0]
        slower = host if host.pcie_gb_s < gpu.pcie_gb_s else gpu
        data |= {"gpu": gpu.gpu, "pcie_gb_s": slower.pcie_gb_s}
        sources = gpu.sources | sources | {"pcie_gb_s": slower.sources["pcie_gb_s"]}
    elif gpus:
        _add_gpus(data, sources, host, gpus)
    return Machine(**data, sources=sources)


def _counted(part: str) -> tuple[int, str]:
    """Return how many of a part are meant, and its name: ``2xrtx3090`` is two."""
    found = re.fullmatch(r"(\d{1,4})x(.+)", part)
    return (int(found[1]), found[2]) if found else (1, part)


def _add_sockets(
    data: dict[str, object], sources: dict[str, str], host: HostPart, name: str, sockets: int
) -> None:
    """Add the sockets of one host as nodes; `data` and `sources` are changed."""
    each, dram, cpu = host.dram.striped_gb_s, host.dram, host.cpu
    share = dram.efficiency or 1.0
    local = round(each * share, 1)
    data["dram"] = dram.model_copy(
        update={
            "dimms": dram.dimms * sockets,
            "striped_gb_s": each * sockets,
            "channels": None if dram.channels is None else dram.channels * sockets,
        }
    )
    threads = (cpu.threads or 1) * sockets
    numa = Numa(
        sockets=sockets,
        local_gb_s=local,
        cross_socket_gb_s=round(local * CROSS_SOCKET_SHARE, 1),
        placement="interleaved",
    )
    data["cpu"] = cpu.of_cores(sockets).model_copy(update={"threads": threads, "numa": numa})
    capacity = dram.capacity_gb or USUAL_DIMM_GB * dram.dimms
    data["nodes"] = tuple(
        Node(
            name=f"numa{number}",
            cores=cpu.threads or 1,
            bandwidth_gb_s=local,
            capacity_gb=capacity,
        )
        for number in range(sockets)
    )
    sources |= {
        "cpu.numa": f"{sockets} x part {name}; between sockets assumed: {CROSS_SOCKET_SHARE:g} of"
        " the local rate (KTransformers 2.3: 125 of 220 GB/s)",
        "nodes": f"{sockets} x part {name}",
    }


def _add_gpus(
    data: JsonObject, sources: dict[str, str], host: HostPart, gpus: list[GpuPart]
) -> None:
    """Add several GPUs, each with its link to every node; `data` and `sources` are changed."""
    data["gpus"] = tuple(gpu.gpu for gpu in gpus)
    slower = [host if host.pcie_gb_s < gpu.pcie_gb_s else gpu for gpu in gpus]
    data["pcie_gb_s"] = slower[0].pcie_gb_s
    sources["pcie_gb_s"] = f"gpu0: {slower[0].sources['pcie_gb_s']}"
    nodes = [node.name for node in data.get("nodes", ())] or ["host"]
    data["links"] = [
        {"from": f"gpu{number}", "to": node, "gb_s": part.pcie_gb_s}
        for number, part in enumerate(slower)
        for node in nodes
        if part.pcie_gb_s != slower[0].pcie_gb_s
    ]
    data["links"] += [
        {
            "from": f"gpu{i}",
            "to": f"gpu{j}",
            "gb_s": min(slower[i].pcie_gb_s, slower[j].pcie_gb_s),
        }
        for i, j in combinations(range(len(gpus)), 2)
        if gpus[i].peer and gpus[j].peer
    ]
    for number, gpu in enumerate(gpus):
        own = {k: v for k, v in gpu.sources.items() if k.startswith("gpu.")}
        sources |= {k.replace("gpu.", f"gpus[{number}].", 1): v for k, v in own.items()}


def _names(folder: str) -> list[str]:
    return sorted(path.stem for path in (FOLDER / folder).glob("*.json"))
