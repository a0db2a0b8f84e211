"""Running a system on a setting, once: makespans of the layer and how busy the devices were."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from benchmarks.papers.trimoe.setting import FEW, Loads, Setting
from benchmarks.papers.trimoe.systems import SYSTEMS, rows
from benchmarks.rooms.systems import Simulation
from moeopt import Plan, simulate


@dataclass(frozen=True)
class Executed:
    """A system as it ran.

    Attributes
    ----------
    makespan_ns
        Of each step, Eq. 7; shape (steps, samples).
    busy
        Device -> share of the time in which it has work of its own; NDP: mean of the DIMMs,
        host reads included.
    """

    makespan_ns: Loads
    busy: dict[str, float]

    @property
    def mean_ms(self) -> float:
        """Mean makespan."""
        return float(self.makespan_ns.mean()) / 1e6


@cache
def run(system: str, setting: Setting) -> Executed:
    """Execute one of `SYSTEMS` on the loads that come, once."""
    return execute(SYSTEMS[system], setting)


def execute(system: Callable[[Setting], Plan], setting: Setting) -> Executed:
    """Execute a system's plan on the loads that come, anew."""
    counts = rows(setting)[None]
    done = simulate(system(setting), setting.machine, setting.shape, counts)
    return Executed(done.layer_ns.reshape(setting.steps, setting.samples), _busy(done))


def mean_ms(system: str, setting: Setting) -> float:
    """Return a system's mean makespan in ms."""
    return run(system, setting).mean_ms


def speedup(slow: str, fast: str, setting: Setting, slow_setting: Setting | None = None) -> float:
    """Return how many times faster the second system's mean makespan is.

    Parameters
    ----------
    slow_setting
        What the first one runs on, if that is something else.
    """
    return mean_ms(slow, slow_setting or setting) / mean_ms(fast, setting)


def optimum_gain(system: str, setting: Setting) -> float:
    """Return how many times faster the optimum is than a system, on the first `FEW` samples.

    The optimum takes some hundred times as long as a heuristic.
    """
    return speedup(system, "optimum", setting.on(samples=FEW))


def _busy(done: Simulation) -> dict[str, float]:
    used = {u.resource: u.utilisation or 0.0 for u in done.usage}
    dimms = [share for name, share in used.items() if name.startswith("DIMM ")]
    return {"gpu": used["GPU"], "cpu": used["CPU"], "ndp": float(np.mean(dimms))}
