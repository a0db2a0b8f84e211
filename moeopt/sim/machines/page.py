"""The list of GPUs, hosts and fields that `moeopt machine fields` prints, in Markdown."""

from collections.abc import Iterator

from moeopt.sim.presets import parts

from .fields import FieldFacts, fields_of
from .machine import OF_KINDS, Machine
from .paths import SHORT, short_fields

HEAD = """\
# Fields of a machine file

Every GPU and host that is known by name, and every field with its unit, its default and where to
find it. Printed by `moeopt machine fields`.
"""

TITLES = {
    "": ("The machine", ""),
    "devices[]": ("`devices`", "A list, each a memory and what computes on it."),
    "devices[].memory": ("`devices.ID.memory`", ""),
    "devices[].memory.dimms": ("`devices.ID.memory.dimms`", ""),
    "devices[].memory.dimms.link": ("`devices.ID.memory.dimms.link`", ""),
    "devices[].computes[]": (
        "`devices.ID.gpu`, `devices.ID.cpu`, `devices.ID.ndp`",
        "In a file a list `computes`. The second column says which kinds have the field.",
    ),
    "devices[].computes[].kernels[]": ("`kernels`", "A list, by rising `max_tokens`."),
    "links[]": ("`links`", "A list, each; in a path by its ends: `links.gpu0-numa0.gb_s`."),
    "tables[]": ("`tables`", "A list, each."),
    "runtimes[]": ("`runtimes`", "A list, each."),
    "runtimes[].models[]": ("`runtimes`: `models`", "A list, each."),
}

SHORT_HEAD = """\
## Short names

`moeopt machine set` takes a full path, `devices.numa0.memory.gb_s`, or a short name, which means
the same field of every such device: of two NUMA nodes both. Capacities, channels and rates are
those of one node. `tflops` is the curve of the main kernel; a number makes a flat one.
"""


def machine_page() -> str:
    """Return the list of parts and fields in Markdown."""
    lines = [HEAD, *_parts(), "## Fields", ""]
    below: dict[str, list[str]] = {}
    for path, facts in fields_of(Machine).items():
        below.setdefault(path.rpartition(".")[0], []).append(_line(path, facts))
    for parent, rows in below.items():
        title, said = TITLES[parent]
        lines += [f"### {title}", "", *([said, ""] if said else [])]
        of = " of |" if parent == "devices[].computes[]" else ""
        lines += [f"| field |{of} unit | default | what | where to find it |"]
        lines += ["|---" * (6 if of else 5) + "|", *rows, ""]
    lines += [SHORT_HEAD, "| name | fields |", "|---|---|"]
    for short in SHORT:
        names = ", ".join(f"`{name}`" for name in short_fields(short))
        lines.append(f"| `{short}.` | {names} |")
    return "\n".join(lines).rstrip() + "\n"


def _line(path: str, facts: FieldFacts) -> str:
    parent, _, name = path.rpartition(".")
    default = "required" if facts.required else facts.absent or "none"
    what = f"{facts.text} ({facts.kind})"
    of = ", ".join(OF_KINDS.get(name, ("all",)))
    kinds = (of,) if parent == "devices[].computes[]" else ()
    cells = (f"`{name}`", *kinds, facts.unit, default, what, facts.find)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _parts() -> Iterator[str]:
    yield "## GPUs"
    yield ""
    yield "| name | GPU | peak TFLOPS | memory, GB/s | memory, GiB | link, GB/s |"
    yield "|---|---|---:|---:|---:|---:|"
    for name in parts.gpu_names():
        part = parts.gpu_part(name)
        memory = part.memory
        numbers = (part.gpu.peak_tflops, memory.gb_s, memory.capacity_gib, part.pcie_gb_s)
        yield f"| `{name}` | {part.gpu.name} | " + " | ".join(f"{n or 0:g}" for n in numbers) + " |"
    yield ""
    yield "## Hosts"
    yield ""
    titles = "cores | TFLOPS | channels | MT/s | memory, GB/s | reads reach | link, GB/s"
    yield f"| name | CPU | {titles} |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|---:|"
    for name in parts.host_names():
        host = parts.host_part(name)
        cpu, memory, dimms = host.cpu, host.memory, host.memory.dimms
        rates: tuple[float, ...] = (
            cpu.cores or 0,
            float(cpu.rate_tflops(10**6)),
            (dimms.channels or 0) if dimms else 0,
            (dimms.speed_mt_s or 0) if dimms else 0,
            memory.gb_s,
            memory.reached or 1,
            host.pcie_gb_s,
        )
        yield f"| `{name}` | {cpu.name} | " + " | ".join(f"{n:g}" for n in rates) + " |"
    yield ""
