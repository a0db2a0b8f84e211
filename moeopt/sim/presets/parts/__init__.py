"""What people own: a GPU and a host by name, put together as ``rtx4090+epyc-9004``."""

import re
from itertools import combinations

from moeopt.core.errors import InputError
from moeopt.core.wording import meant, shortened, suggested
from moeopt.sim.machines.machine import Device, Link, LinkKind, Machine
from moeopt.sim.presets.parts.called import gpu_called as gpu_called
from moeopt.sim.presets.parts.called import host_called as host_called
from moeopt.sim.presets.parts.known import GpuPart, HostPart, SoldPart
from moeopt.sim.presets.parts.known import gpu_names as gpu_names
from moeopt.sim.presets.parts.known import gpu_part as gpu_part
from moeopt.sim.presets.parts.known import host_names as host_names
from moeopt.sim.presets.parts.known import host_part as host_part

MOST_GPUS, MOST_SOCKETS = 16, 8

CROSS_SOCKET_SHARE = 0.57
"""Of a socket's own bandwidth what it reads from another's: 125 of 220 GB/s (KTransformers 2.3)."""

USUAL_DIMM_GIB = 64
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
        return f"GPU {name} ({gpu_part(name).memory.capacity_gib:g} GB)"
    host = host_part(name)
    dimms = host.memory.dimms
    memory = f"{dimms.channels} channels at {dimms.speed_mt_s:g} MT/s" if dimms else "no DIMMs"
    return f"host {name} ({host.cpu.name}: {host.cpu.cores} cores, {memory})"


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
        wrong.append(f"a node has 1 to {MOST_GPUS} GPUs; for more, `--ep-size` needs no machine")
    if sockets not in range(1, MOST_SOCKETS + 1):
        wrong.append(f"a machine has 1 to {MOST_SOCKETS} sockets")
    if wrong:
        reason = f"{shortened(name)!r}: {'; '.join(wrong)}"
        raise InputError(reason, field="machine", suggestion=_probably(name))
    host = host_part(host_name)
    gpus = [gpu_part(part) for count, part in given for _ in range(count)]
    nodes = _nodes(host, sockets)
    devices = [gpu.device(f"gpu{row}") for row, gpu in enumerate(gpus)] + nodes
    sources = {"name": "; ".join(["of its parts", *said])}
    for row, gpu in enumerate(gpus):
        sources |= _placed(gpu, f"gpu{row}")
    for node in nodes:
        if node.memory.capacity_gib is not None:
            path = f"devices.{node.id}.memory.capacity_gib"
            sources[path] = f"assumed: a DIMM of {USUAL_DIMM_GIB} GiB on each channel"
        sources |= _placed(host, node.id)
    links = _links(gpus, host, nodes, sources)
    if not gpus:
        sources["devices"] = "a machine without a GPU: the CPU computes alone"
    return Machine(name=name, devices=tuple(devices), links=tuple(links), sources=sources)


def _counted(part: str) -> tuple[int, str]:
    """Return how many of a part are meant, and its name: ``2xrtx3090`` is two."""
    found = re.fullmatch(r"(?!\d{4}x3d)(\d{1,4})x(.+)", part, re.IGNORECASE)  # 9800x3d is one CPU
    return (int(found[1]), found[2]) if found else (1, part)


def _placed(part: SoldPart, name: str) -> dict[str, str]:
    """Return the sources of a part as a device of a machine."""
    return {
        f"devices.{name}.{path}": said
        for path, said in part.sources.items()
        if path not in ("pcie_gb_s", "peer")
    }


def _nodes(host: HostPart, sockets: int) -> list[Device]:
    """Return the sockets of a host; with several of them it matters what each holds."""
    one = host.device("numa0")
    if sockets > 1 and one.memory.capacity_gib is None and one.memory.dimms is not None:
        one = one.with_memory(capacity_gib=float(USUAL_DIMM_GIB * one.memory.dimms.count))
    return [one.model_copy(update={"id": f"numa{row}"}) for row in range(sockets)]


def _links(
    gpus: list[GpuPart], host: HostPart, nodes: list[Device], sources: dict[str, str]
) -> list[Link]:
    """Return all links; `sources` is changed."""
    links, slower = [], [host if host.pcie_gb_s < gpu.pcie_gb_s else gpu for gpu in gpus]

    def add(first: str, second: str, kind: LinkKind, gb_s: float, said: str) -> None:
        links.append(Link(ends=(first, second), kind=kind, gb_s=gb_s))
        sources[f"links.{first}-{second}.gb_s"] = said

    for row, part in enumerate(slower):
        for node in nodes:
            said = part.sources["pcie_gb_s"]
            add(f"gpu{row}", node.id, "pcie", part.pcie_gb_s, said)
    for i, j in combinations(range(len(gpus)), 2):
        if gpus[i].peer and gpus[j].peer:
            less = min(slower[i], slower[j], key=lambda part: part.pcie_gb_s)
            said = f"the slower of their own links: {less.sources['pcie_gb_s']}"
            add(f"gpu{i}", f"gpu{j}", "pcie", less.pcie_gb_s, said)
    across = round(host.memory.read_gb_s * CROSS_SOCKET_SHARE, 1)
    for first, second in combinations(nodes, 2):
        said = f"assumed: {CROSS_SOCKET_SHARE:g} of what a socket reads of its own memory"
        said += " (KTransformers 2.3: 125 of 220 GB/s)"
        add(first.id, second.id, "socket", across, said)
    return links
