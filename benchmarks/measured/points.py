"""Public decode speeds of real runtimes, and the settings they were measured in."""

import csv
import io
import json
import os
from dataclasses import dataclass, replace
from datetime import date
from functools import cache
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.rooms.sim import (
    VERSIONS_FROM,
    Compute,
    Context,
    Curve,
    Device,
    Dimms,
    KernelRate,
    Link,
    Machine,
    Memory,
    ModelShape,
    NumaMode,
    Placement,
    Setting,
    at_bits,
    get_model,
    get_runtime,
)
from moeopt import InputError, get_machine

PEAK_SHARE = 0.8
"""Share of the peak that reads of host memory reach where nobody measured it; as in the parts."""

MOST_BYTES = 2**24
MOST_POINTS = 2000

COLUMNS = (
    *("machine", "preset", "bits", "runtime", "tok_s", "knob", "knob_value", "source", "date"),
    *("n_cpu_moe", "host_calls", "context_tokens", "top_k", "kv_bits", "other_bits", "why_not"),
    *("later_layers", "gpu_hops"),
)
"""Those that are read; the others say what was published, word for word."""

STRATEGY = "kt GPU expert ratio, strategy "
"""Knob of the points of ktransformers that differ by which experts are on the GPU."""


@dataclass(frozen=True)
class MeasuredPoint:
    """One measured speed.

    Attributes
    ----------
    machine, group
        Machine as in machines.json; machines of one group are one machine in two configurations.
    model, bits, runtime
        Preset, quantisation, runtime.
    tokens_per_s
        As published.
    setting
        What it was measured in; None if it cannot be expressed.
    host_calls
        Of each layer with experts, the share of calls to those on the host.
    why_not
        Why it cannot, or is not predicted; empty if it is.
    knob, value, source
        As in the table.
    between_gpus
        Layers whose attention is on another GPU than the first, and hops of activations between
        GPUs, where these have no link of their own.
    public
        Whether its figures are kept here: its page has an address.
    """

    machine: str
    group: str
    model: str
    bits: str
    runtime: str
    tokens_per_s: float
    setting: Setting | None
    why_not: str
    knob: str
    value: str
    source: str
    host_calls: tuple[float, ...] = ()
    between_gpus: tuple[float, float] = (0.0, 0.0)
    public: bool = True

    @property
    def assumed(self) -> bool:
        """Whether the host's memory is a guess: nothing is fitted to such a point."""
        return bool(_machines().get(self.machine, {}).get("assumed", False))

    @property
    def curve(self) -> tuple[str, ...]:
        """Points that differ by where the experts are, and by nothing else."""
        knob = self.knob if self.knob.startswith("kt") else ""
        told = (self.machine, self.model, self.bits, self.runtime, knob)
        if self.setting is None:
            return told
        model = self.setting.model
        return (*told, str(self.setting.context.depth), str(model.top_k), str(model.bits_of("kv")))

    @property
    def started(self) -> tuple[object, ...]:
        """All that was published of how it was started."""
        return *self.curve, self.setting, self.host_calls

    def sped_up(self, times: float) -> "MeasuredPoint":
        """Return the point with so many times its speed."""
        return replace(self, tokens_per_s=times * self.tokens_per_s)

    def started_as(self, setting: Setting, host_calls: tuple[float, ...]) -> "MeasuredPoint":
        """Return the point in a setting that was published without what it needs."""
        return replace(self, setting=setting, host_calls=host_calls)


FOLDER = "MOEOPT_MEASURED"
"""Environment variable: a folder with the points whose page has no address (`withheld_points`)."""


def all_points() -> list[MeasuredPoint]:
    """Return the public points, and those of `withheld_points`."""
    return read_points() + withheld_points()


def withheld() -> list[dict[str, str]]:
    """Return the settings of points whose figures are not kept: their pages have no address."""
    text = files(__package__).joinpath("withheld.csv").read_text("utf-8")
    return list(csv.DictReader(io.StringIO(text)))


def withheld_points() -> list[MeasuredPoint]:
    """Return the points whose figures are not kept here; none without the folder `FOLDER`.

    Raises
    ------
    InputError
        If the folder lacks a table, or a table a row.
    """
    if not (folder := os.environ.get(FOLDER)):
        return []
    found, tables = [], dict[str, list[dict[str, str]]]()
    for own in withheld():
        path = Path(folder) / f"measured-{own['table']}.csv"
        if own["table"] not in tables:
            try:
                tables[own["table"]] = list(csv.DictReader(io.StringIO(_text(path))))
            except InputError as error:
                raise InputError(f"{FOLDER}: {error}") from None
        row = int(own["row"])
        if row > len(tables[own["table"]]):
            raise InputError(f"{path}: row {row}: is missing")
        published = tables[own["table"]][row - 1]
        found.append(replace(_point(f"{path}: row {row}", {**published, **own}), public=False))
    return found


def read_points(path: Path | None = None) -> list[MeasuredPoint]:
    """Return the measured points of a table; by default the one that comes with the package.

    Raises
    ------
    InputError
        If the file cannot be read, lacks a column, or has a value that is wrong: the message names
        file, line and column.
    """
    if path is None:
        text = files(__package__).joinpath("points.csv").read_text("utf-8")
    else:
        text = _text(path)
    where = "points.csv" if path is None else str(path)
    rows = csv.DictReader(io.StringIO(text))
    needed = {"machine", "preset", "bits", "runtime", "tok_s", "knob", "knob_value"}
    if missing := sorted(needed - set(rows.fieldnames or ())):
        raise InputError(f"{where}: {missing[0]}: this column is missing")
    try:
        cells = [(rows.line_num, row) for row in islice(rows, MOST_POINTS + 1)]
    except csv.Error as error:
        raise InputError(f"{where}: {error}") from None
    if not cells:
        raise InputError(f"{where}: there are no points")
    if len(cells) > MOST_POINTS:
        raise InputError(f"{where}: has more than {MOST_POINTS} points")
    return [_point(f"{where}: line {line}", row) for line, row in cells]


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path}: is larger than {MOST_BYTES} bytes")
        return path.read_text("utf-8")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text") from None


Cells = dict[str, str]


def _point(at: str, row: dict[str, str | None]) -> MeasuredPoint:
    cells: Cells = {name: str(row.get(name) or "").strip() for name in COLUMNS}
    name, why_not = cells["machine"], cells["why_not"]
    unstated = "not stated" in why_not and "share of calls" in why_not
    try:
        get_runtime(cells["runtime"])
        speed = number_in("tok_s", cells["tok_s"])
        if speed <= 0:
            raise InputError(f"tok_s: must be above 0, not {speed:g}")
        setting, calls = (None, ()) if unstated or not name else _started(cells)
    except InputError as error:
        raise InputError(f"{at}: {error}") from None
    return MeasuredPoint(
        machine=name,
        group=group_of(name),
        model=cells["preset"],
        bits=cells["bits"],
        runtime=cells["runtime"],
        tokens_per_s=speed,
        setting=setting,
        why_not=why_not or ("" if setting else "where the experts are is not stated"),
        knob=cells["knob"],
        value=cells["knob_value"],
        source=cells["source"],
        host_calls=calls,
        between_gpus=(
            number_in("later_layers", cells["later_layers"] or "0"),
            number_in("gpu_hops", cells["gpu_hops"] or "0"),
        ),
    )


def number_in(column: str, text: str) -> float:
    """Return the number in a cell.

    Raises
    ------
    InputError
        If there is none, or it is below 0 or not below 1e9.
    """
    try:
        found = float(text)
    except ValueError:
        raise InputError(f"{column}: must be a number, not {text!r:.40}") from None
    if not 0 <= found < 1e9:
        raise InputError(f"{column}: must be from 0 to below 1e9, not {text:.40}")
    return found


def _whole(column: str, text: str) -> int:
    found = number_in(column, text)
    if found != int(found):
        raise InputError(f"{column}: must be a whole number, not {text:.40}")
    return int(found)


Started = tuple[Setting | None, tuple[float, ...]]
"""A setting, if it can be expressed, and the share of calls on the host of each layer."""


def _started(cells: Cells) -> Started:
    machine = machine_called(cells["machine"])
    model = model_called(cells["preset"], cells["bits"])
    if cells["top_k"]:
        top_k = _whole("top_k", cells["top_k"])
        if not 1 <= top_k <= model.routed_experts:
            raise InputError(f"top_k: must be from 1 to {model.routed_experts}, not {top_k}")
        model = model.model_copy(update={"top_k": top_k})
    if cells["other_bits"]:
        name = model.quantisation
        model = model.quantized(model.bits, number_in("other_bits", cells["other_bits"]))
        model = model.model_copy(update={"quantisation": name})
    if cells["kv_bits"]:
        model = model.model_copy(update={"kv_bits": number_in("kv_bits", cells["kv_bits"])})
    context = Context.at(_whole("context_tokens", cells["context_tokens"] or "0"))
    when = date.fromisoformat(f"{cells['date']}-15") if cells["date"] else VERSIONS_FROM
    numa = _numa(cells["machine"], cells["runtime"])
    if cells["knob"].startswith(STRATEGY):
        ratio = number_in("knob_value", cells["knob_value"]) / 100
        return _strategy(machine, model, cells["knob"], ratio)
    if cells["n_cpu_moe"]:
        blocks = _whole("n_cpu_moe", cells["n_cpu_moe"])
        setting = Setting(machine, model, cells["runtime"], context, numa=numa, runtime_date=when)
        share = number_in("host_calls", cells["host_calls"] or "1")
        if not share <= 1.0:
            raise InputError("must be shares from 0 to 1", field="host_calls")
        calls = Placement.of_blocks(setting, blocks).host_calls(setting)
        return setting, tuple(share * call for call in calls)
    return None, ()


def _numa(machine: str, runtime: str) -> NumaMode:
    """Return how weights lie on several sockets; machines.json names those where one computes."""
    _, _, _, *computing = _machines().get(machine, {}).get("sockets", (0, 0, 0))
    return "one-computes" if computing else get_runtime(runtime).numa


def _strategy(machine: Machine, model: ModelShape, knob: str, ratio: float) -> Started:
    """Return the setting of a strategy of ktransformers that needs no popularity."""
    layers = len(model.moe_layers)
    setting = Setting(
        machine,
        model,
        "ktransformers",
        Context.at(0),
        numa="tensor-parallel",
        runtime_date=VERSIONS_FROM,
    )
    if "front-loading" in knob:
        full = ratio * layers
        return setting, tuple(1.0 - min(1.0, max(0.0, full - n)) for n in range(layers))
    if "random" in knob or "uniform" in knob:
        return setting, (1.0 - ratio,) * layers
    return None, ()


@cache
def model_called(preset: str, bits: str) -> ModelShape:
    """Return a preset at a quantisation, or at so many bits."""
    model = get_model(preset)
    return at_bits(model, bits) if bits else model


@cache
def _machines() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(
        files(__package__).joinpath("machines.json").read_text("utf-8")
    )
    return found


def group_of(name: str) -> str:
    """Return the machine of which a machine of machines.json is a configuration."""
    return str(_machines()[name]["group"]) if name in _machines() else name


@cache
def machine_called(name: str) -> Machine:
    """Return a machine of the table (machines.json), else a preset or a machine file.

    Raises
    ------
    InputError
        If there is none of that name.
    """
    data = _machines().get(name)
    if data is None:
        return get_machine(name)
    cards = data.get("gpus", [] if data["gpu"] is None else [data["gpu"]])
    gpus = [_gpu(card, number) for number, card in enumerate(cards)]
    if gpus and data.get("unified"):
        hosts, links = [], []
        gpus = [_with_cpu(gpus[0], name, data)]
    else:
        hosts = _hosts(name, data)
        links = [
            Link(ends=(gpu.id, host.id), kind="pcie", gb_s=float(data.get("pcie_gb_s", 25.0)))
            for gpu in gpus
            for host in hosts
        ]
        if len(hosts) > 1:
            across = float(data["sockets"][2])
            links.append(Link(ends=(hosts[0].id, hosts[1].id), kind="socket", gb_s=across))
    return Machine(
        name=name,
        devices=(*gpus, *hosts),
        links=tuple(links),
        sources={"devices": data["source"]},
    )


def _gpu(data: list[Any], number: int) -> Device:
    name, peak, held, reached, tflops, vector, clock = data
    compute = Compute(
        kind="gpu",
        name=name,
        kernels=(_kernel(0.6 * tflops),),
        peak_tflops=float(tflops),
        vector_tflops=float(vector),
        clock_ghz=float(clock),
    )
    memory = Memory(capacity_gib=float(held), gb_s=float(peak), reached=reached)
    return Device(id=f"gpu{number}", memory=memory, computes=(compute,))


def _with_cpu(gpu: Device, name: str, data: dict[str, Any]) -> Device:
    """Return a memory that GPU and CPU share."""
    computes = (*gpu.computes, _cpu(name, data, 1))
    return gpu.model_copy(update={"id": "soc0", "computes": computes})


def _hosts(name: str, data: dict[str, Any]) -> list[Device]:
    sockets, local, _, *computing = data.get("sockets", (1, None, None))
    channels = data.get("channels", 1) // sockets
    if "host_read_gb_s" in data:
        rate, reached = float(data["host_read_gb_s"]), None
    elif local is not None:
        rate, reached = float(local), None
    else:
        rate = channels * data["speed_mt_s"] * 8 / 1e3
        reached = data.get("peak_share", PEAK_SHARE)
    memory = Memory(gb_s=rate, reached=reached, dimms=Dimms(count=channels))
    # Cores and rate of machines.json are those that compute: of one socket where one does.
    cpu = _cpu(name, data, 1 if computing else sockets)
    return [Device(id=f"numa{row}", memory=memory, computes=(cpu,)) for row in range(sockets)]


def _cpu(name: str, data: dict[str, Any], sockets: int) -> Compute:
    tops = data.get("cpu_tops", 1.0) / sockets
    cores = data.get("cores", 1) // sockets
    return Compute(kind="cpu", name=name, kernels=(_kernel(tops),), cores=cores)


def _kernel(tflops: float) -> KernelRate:
    return KernelRate(name="main", tflops=Curve(scale="linear", points=((1.0, float(tflops)),)))
