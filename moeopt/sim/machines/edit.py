"""Changing fields of a machine, all errors at once."""

from collections.abc import Iterator, Mapping

from pydantic import ValidationError

from moeopt.core.errors import InputError, expect
from moeopt.core.json_files import JsonObject
from moeopt.sim.machines.fields import describe_fields, fields_of, nearest
from moeopt.sim.machines.machine import Machine

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
        raise InputError(f"{where}: {'; '.join(wrong)}")
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
