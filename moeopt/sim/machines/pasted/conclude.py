"""What follows from facts: which machine it is by name, and which of its fields are others."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from moeopt.core.wording import meant, shortened
from moeopt.sim.machines.edit import changed_machine
from moeopt.sim.machines.machine import Device, Machine
from moeopt.sim.presets import get_machine, machine_called, parts

from .facts import Fact

SMALL_GIB = 36
"""Up to here macOS lets the GPU have two thirds of the memory by default, above three quarters."""


@dataclass(frozen=True)
class Concluded:
    """What a text says of a machine.

    Attributes
    ----------
    facts
        In the order in which they were read.
    machine
        A name for `moeopt.get_machine`; None if the facts do not name one.
    changes
        Field of the machine -> value and where it was read.
    notes
        What was taken for what, and what is not known.
    """

    facts: tuple[Fact, ...]
    machine: str | None
    changes: Mapping[str, tuple[float | int, str]]
    notes: tuple[str, ...]

    def described(self) -> Machine | None:
        """Return the machine with its fields changed; None without a name."""
        if self.machine is None:
            return None
        made = get_machine(self.machine)
        values = {field: value for field, (value, _) in self.changes.items()}
        sources = {field: source for field, (_, source) in self.changes.items()}
        return changed_machine(made, values, sources=sources).machine


def conclude(facts: Sequence[Fact], base: str = "") -> Concluded:
    """Return what follows from facts.

    Parameters
    ----------
    base
        The machine if the user names it.
    """
    known = {fact.name: fact for fact in facts}
    notes: list[str] = []
    name = base or _named(known, notes)
    changes = {} if name is None else _changes(known, get_machine(name))
    if name is None:
        changes = _changes(known, None)
        if any(field.startswith(("dram.", "cpu.")) for field in changes) and _may_have_more(known):
            notes.append(
                "numbers of cores and memory are of the whole host: with --machine each socket of"
                " several gets its share"
            )
    return Concluded(tuple(facts), name, changes, tuple(notes))


def _may_have_more(known: Mapping[str, Fact]) -> bool:
    """Return whether nothing says that there is only one socket."""
    return "cpu.sockets" not in known or known["cpu.sockets"].value != 1


def _named(known: Mapping[str, Fact], notes: list[str]) -> str | None:
    """Return the machine's name; `notes` get what was taken for what, and what is missing."""
    if "chip.name" in known:
        chip = str(known["chip.name"].value)
        found = machine_called(chip)
        notes.append(
            f"{chip} is taken for machine {found}"
            if found
            else f"no machine is called {shortened(chip)!r} (moeopt list machines)"
        )
        return found
    gpus = _gpus(known, notes)
    if "cpu.name" not in known:
        if gpus:
            whole = "+".join([*_counted(gpus), "HOST"])
            notes.append(f"the CPU is not known: read lscpu, too, or give --machine {whole}")
        return None
    cpu = str(known["cpu.name"].value)
    host = parts.host_called(cpu)
    if host is None:
        near = meant(cpu, parts.host_names())
        notes.append(f"no host is called {shortened(cpu)!r}{near} (moeopt list hosts)")
        return None
    sockets = int(known["cpu.sockets"].value) if "cpu.sockets" in known else 1
    if 1 < sockets <= parts.MOST_SOCKETS:
        host = f"{sockets}x{host}"
    if gpus is None:
        return None
    notes += parts.taken(cpu)[1]
    return "+".join([*_counted(gpus), host])


def _counted(gpus: Sequence[tuple[str, int]]) -> list[str]:
    """Return GPUs as a machine's name has them: ``2xrtx3090``."""
    return [name if count == 1 else f"{count}x{name}" for name, count in gpus]


def _gpus(known: Mapping[str, Fact], notes: list[str]) -> list[tuple[str, int]] | None:
    """Return the GPUs with how many of each in a row; None if one is not known."""
    found = []
    for fact in known.values():
        if not (fact.name.startswith("gpu") and fact.name.endswith(".name")):
            continue
        memory = known.get(fact.name.replace(".name", ".memory_gib"))
        said = str(fact.value)
        part = parts.gpu_called(said, float(memory.value) if memory else None)
        if part is None:
            near = meant(said, parts.gpu_names())
            if said.endswith("..."):
                near = ": nvidia-smi -L prints names whole"
            notes.append(f"no GPU is called {shortened(said)!r}{near} (moeopt list gpus)")
            return None
        found.append(part)
        if (note := f"{shortened(said)} is taken for GPU {part}") not in notes:
            notes.append(note)
    if len(found) > parts.MOST_GPUS:
        notes.append(f"{len(found)} GPUs are more than a machine may have: {parts.MOST_GPUS}")
        return None
    return [(part, len([*group])) for part, group in groupby(found)]


SAME = 0.005
"""Share up to which a number is what the machine has already: 31.51 GB/s are the 31.5 of a part."""

FIELDS = {
    "dram.dimms": "dram.count",
    "dram.channels": "dram.channels",
    "dram.speed_mt_s": "dram.speed_mt_s",
    "dram.capacity_gib": "dram.capacity_gib",
    "cpu.cores": "cpu.cores",
}
"""Fact of the whole host -> the field of the same meaning.

What the machine has already changes nothing; of several nodes each has its share.
"""

WHOLE = ("dram.dimms", "dram.channels", "cpu.cores")
"""Facts that are counted: a share of them is whole."""


def _changes(
    known: Mapping[str, Fact], machine: Machine | None
) -> dict[str, tuple[float | int, str]]:
    """Return the fields that facts change."""
    changes: dict[str, tuple[float | int, str]] = {}

    def put(field: str, value: float, source: str, there: object) -> None:
        if not isinstance(there, int | float) or abs(there - value) > SAME * value:
            changes[field] = (value, source)

    nodes = machine.nodes if machine is not None else ()
    count = max(1, len(nodes))
    for name, field in FIELDS.items():
        if name not in known or isinstance(known[name].value, str):
            continue
        value, source = float(known[name].value), known[name].source
        if count > 1 and name != "dram.speed_mt_s":
            value, source = value / count, f"{source}; a share for each socket"
        share = max(1, round(value)) if name in WHOLE else value
        put(field, share, source, _there(nodes[0], field) if nodes else None)
    if "chip.name" in known and "dram.capacity_gib" in known:
        gib = float(known["dram.capacity_gib"].value)
        share, words = (2 / 3, "two thirds") if gib <= SMALL_GIB else (3 / 4, "three quarters")
        source = f"assumed: {words} of the memory, macOS's default"
        there = machine.gpus[0].gpu_gib if machine is not None and machine.gpus else None
        put("gpu.most_gib", round(gib * share, 1), source, there)
    else:
        for field, fact, there in _of_gpus(known, machine):
            put(field, float(fact.value), fact.source, there)
    if "cpu.read_gb_s" in known:
        rate, source = float(known["cpu.read_gb_s"].value), known["cpu.read_gb_s"].source
        peak = _peak_gb_s(known, machine)
        if peak is not None and peak < rate:
            rate, source = peak, f"{source}; {rate:g} GB/s, cut to the memory's peak"
        if count > 1:
            rate, source = round(rate / count, 2), f"{source}; a share for each socket"
        there = nodes[0].memory.measured_gb_s if nodes else None
        put("dram.measured_gb_s", rate, source, there)
    if machine is not None and count > 1 and "socket.read_gb_s" in known:
        across = known["socket.read_gb_s"]
        put("socket.gb_s", float(across.value), across.source, None)
    return changes


def _of_gpus(
    known: Mapping[str, Fact], machine: Machine | None
) -> Iterator[tuple[str, Fact, float | None]]:
    """Yield fields of GPUs and of their links, the fact, and what the machine has there.

    A short name means every GPU: it stands for a value that all of them have. Of a machine that is
    not known, and of one with more or fewer GPUs, nothing else can be said.
    """
    count = sum(
        fact.name.startswith("gpu") and fact.name.endswith(".name") for fact in known.values()
    )
    for name, short in (("memory_gib", "gpu.capacity_gib"), ("pcie_gb_s", "pcie.gb_s")):
        facts = [known.get(f"gpu{number}.{name}") for number in range(count)]
        there: list[list[tuple[str, float | None]]] = [[] for _ in facts]
        if machine is not None and len(machine.gpus) == count:
            there = [_places(machine, gpu, name) for gpu in machine.gpus]
        values = {None if fact is None else fact.value for fact in facts}
        if len(values) == 1 and facts[0] is not None:
            now = {value for places in there for _, value in places}
            yield short, facts[0], now.pop() if len(now) == 1 else None
            continue
        for fact, places in zip(facts, there, strict=True):
            if fact is not None:
                yield from ((path, fact, value) for path, value in places)


def _places(machine: Machine, gpu: Device, name: str) -> list[tuple[str, float | None]]:
    """Return the full paths of a GPU's memory, or of its links to nodes, and their values."""
    if name == "memory_gib":
        return [(f"devices.{gpu.id}.memory.capacity_gib", gpu.memory.capacity_gib)]
    nodes = {node.id for node in machine.nodes}
    links = [link for link in machine.links if gpu.id in link.ends and nodes & {*link.ends}]
    return [(f"links.{'-'.join(link.ends)}.gb_s", link.gb_s) for link in links]


def _there(node: Device, field: str) -> object:
    """Return what a node has of one of `FIELDS`."""
    name = field.rpartition(".")[2]
    if name == "cores":
        return node.only("cpu").cores
    return getattr(node.memory if name == "capacity_gib" else node.memory.dimms, name, None)


def _peak_gb_s(known: Mapping[str, Fact], machine: Machine | None) -> float | None:
    """Return the peak of the DIMMs: of facts, or else of the machine."""
    channels, speed = known.get("dram.channels"), known.get("dram.speed_mt_s")
    if channels is not None and speed is not None:
        return round(float(channels.value) * float(speed.value) * 8 / 1000, 3)
    return sum(node.memory.gb_s for node in machine.nodes) if machine is not None else None
