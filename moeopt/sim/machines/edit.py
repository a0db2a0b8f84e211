"""Changing fields of a machine, all errors at once."""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeGuard

from pydantic import ValidationError

from moeopt.core.errors import InputError, expect
from moeopt.core.json_files import JsonObject
from moeopt.core.wording import faults, meant, suggested

from .fields import helped
from .machine import Machine
from .paths import RENAMED, SHORT, TRIAD, TRIAD_READS, full_paths, named, place, short_fields

BY_USER = "given by the user (moeopt machine set)"

MOST = 2**20
"""Above this neither channels nor their speed are believed; the schema refuses them."""

FOLLOWS = {"cores": "kernels", "peak_tflops": "kernels"}
"""Field of what computes -> the field whose rates follow it in proportion."""


@dataclass(frozen=True)
class Changed:
    """A machine with other fields.

    Attributes
    ----------
    values
        Full path -> new value, None where it was taken out: what was asked for, and what followed.
    """

    machine: Machine
    values: Mapping[str, object]


def set_machine(
    machine: Machine, changes: Mapping[str, object], *, source: str = BY_USER
) -> Machine:
    """Return a machine with other fields.

    Parameters
    ----------
    machine
        What to start from.
    changes
        Field path -> value: a full path such as ``devices.numa0.memory.gb_s``, or a short one such
        as ``dram.gb_s``, which means that field of every such device (`moeopt machine fields`). A
        number for ``tflops`` is a flat curve; None takes a field out, and ``gpu`` all GPUs.
    source
        What `sources` says of these fields.

    Returns
    -------
    Machine
        With these fields. Those that are not given follow others: bandwidths of a memory the
        channels and the speed of its DIMMs, kernels the cores of a CPU and the peak of a GPU.

    Raises
    ------
    InputError
        If a field does not exist, or its value is invalid or would have no effect; the message
        lists every error and how to correct it.

    Examples
    --------
    >>> import moeopt
    >>> machine = moeopt.get_machine("rtx4090+epyc-9004")
    >>> slower = moeopt.set_machine(machine, {"dram.speed_mt_s": 4400})
    >>> slower.device("numa0").memory.gb_s, slower.sources["devices.numa0.memory.gb_s"]
    (422.4, '12 channels x 4400 MT/s x 8 B')
    """
    return changed_machine(machine, changes, source=source).machine


def changed_machine(
    machine: Machine,
    changes: Mapping[str, object],
    *,
    source: str = BY_USER,
    sources: Mapping[str, str] | None = None,
) -> Changed:
    """Return a machine with other fields, and every field that changed; see `set_machine`.

    Parameters
    ----------
    sources
        Of single fields, as `changes` has them, where they have other sources than `source`.
    """
    expect("machine", machine, Machine, what="a machine")
    expect("changes", changes, Mapping, what="a mapping from field paths to values")
    return _Edit(machine, source, sources or {}).carried_out(changes)


class _Edit:
    def __init__(self, machine: Machine, source: str, sources: Mapping[str, str]) -> None:
        self._before, self._source, self._sources = machine, source, sources
        self._data = plain_machine(machine)
        self._old = copy.deepcopy(self._data)
        self._values: dict[str, object] = {}
        self._wrong: list[str] = []
        self._suggestion: str | None = None

    def carried_out(self, changes: Mapping[str, object]) -> Changed:
        asked: dict[str, object] = {}
        said: dict[str, str] = {}
        for path, value in changes.items():
            if path == "gpu" and value is None:
                self._before = self._before.without_gpus()
                self._data = plain_machine(self._before)
                self._data["sources"] = _existing(self._data)
                self._data["sources"]["devices"] = f"no GPU: {self._source}"
                continue
            if path == TRIAD:
                asked |= self._triad(value, said)
                continue
            found = full_paths(self._before, path)
            if not found:
                self._wrong.append(f"{path}: {self._refusal(path)}")
            asked |= dict.fromkeys(found, value)
            said |= dict.fromkeys(found, self._sources.get(path, self._source))
        for path, value in asked.items():
            self._put(path, value, said[path])
        for path in asked:
            if asked[path] is not None:
                self._follow(path, asked)
        machine = self._validated()
        if self._wrong:
            field, _, reason = "; ".join(self._wrong).partition(": ")
            where = f"machine {self._before.name}"
            raise InputError(reason, where=where, field=field, suggestion=self._suggestion)
        assert machine is not None  # noqa: S101
        return Changed(machine, self._values)

    def _triad(self, value: object, said: dict[str, str]) -> dict[str, object]:
        """Return what reads reach on each node by STREAM's Triad of all of them together."""
        found = full_paths(self._before, TRIAD)
        if not _is_rate(value):
            self._wrong.append(f"{TRIAD}: must be GB/s, as in {TRIAD}=93.7, not {value!r:.40}")
            return {}
        together = " of all nodes together" if len(found) > 1 else ""
        text = f"STREAM Triad {value:g} GB/s{together}, 4/3 of it: what is written is read first"
        said |= dict.fromkeys(found, f"{text}; {self._sources.get(TRIAD, self._source)}")
        return dict.fromkeys(found, round(value * TRIAD_READS / len(found), 2))

    def _validated(self) -> Machine | None:
        try:
            return Machine.model_validate(self._data)
        except ValidationError as error:
            for path, kind, reason in faults(error)[:MANY]:
                told = helped(Machine, path, kind)
                self._wrong.append(f"{named(self._data, path)}: {reason}{told}")
        return None

    def _put(self, path: str, value: object, source: str) -> None:
        at, key = place(self._data, path)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if key == "tflops" and is_number:
            value = {"scale": "linear", "points": [[1, value]]}
        sources = self._data["sources"]
        where = path.removesuffix("tflops") + "kernels" if key == "tflops" else path
        for below in [name for name in sources if name == where or name.startswith(f"{where}.")]:
            del sources[below]
        self._values[path] = value
        if value is None:
            at.pop(key, None)
            return
        at[key] = value
        sources[where] = source
        if key == "measured_gb_s" and "reached" in at and "memory" in path:
            self._put(path.replace("measured_gb_s", "reached"), None, source)

    def _follow(self, path: str, asked: Mapping[str, object]) -> None:
        """Let what depends on a field follow it, where it is not given itself."""
        base, _, key = path.rpartition(".")
        if key in FOLLOWS and not {f"{base}.kernels", f"{base}.tflops"} & asked.keys():
            self._follow_kernels(base, key)
        elif base.endswith(".memory.dimms") and key in ("channels", "speed_mt_s"):
            self._follow_dimms(base.removesuffix(".dimms"), path, asked)
        elif base.endswith(".memory") and key == "capacity_gib":
            self._follow_capacity(base.removesuffix(".memory"), asked)
        elif base.endswith(".memory") and key in ("gb_s", "reached"):
            memory, _ = place(self._data, path)
            if memory.get("measured_gb_s") is not None and f"{base}.measured_gb_s" not in asked:
                self._no_effect(path, f"{base}.measured_gb_s")

    def _no_effect(self, path: str, over: str) -> None:
        self._wrong.append(
            f"{path}: has no effect beside {over}: change that, or take it out with"
            f" {over}=null as well"
        )

    def _follow_capacity(self, device: str, asked: Mapping[str, object]) -> None:
        """Let what a GPU may use of a shared memory stay the same share of it."""
        path = f"{device}.gpu.most_gib"
        memory, _ = place(self._data, f"{device}.memory.capacity_gib")
        old, _ = place(self._old, f"{device}.memory.capacity_gib")
        gpu = [c for c in self._device(device)["computes"] if c["kind"] == "gpu"]
        if path in asked or not gpu or gpu[0].get("most_gib") is None:
            return
        before, after = old.get("capacity_gib"), memory.get("capacity_gib")
        if _is_rate(before) and _is_rate(after):
            share = gpu[0]["most_gib"] / before
            said = f"{share:.3g} of {after:g} GiB, the share that it had of {before:g}"
            self._put(path, round(share * after, 1), said)

    def _device(self, path: str) -> JsonObject:
        name = path.rpartition(".")[2]
        return next(device for device in self._data["devices"] if device["id"] == name)

    def _follow_kernels(self, base: str, key: str) -> None:
        old, _ = place(self._old, f"{base}.{key}")
        new, _ = place(self._data, f"{base}.{key}")
        before, after = old.get(key), new[key]
        if not _is_rate(before) or not _is_rate(after):
            return
        share = after / before
        for kernel in new["kernels"]:
            points = [[x, y * share] for x, y in kernel["tflops"]["points"]]
            kernel["tflops"] = {**kernel["tflops"], "points": points}
        sources = self._data["sources"]
        said = sources.get(f"{base}.kernels", "as given")
        sources[f"{base}.kernels"] = f"{after:g} of {before:g} {key} of: {said}"
        self._values[f"{base}.kernels"] = new["kernels"]

    def _follow_dimms(self, base: str, path: str, asked: Mapping[str, object]) -> None:
        """Let a memory's bandwidths follow its channels and their speed."""
        memory, _ = place(self._data, f"{base}.gb_s")
        old, _ = place(self._old, f"{base}.gb_s")
        measured = f"{base}.measured_gb_s"
        if memory.get("measured_gb_s") is not None and measured not in asked:
            self._no_effect(path, measured)
            return
        rates = {field: (gb_s, said) for field, gb_s, said in channel_rates(memory["dimms"])}
        if not rates:
            rates = dict(self._in_proportion(path, memory, old))
            if not rates and f"{base}.gb_s" not in asked:
                self._wrong.append(
                    f"{path}: has no effect: channels and speed_mt_s are not both stated; give"
                    f" {base}.gb_s, too"
                )
        for field, (gb_s, said) in rates.items():
            there = place(self._data, f"{base}.{field}")[0].get(field.rpartition(".")[2])
            if f"{base}.{field}" not in asked and there is not None:
                self._put(f"{base}.{field}", gb_s, said)

    def _in_proportion(
        self, path: str, memory: JsonObject, old: JsonObject
    ) -> Iterator[tuple[str, tuple[float, str]]]:
        key = path.rpartition(".")[2]
        before, after = old.get("dimms", {}).get(key), memory["dimms"].get(key)
        if not _is_rate(before) or not _is_rate(after):
            return
        said = f"{after:g} of {before:g} {key}"
        yield "gb_s", (round(old["gb_s"] * after / before, 3), said)
        one = old["dimms"].get("one_gb_s")
        if key == "speed_mt_s" and one is not None:
            yield "dimms.one_gb_s", (round(one * after / before, 3), said)

    def _refusal(self, path: str) -> str:
        """Return why a path cannot be set."""
        self._suggestion = self._suggestion or RENAMED.get(path)
        if path in RENAMED:
            return f"is called {RENAMED[path]} by now"
        top = path.split("[")[0].split(".")[0]
        if top in ("sources", "tables", "runtimes", "schema_version"):
            return "cannot be set here: `moeopt profile` and `calibrate` measure, `--source` says"
        short, _, rest = path.partition(".")
        if short in SHORT and rest in short_fields(short):
            what = "link of that kind" if short in ("pcie", "socket") else short
            return f"there is no {what} on this machine"
        known = every_path(self._before)
        self._suggestion = self._suggestion or suggested(path, known)
        near = meant(path, known)
        if not near and short in SHORT:
            near = f"; there are {', '.join(f'{short}.{name}' for name in short_fields(short))}"
        if not near and rest == "":
            ends = [name for name in known if path in name.rpartition(".")[2].split("_")]
            near = f"; did you mean {' or '.join(ends[:3])}?" if ends else ""
        return f"is not a known key{near}"


def _is_rate(value: object) -> TypeGuard[float]:
    """Return whether other numbers can follow a value in proportion."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return 0 < value <= 1e9


MANY = 12
"""So many wrong fields are said at once."""


def every_path(machine: Machine) -> list[str]:
    """Return every path that can be set on a machine, the short ones first."""
    found = [
        f"{short}.{name}"
        for short in SHORT
        for name in short_fields(short)
        if full_paths(machine, f"{short}.{name}")
    ]
    full = [path for name in found for path in full_paths(machine, name)]
    found += [TRIAD] if full_paths(machine, TRIAD) else []
    return ["name", "sync_us", *found, *dict.fromkeys(full)]


def plain_machine(machine: Machine) -> JsonObject:
    """Return a machine as JSON data, without the fields that are absent."""
    data = machine.model_dump(mode="json", exclude_none=True)
    for name in ("links", "tables", "runtimes"):
        if not data[name]:
            del data[name]
    dimms = [device["memory"].get("dimms", {}).get("link") for device in data["devices"]]
    for rate in (*data.get("links", ()), *(link for link in dimms if link)):
        if not rate["latency_us"]:
            del rate["latency_us"]
    return data


def _existing(data: JsonObject) -> dict[str, str]:
    """Return the sources of what is there."""
    names = [device["id"] for device in data["devices"]]
    links = ["-".join(link["ends"]) for link in data.get("links", ())]

    def is_there(path: str) -> bool:
        top, _, rest = path.partition(".")
        name, _, below = rest.partition(".")
        if top == "links":
            return name in links
        if top != "devices" or not rest:
            return True
        return name in names and not below.startswith("gpu.")

    return {path: said for path, said in data["sources"].items() if is_there(path)}


def channel_rates(dimms: JsonObject) -> Iterator[tuple[str, float, str]]:
    """Yield field, GB/s and source of what follows from channels and the speed of their DIMMs."""
    channels, speed = dimms.get("channels"), dimms.get("speed_mt_s")
    if not isinstance(speed, int | float) or not isinstance(channels, int):
        return
    if 0 < speed <= MOST and 0 < channels <= MOST:
        each = speed * 8 / 1000
        of = f"{channels} channels x {speed:g} MT/s x 8 B"
        yield "gb_s", round(channels * each, 3), of
        yield "dimms.one_gb_s", round(each, 3), f"one channel: {speed:g} MT/s x 8 B"
