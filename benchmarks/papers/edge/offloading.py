"""The paper's baselines without near-data processing, run by the engine (IV-A)."""

from functools import cache
from typing import Literal

import numpy as np

from benchmarks.papers.collaborative.baselines import fiddler_plan, on_demand_plan
from benchmarks.papers.edge.cases import machine_name
from benchmarks.rooms.sim import Trace, get_model
from moeopt import get_machine, simulate

Offloading = Literal["MoE-OnDemand", "Fiddler"]


@cache
def layer_ns(system: Offloading, model: str, units: int) -> int:
    """Return the time of the experts of one layer of one decoded token.

    No routed expert is on the GPU, as the paper has it: MoE-OnDemand copies the active ones over
    PCIe, Fiddler computes them on the CPU, bound by its memory. Shared experts are on the GPU.
    """
    shape = get_model(model)
    nothing = np.zeros((1, shape.routed_experts), dtype=np.int64)
    plan = on_demand_plan() if system == "MoE-OnDemand" else fiddler_plan(nothing, 0)
    trace = Trace("one token", np.arange(shape.top_k)[None, None])
    ran = simulate(plan, get_machine(machine_name(units)), shape, trace, quantum_ns=1)
    return int(ran.step_ns[0])
