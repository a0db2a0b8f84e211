"""What TriMoE's figures are run on: machine, model, loads, and what the paper leaves open."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.rooms.sim import Machine, ModelShape, Source, Workload, find, get_model
from benchmarks.rooms.systems import loads_of_workload
from moeopt import get_machine, set_machine

Loads = NDArray[np.int64]

MODELS = ("deepseek-v2", "qwen3-235b-a22b", "glm-4.5-air")
"""TriMoE Table 2, in its order."""

BATCHES = (256, 512, 768)
"""The range of 5.1.3; the middle one is that of the ablation (5.3)."""

MEASURED_HOST_EFFICIENCY = 0.716
"""220 GB/s measured where 307.2 are nominal: KTransformers 2.3, the same memory per socket."""

SAMPLES = 8

LAST = 4
"""Steps of the warm-up that `offline_loads` takes as the last ones."""

FEW = 2
"""Samples where a figure needs many runs; each of the seeds has as many."""


OfflineLoads = Literal["steps", "last four steps", "mean"]

Changes = Mapping[str, float | str]
"""Fields of `Setting` and their values."""


@dataclass(frozen=True)
class Setting:
    """A workload on a machine. The defaults are the paper's numbers, and assumed where it has none.

    Attributes
    ----------
    model, batch
        A preset of Table 2, and tokens in a decode step.
    samples
        Layers that are run, each with a popularity of its own: independent repetitions.
    warm_up, steps
        Steps that the offline layout and the predictor see, and steps that count after them.
    dimms, one_gb_s
        How many DIMMs with NDP, and what a host reads from one of them. One DDR5-4800 channel has
        38.4 GB/s: 8 of them are the 307.2 of Table 1, 4 ranks the 153.6 of an NDP unit.
    cpu_scale, ndp_scale
        In place of the CPU's and the NDP units' rate, that many times it.
    host_efficiency
        Share of the nominal bandwidth that host reads reach.
    residents
        Routed experts per layer that stay in the GPU's memory; 4.1 has all of them in DIMMs.
    skew, drift
        Of the synthetic routing: None for that of the preset "trimoe-skew".
    cold_share
        Share of the experts that the offline layout localizes; None for the best on earlier steps.
    offline_loads
        What the share is optimised on: every step of the warm-up, its last four, or the mean of
        all.
    seed
        Of the loads.
    tie_order, refinement
        Assumptions of TriMoE's scheduler (`moeopt.problems.tri_domain.assumptions`), at their
        defaults: of a localized expert's equal costs the CPU's is taken before the GPU's, and one
        candidate is tried in each iteration.
    migrations
        The heuristic of the problem `relayout` that stands for 4.3, by default the paper's at its
        default assumptions.
    windows, link_sum
        Assumptions of what fits before a step (`moeopt.problems.relayout.assumptions`).
    """

    model: str
    batch: int = 512
    samples: int = SAMPLES
    warm_up: int = 8
    steps: int = 4
    dimms: int = 16
    one_gb_s: float = 38.4
    cpu_scale: float = 1.0
    ndp_scale: float = 1.0
    host_efficiency: float = 1.0
    residents: int = 0
    skew: float | None = None
    drift: float | None = None
    cold_share: float | None = None
    offline_loads: OfflineLoads = "steps"
    seed: int = 0
    tie_order: str = "cpu"
    refinement: str = "one"
    migrations: str = "benefit-greedy"
    windows: Literal["one", "two"] = "one"
    link_sum: Literal["serial", "per link"] = "serial"

    @cached_property
    def machine(self) -> Machine:
        """The machine of Table 1, with this setting's changes."""
        base = get_machine("trimoe")
        changes = {
            "dram.count": self.dimms,
            "dram.one_gb_s": self.one_gb_s,
            "dram.reached": self.host_efficiency,
        }
        changed = set_machine(base, changes).with_ndp_rate(self.ndp_scale)
        host = changed.require("cpu")
        kernels = host.only("cpu").scaled(self.cpu_scale).kernels
        return changed.with_devices(host.with_part("cpu", kernels=kernels))

    @cached_property
    def shape(self) -> ModelShape:
        """The model."""
        return get_model(self.model)

    @cached_property
    def workload(self) -> Workload:
        """The routing law."""
        given = {"skew": self.skew, "drift": self.drift}
        law = find("workloads", Workload, "trimoe-skew")
        return law.model_copy(update={k: v for k, v in given.items() if v is not None})

    @property
    def source(self) -> Source:
        """What the instance generators start from."""
        return Source(self.machine, self.shape, workload=self.workload, seed=self.seed)

    @property
    def loads(self) -> Loads:
        """Tokens by step, sample and expert: first the warm-up, then the steps that count."""
        total = self.warm_up + self.steps
        return _drawn(self.workload, self.model, self.batch, total, self.samples, self.seed)

    @property
    def came(self) -> Loads:
        """The loads of the steps that count."""
        return self.loads[self.warm_up :]

    @cached_property
    def mean_load(self) -> Loads:
        """What offline trace analysis knows: mean loads, up to whole tokens, by sample."""
        mean = self.loads[: self.warm_up].mean(axis=0)
        return np.asarray(np.ceil(mean), dtype=np.int64)

    @property
    def earlier(self) -> Loads:
        """What the offline layout is optimised on, shape (samples, steps, experts)."""
        if self.offline_loads == "mean":
            return self.mean_load[:, None]
        first = 0 if self.offline_loads == "steps" else self.warm_up - LAST
        return self.loads[max(first, 0) : self.warm_up].swapaxes(0, 1)

    def on(self, **changes: float | str) -> "Setting":
        """Return the setting with some changes."""
        return replace(self, **changes)  # type: ignore[arg-type]


@cache
def _drawn(
    workload: Workload, model: str, batch: int, steps: int, samples: int, seed: int
) -> Loads:
    return loads_of_workload(workload, get_model(model), batch, steps, samples, seed).counts
