"""What people own: a GPU and a host by name, put together as ``rtx4090+epyc-9004``."""

import re
from itertools import combinations

from moeopt.core.errors import InputError
from moeopt.core.json_files import JsonObject
from moeopt.core.wording import meant, shortened, suggested
from moeopt.sim.machines.cpu import Numa
from moeopt.sim.machines.machine import Machine, Node
from moeopt.sim.presets.parts.called import gpu_called as gpu_called
from moeopt.sim.presets.parts.called import host_called as host_called
from moeopt.sim.presets.parts.known import GpuPart, HostPart
from moeopt.sim.presets.parts.known import gpu_names as gpu_names
from moeopt.sim.presets.parts.known import gpu_part as gpu_part
from moeopt.sim.presets.parts.known import host_names as host_names
from moeopt.sim.presets.parts.known import host_part as host_part

MOST_GPUS, MOST_SOCKETS = 16, 8

CROSS_SOCKET_SHARE = 0.57
"""Of a socket's own bandwidth what it reads from another's: 125 of 220 GB/s (KTransformers 2.3)."""

USUAL_DIMM_GB = 64
"""GiB of a DIMM where a host part does not say what its memory holds."""


def is_composed(name: str) -> bool:
    """Return whether a name is one of a host, or of several parts, existing or not."""
    *gpus, host = split_name(name)
    count, host = _counted(host)
    if not gpus and host not in host_names():
        return count <= MOST_SOCKETS and host_called(host) is not None
    return not gpus or all(re.fullmatch(r"[\w.() ®™+/@-]*", part) for part in (*gpus, host))


def split_name(name: str) -> list[str]:
    """Return the parts of a name: at each plus that no CPU is called with (8480+, AI Max+)."""
    return [part.strip() for part in re.split(r"(?<!max)\+(?=\s*[^\s+])", name, flags=re.I)]


def taken(name: str) -> tuple[str, list[str]]:
    """Return a name with our names of its parts, and what was taken for what, in words.

    Parts that we do not know stay as they are.
    """
    ours, said = [], []
    *gpus, host = split_name(name)
    for part, called, known in (
        *((gpu, gpu_called, ["", "none", *gpu_names()]) for gpu in gpus),
        (host, host_called, host_names()),
    ):
        count, plain = _counted(part)
        found = plain if plain in known else called(plain) or plain
        if found != plain:
            said.append(f"{shortened(plain)} is taken for {_described(found)}")
        ours.append(found if count == 1 else f"{count}x{found}")
    return "+".join(ours), said


def _described(name: str) -> str:
    """Return a part with what is assumed of it, in words."""
    if name in gpu_names():
        return f"GPU {name} ({gpu_part(name).gpu.hbm_gb:g} GB)"
    host = host_part(name)
    dram = host.dram
    memory = f"{dram.channels} channels at {dram.speed_mt_s:g} MT/s"
    return f"host {name} ({host.cpu.name}: {host.cpu.threads} cores, {memory})"


def _probably(name: str) -> str | None:
    """Return the machine whose parts are most like those of a name; None if one is like none."""
    *gpus, host = split_name(name)
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
        Names of parts, e.g. ``rtx4090+epyc-9004``, ``2xrtx3090+epyc-7002`` or ``none+xeon-6980p``,
        ours or those that tools print: ``NVIDIA GeForce RTX 4090+AMD EPYC 9355 32-Core Processor``.

    Raises
    ------
    InputError
        If there is no such GPU or host, with those that are called much like it.
    """
    name, said = taken(name)
    *asked, host_name = split_name(name)
    sockets, host_name = _counted(host_name)
    given = [_counted(part) for part in asked if part not in ("", "none")]
    wrong = [
        f"no {kind} is called {shortened(part)!r}{meant(part, known)} (moeopt list {kind.lower()}s)"
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
    sources = {"name": "; ".join(["of its parts", *said])} | host.sources
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
