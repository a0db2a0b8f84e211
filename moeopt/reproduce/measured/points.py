"""Public decode speeds of real runtimes, and the settings they were measured in."""

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from moeopt.errors import InputError
from moeopt.sim.machine import Machine
from moeopt.sim.model_shape import ModelShape
from moeopt.sim.presets import get_model
from moeopt.sim.quantisations import is_name, quantised
from moeopt.sim.runtimes.setting import Setting

PEAK_SHARE = 0.8
"""Share of the peak that reads of host memory reach where nobody measured it; as in the parts."""

MOST_BYTES = 2**24


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
    why_not
        Why it cannot, or is not predicted; empty if it is.
    knob, value, source
        As in the table.
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

    @property
    def curve(self) -> tuple[str, str, str, str, str]:
        """Points that differ by where the experts are, and by nothing else."""
        knob = self.knob if self.knob.startswith("kt") else ""
        return self.machine, self.model, self.bits, self.runtime, knob


def read_points(path: Path | None = None) -> list[MeasuredPoint]:
    """Return the measured points of a table; by default the one that comes with the package.

    Raises
    ------
    InputError
        If the file cannot be read, lacks a column, or names a machine or model unknown here.
    """
    if path is None:
        text = files(__package__).joinpath("points.csv").read_text("utf-8")
    else:
        text = _text(path)
    rows = csv.DictReader(io.StringIO(text))
    needed = {"machine", "preset", "bits", "runtime", "tok_s", "knob", "knob_value"}
    if missing := sorted(needed - set(rows.fieldnames or ())):
        raise InputError(f"{path}: {missing[0]}: this column is missing")
    return list(_points(rows))


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path}: is larger than {MOST_BYTES} bytes")
        return path.read_text("utf-8")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text") from None


def _points(rows: "csv.DictReader[str]") -> Iterator[MeasuredPoint]:
    for row in rows:
        name = row["machine"]
        unstated = "not stated" in row["why_not"] and "share of calls" in row["why_not"]
        setting = _setting(row) if name and not unstated else None
        yield MeasuredPoint(
            machine=name,
            group=str(_machines()[name]["group"]) if name else "",
            model=row["preset"],
            bits=row["bits"],
            runtime=row["runtime"],
            tokens_per_s=float(row["tok_s"]),
            setting=setting,
            why_not=row["why_not"],
            knob=row["knob"],
            value=row["knob_value"],
            source=row["source"],
        )


def _setting(row: dict[str, str]) -> Setting | None:
    machine = machine_called(row["machine"])
    model = _model(row["preset"], row["bits"])
    if row["top_k"]:
        model = model.model_copy(update={"top_k": int(row["top_k"])})
    context = int(row["context_tokens"] or 0)
    aware = row["runtime"] == "ktransformers"
    if row["n_cpu_moe"]:
        found = Setting.with_cpu_blocks(
            machine, model, int(row["n_cpu_moe"]), context, numa_aware=aware
        )
        share = float(row["host_calls"] or 1)
        calls = tuple(share * call for call in found.host_calls)
        return Setting(machine, model, calls, context, aware)
    if row["knob"].startswith("kt GPU expert ratio"):
        return _strategy(machine, model, row["knob"], float(row["knob_value"]) / 100)
    return None


def _strategy(machine: Machine, model: ModelShape, knob: str, ratio: float) -> Setting | None:
    """Return the setting of a strategy of ktransformers that needs no popularity."""
    layers = len(model.moe_layers)
    if "front-loading" in knob:
        full = ratio * layers
        calls = tuple(1.0 - min(1.0, max(0.0, full - layer)) for layer in range(layers))
        return Setting(machine, model, calls, 0, True)
    if "random" in knob or "uniform" in knob:
        return Setting(machine, model, (1.0 - ratio,) * layers, 0, True)
    return None


@cache
def _model(preset: str, bits: str) -> ModelShape:
    model = get_model(preset)
    return quantised(model, bits) if is_name(bits) else model.quantized(float(bits), float(bits))


@cache
def _machines() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(
        files(__package__).joinpath("machines.json").read_text("utf-8")
    )
    return found


@cache
def machine_called(name: str) -> Machine:
    """Return a machine of the table.

    Raises
    ------
    InputError
        If there is none of that name.
    """
    data = _machines().get(name)
    if data is None:
        raise InputError(f"machine: must be one of {', '.join(_machines())}, not {name!r}")
    flat = {"scale": "linear", "points": [[1, 1.0]]}
    cpu: dict[str, Any] = {"name": name, "tflops": flat}
    dram: dict[str, Any] = {"dimms": data["channels"]}
    if "host_read_gb_s" in data:
        cpu["bandwidth_gb_s"] = dram["striped_gb_s"] = float(data["host_read_gb_s"])
    elif "sockets" in data:
        sockets, local, across = data["sockets"]
        cpu["numa"] = {
            "sockets": sockets,
            "local_gb_s": float(local),
            "cross_socket_gb_s": float(across),
            "placement": "tensor-parallel",
        }
        dram["striped_gb_s"] = float(sockets * local)
    else:
        dram |= {"striped_gb_s": data["channels"] * data["speed_mt_s"] * 8 / 1e3}
        dram["efficiency"] = PEAK_SHARE
    machine: dict[str, Any] = {"name": name, "cpu": cpu, "dram": dram}
    if data["gpu"] is not None:
        gpu_name, peak, held, efficiency = data["gpu"]
        gpu = {"name": gpu_name, "peak_tflops": 100.0, "hbm_gb_s": float(peak)}
        gpu |= {"hbm_gb": float(held), "utilization": {"scale": "linear", "points": [[1, 0.6]]}}
        if efficiency is not None:
            gpu["bandwidth_efficiency"] = efficiency
        machine |= {"gpu": gpu, "pcie_gb_s": 25.0}
    return Machine.model_validate(machine | {"sources": {"machine": data["source"]}})
