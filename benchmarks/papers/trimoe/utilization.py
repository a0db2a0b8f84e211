"""T8 to T11: how busy each device is (Table 3), which the paper does not define."""

from collections.abc import Sequence
from functools import cache

import numpy as np

from benchmarks.papers.figure import Ours
from benchmarks.papers.seeds import SEEDS, over_seeds
from benchmarks.papers.trimoe.ablation import LOADS
from benchmarks.papers.trimoe.executed import run
from benchmarks.papers.trimoe.setting import FEW, MEASURED_HOST_EFFICIENCY, MODELS, Setting
from benchmarks.papers.trimoe.systems import SYSTEMS, rows
from benchmarks.rooms.sim import (
    ComputeKind,
    step_costs,
)
from moeopt import simulate

DEVICES: tuple[ComputeKind, ...] = ("gpu", "cpu", "ndp")

FIRST_DIMM = 2
"""The engine's resources are GPU, CPU and then the DIMMs."""

DEFINITION = "as time spent computing over the makespan, mean of three models at batch 512,"
UNDEFINED = 'the paper does not define "compute utilization";'


def t8() -> Ours:
    """GPU, CPU and NDP units under TriMoE."""
    return _ours("trimoe", DEVICES, optimum="optimal-schedule")


def t9() -> Ours:
    """Return Klotski's GPU utilization."""
    note = "3.1 says below 8.6 % for a GPU that loads warm experts, which is in line with ours"
    return _ours("klotski", ("gpu",), note)


def t10() -> Ours:
    """KTransformers: GPU and CPU."""
    slow = _mean("ktransformers", "cpu", SEEDS[0], MEASURED_HOST_EFFICIENCY)
    note = f"with the bandwidth that KTransformers measures (2.3) the CPU has {slow:.2f}"
    return _ours("ktransformers", ("gpu", "cpu"), note)


def t11() -> Ours:
    """MoNDE: GPU and NDP units."""
    return _ours("monde", ("gpu", "ndp"))


def _ours(
    system: str, devices: tuple[ComputeKind, ...], note: str = "", optimum: str | None = None
) -> Ours:
    settings = [Setting(m, samples=FEW, seed=SEEDS[0]) for m in MODELS]
    busy = [np.mean([run(system, s).busy[d] for s in settings]) for d in devices]
    found = over_seeds(lambda seed: [_mean(system, device, seed) for device in devices])
    said = [f"{UNDEFINED} {DEFINITION} it is {_shares(found.values)}"]
    said.append(f"with a device counted as busy while it waits for weights {_shares(busy)}")
    if optimum is not None:
        best = [_mean(optimum, device, SEEDS[0]) for device in devices]
        said.append(f"under the best schedule {_shares(best)}")
    said += [note] if note else []
    return Ours((None,) * len(devices), "assumed", (LOADS,), "; ".join(said))


def _shares(values: Sequence[float | None]) -> str:
    return " / ".join("-" if value is None else f"{value:.2f}" for value in values)


def _mean(system: str, device: ComputeKind, seed: int, efficiency: float = 1.0) -> float:
    settings = (
        Setting(model, samples=FEW, seed=seed, host_efficiency=efficiency) for model in MODELS
    )
    return float(np.mean([computing(system, setting)[device] for setting in settings]))


@cache
def computing(system: str, setting: Setting) -> dict[ComputeKind, float]:
    """Return the share of the time in which each device computes; NDP: mean of the DIMMs.

    From the engine's timeline: what every expert's tokens take on the device that ran it, without
    the time for its weights.
    """
    plan = SYSTEMS[system](setting)
    counts = rows(setting)
    done = simulate(plan, setting.machine, setting.shape, counts[None], timeline=True)
    seconds: dict[ComputeKind, float] = dict.fromkeys(DEVICES, 0.0)
    for bundle in () if done.timeline is None else done.timeline.bundles:
        if bundle.kind == "expert":
            device = DEVICES[min(int(np.min(bundle.resource)), FIRST_DIMM)]
            tokens = counts[int(bundle.label.split()[-1]), bundle.number]
            took = step_costs(setting.machine, setting.shape).computation_s(device, tokens)
            seconds[device] += float(took.sum())
    span = done.makespan_ns / 1e9
    units: dict[ComputeKind, int] = {"gpu": 1, "cpu": 1, "ndp": setting.dimms}
    return {device: seconds[device] / (span * units[device]) for device in DEVICES}
