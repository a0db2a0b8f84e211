"""Changing fields of a machine, all errors at once; a machine as a table of its fields."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from moeopt.core.errors import InputError, expect
from moeopt.core.json_files import JsonObject
from moeopt.sim.presets import parts

from .fields import FieldFacts, describe_fields, fields_of, nearest, nearest_path, without_rows
from .machine import Machine

BY_USER = "given by the user (moeopt machine set)"

MOST = 2**20
"""Above this neither channels nor their speed are believed; the schema refuses them."""


def set_machine(
    machine: Machine, changes: Mapping[str, object], *, source: str = BY_USER
) -> Machine:
    """Return a machine with other fields.

    Parameters
    ----------
    machine
        What to start from.
    changes
        Field path -> value, e.g. ``{"cpu.bandwidth_gb_s": 80}``, units as `moeopt machine fields`
        says. A number for a curve is a flat one; None takes a field out, ``gpu`` all of its fields.
    source
        What `sources` says of these fields.

    Returns
    -------
    Machine
        Changed. `dram.striped_gb_s` and `dram.localized_gb_s` follow `dram.channels` and
        `dram.speed_mt_s` where one of those is changed and they are not themselves: channels x
        MT/s x 8 B.

    Raises
    ------
    InputError
        If a field does not exist or its value cannot be: the message lists everything that is
        wrong, with what would be right.

    Examples
    --------
    >>> import moeopt
    >>> machine = moeopt.get_machine("rtx4090+epyc-9004")
    >>> slower = moeopt.set_machine(machine, {"dram.speed_mt_s": 4400})
    >>> slower.dram.striped_gb_s, slower.sources["dram.striped_gb_s"]
    (422.4, '12 channels x 4400 MT/s x 8 B')
    """
    expect("machine", machine, Machine, what="a machine")
    expect("changes", changes, Mapping, what="a mapping from field paths to values")
    data = plain_machine(machine)
    return with_changes(data, changes, source=source, where=f"machine {machine.name}")


def with_changes(
    data: JsonObject, changes: Mapping[str, object], *, source: str, where: str
) -> Machine:
    """Return the machine that JSON data describe once fields are changed; see `set_machine`.

    Parameters
    ----------
    data
        Perhaps incomplete; it is changed.
    where
        What an error begins with.

    Raises
    ------
    InputError
        If a field or a value cannot be, or one is missing: everything is listed.
    """
    sources: dict[str, str] = data["sources"]
    threads = (data.get("cpu") or {}).get("threads")
    wrong = []
    for path, value in changes.items():
        if reason := _refusal(path):
            wrong.append(f"{path}: {reason}")
            continue
        if path.startswith("gpu.") and data.get("gpus"):
            wrong.append(f"{path}: there are several GPUs: change gpus in the file")
            continue
        curve = fields_of(Machine)[path].kind == "curve"
        if curve and isinstance(value, int | float) and not isinstance(value, bool):
            value = {"scale": "linear", "points": [[1, value]]}
        _put(data, path, value)
        inside = (f"{path}.", f"{path}[")
        for below in [key for key in sources if key == path or key.startswith(inside)]:
            del sources[below]
        if value is not None or fields_of(Machine)[path].part:
            sources[path] = source
    if "gpu" in changes and changes["gpu"] is None and "pcie_gb_s" not in changes:
        _put(data, "pcie_gb_s", None)
        sources.pop("pcie_gb_s", None)
    _follow_channels(data, set(changes))
    try:
        machine = Machine.model_validate(data)
        machine = _follow_threads(machine, threads, set(changes))
    except ValidationError as error:
        wrong = [*wrong, describe_fields(Machine, error)]
    if wrong:
        field, _, reason = "; ".join(wrong).partition(": ")
        raise InputError(reason, where=where, field=field, suggestion=nearest_path(Machine, field))
    return machine


def plain_machine(machine: Machine) -> JsonObject:
    """Return a machine as JSON data, without the fields that are absent."""
    data = machine.model_dump(mode="json", exclude_none=True)
    if data["gpus"]:
        del data["gpu"]  # the first of them
    if list(data["links"]) == ["between"]:
        data["links"] = data["links"]["between"]
    elif not data["links"].get("between"):
        data["links"].pop("between", None)
    for name in ("links", "time_tables", "gpus", "nodes"):
        if not data[name]:
            del data[name]
    cpu = data.get("cpu", {})
    if cpu.get("few_token_kernels") == []:
        del cpu["few_token_kernels"]
    return data


def _refusal(path: str) -> str:
    """Return why a path cannot be set, or nothing."""
    if path.split("[")[0].split(".")[0] in ("sources", "time_tables"):
        return "cannot be set here: `moeopt profile` measures tables, `--source` names a source"
    facts = fields_of(Machine).get(path)
    if facts is None:
        return f"is not a known key{nearest(Machine, path)}"
    if facts.kind.startswith("list"):
        return "is a list: write it in the file"
    return ""


def _put(data: JsonObject, path: str, value: object) -> None:
    *parents, last = path.split(".")
    for parent in parents:
        below = data.get(parent)
        data[parent] = below if isinstance(below, dict) else {}
        data = data[parent]
    if value is None:
        data.pop(last, None)
    else:
        data[last] = value


def _follow_threads(machine: Machine, before: object, changed: set[str]) -> Machine:
    """Let the rates of the CPU's kernels follow the number of threads that compute."""
    cpu = machine.cpu
    if changed & {"cpu", "cpu.tflops"} or "cpu.threads" not in changed:
        return machine
    if cpu is None or cpu.threads is None or not isinstance(before, int):
        return machine
    said = f"{cpu.threads} of {before} threads of: {machine.sources.get('cpu.tflops', 'as given')}"
    sources = machine.sources | {"cpu.tflops": said}
    scaled = cpu.of_cores(cpu.threads / before)
    return machine.model_copy(update={"cpu": scaled, "sources": sources})


def _follow_channels(data: JsonObject, changed: set[str]) -> None:
    """Let the DIMMs' bandwidths follow their channels and speed."""
    if not changed & {"dram.channels", "dram.speed_mt_s"} or not isinstance(data.get("dram"), dict):
        return
    for field, gb_s, source in channel_rates(data["dram"]):
        if f"dram.{field}" not in changed and field in data["dram"]:
            data["dram"][field] = gb_s
            data["sources"][f"dram.{field}"] = source


def channel_rates(dram: JsonObject) -> Iterator[tuple[str, float, str]]:
    """Yield field, GB/s and source of what follows from a memory's channels and their speed."""
    channels, speed = dram.get("channels"), dram.get("speed_mt_s")
    if not isinstance(speed, int | float) or not isinstance(channels, int):
        return
    if 0 < speed <= MOST and 0 < channels <= MOST:
        each = speed * 8 / 1000
        of = f"{channels} channels x {speed:g} MT/s x 8 B"
        yield "striped_gb_s", round(channels * each, 3), of
        yield "localized_gb_s", round(each, 3), f"one channel: {speed:g} MT/s x 8 B"


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
    "cpu.few_token_kernels[]": "`cpu.few_token_kernels`: a list, each",
    "links.between[]": "`links`, or `links.between`: a list, each",
    "nodes[]": "`nodes`: a list, each",
    "time_tables[]": "`time_tables`: a list, each",
}


def machine_page() -> str:
    """Return the list of parts and fields in Markdown."""
    lines = [HEAD, *_parts(), "## Fields", ""]
    below: dict[str, list[str]] = {}
    for path, facts in fields_of(Machine).items():
        below.setdefault(path.rpartition(".")[0], []).append(_line(facts))
    for parent, rows in below.items():
        if not parent.startswith("gpus[]"):  # each as `gpu`
            title = TITLES.get(parent, f"`{parent}`")
            lines += [f"### {title}", "", "| field | unit | default | what | where to find it |"]
            lines += ["|---|---|---|---|---|", *rows, ""]
    return "\n".join(lines).rstrip() + "\n"


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
