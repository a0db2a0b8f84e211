"""A machine as a table: every field with its value, unit and source."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from moeopt.core.json_files import JsonObject
from moeopt.sim.machines.edit import plain_machine
from moeopt.sim.machines.fields import FieldFacts, fields_of, without_rows
from moeopt.sim.machines.machine import Machine
from moeopt.sim.presets import parts

UNSTATED = "not stated"


@dataclass(frozen=True)
class Row:
    """A field of a machine; `value` is as in the file, `text` as people read it."""

    field: str
    value: object
    text: str
    unit: str
    source: str


def machine_rows(machine: Machine) -> list[Row]:
    """Return every field that a machine has, and one for the GPU that it may not have."""
    data = plain_machine(machine)
    rows = [row for row in _rows(data, "", machine.sources) if row.field != "sources"]
    if machine.gpu is None:
        source = machine.sources.get("gpu", "a machine without a GPU: the CPU computes alone")
        rows.insert(1, Row("gpu", None, "none", "", source))
    return rows


def absent_fields(machine: Machine) -> list[str]:
    """Return the fields that a machine could have and has not, those of absent objects aside."""
    there = {row.field for row in machine_rows(machine)}
    parents = {""} | {field.rpartition(".")[0] for field in there}
    return [
        path
        for path in fields_of(Machine)
        if path.rpartition(".")[0] in parents
        and "[]" not in path
        and path != "sources"
        and not any(field == path or field.startswith((f"{path}.", f"{path}[")) for field in there)
    ]


def _rows(data: JsonObject, prefix: str, sources: Mapping[str, str]) -> Iterator[Row]:
    for name, value in data.items():
        path = f"{prefix}{name}"
        if path == "sources":
            continue
        if path == "time_tables":
            yield from _tables(value)
        elif path.endswith("reserve_mib"):
            text = ", ".join(f"{runtime}: {mib:g}" for runtime, mib in value.items())
            yield Row(path, value, text, "MiB", _source(path, sources))
        elif isinstance(value, dict) and "points" not in value:
            yield from _rows(value, f"{path}.", sources)
        elif isinstance(value, list):
            for row, item in enumerate(value):
                yield from _rows(item, f"{path}[{row}].", sources)
        else:
            schema = path.replace("links[", "links.between[")
            unit = fields_of(Machine)[without_rows(schema)].unit
            yield Row(path, value, _text(value), unit, _source(path, sources))


def _tables(tables: list[JsonObject]) -> Iterator[Row]:
    for row, table in enumerate(tables):
        points = table["points"]
        text = f"{table['model']} on {table['device']}: {len(points)} points"
        yield Row(f"time_tables[{row}]", table, text, "tokens, ns", table["source"])


def _text(value: object) -> str:
    if isinstance(value, dict):
        points = value["points"]
        if len(points) == 1:
            return f"{points[0][1]:g} (flat)"
        return f"{', '.join(f'{x:g}: {y:g}' for x, y in points)} ({value['scale']})"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _source(path: str, sources: Mapping[str, str]) -> str:
    while path:
        if path in sources:
            return sources[path]
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return UNSTATED


HEAD = """\
# Fields of a machine file

For whoever writes a machine file: every GPU and host that is known by name, and every field with
its unit, its default and where to find it. Printed by `moeopt machine fields`.
"""

TITLES = {
    "": "The machine",
    "gpu": "`gpu`",
    "cpu": "`cpu`",
    "cpu.few_token_kernels[]": "`cpu.few_token_kernels`: a list, each",
    "cpu.numa": "`cpu.numa`",
    "dram": "`dram`",
    "ndp": "`ndp`",
    "links": "`links`",
    "links.dimm_link": "`links.dimm_link`",
    "links.cxl": "`links.cxl`",
    "links.between[]": "`links`, or `links.between`: a list, each",
    "nodes[]": "`nodes`: a list, each",
    "time_tables[]": "`time_tables`: a list, each",
}


def machine_page() -> str:
    """Return the list of parts and fields in Markdown."""
    lines = [HEAD, *_parts(), "## Fields", ""]
    for parent, title in _sections():
        lines += [f"### {title}", "", "| field | unit | default | what | where to find it |"]
        lines += ["|---|---|---|---|---|"]
        lines += [_line(facts) for facts in fields_of(Machine).values() if _of(facts) == parent]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _sections() -> Iterator[tuple[str, str]]:
    parents = dict.fromkeys(_of(facts) for facts in fields_of(Machine).values())
    for parent in parents:
        if parent.startswith("gpus[]"):
            continue  # each as `gpu`
        yield parent, TITLES.get(parent, f"`{parent}`")


def _of(facts: FieldFacts) -> str:
    return facts.path.rpartition(".")[0]


def _line(facts: FieldFacts) -> str:
    name = facts.path.rpartition(".")[2]
    default = "required" if facts.required else facts.absent or "none"
    what = f"{facts.text} ({facts.kind})"
    cells = (f"`{name}`", facts.unit, default, what, facts.find)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _parts() -> Iterator[str]:
    yield "## GPUs"
    yield ""
    yield "| name | GPU | peak TFLOPS | memory, GB/s | memory, GiB | link, GB/s |"
    yield "|---|---|---:|---:|---:|---:|"
    for name in parts.gpu_names():
        part = parts.gpu_part(name)
        gpu = part.gpu
        numbers = (gpu.peak_tflops, gpu.hbm_gb_s, gpu.hbm_gb, part.pcie_gb_s)
        yield f"| `{name}` | {gpu.name} | " + " | ".join(f"{n:g}" for n in numbers) + " |"
    yield ""
    yield "## Hosts"
    yield ""
    titles = "cores | TFLOPS | channels | MT/s | memory, GB/s | reads reach | link, GB/s"
    yield f"| name | CPU | {titles} |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|---:|"
    for name in parts.host_names():
        host = parts.host_part(name)
        cpu, dram = host.cpu, host.dram
        rates: tuple[float, ...] = (
            cpu.threads or 0,
            float(cpu.tflops(10**6)),
            dram.channels or 0,
            dram.speed_mt_s or 0,
            dram.striped_gb_s,
            dram.efficiency or 1,
            host.pcie_gb_s,
        )
        yield f"| `{name}` | {cpu.name} | " + " | ".join(f"{n:g}" for n in rates) + " |"
    yield ""
