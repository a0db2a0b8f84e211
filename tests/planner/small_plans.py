"""A model of six blocks, two of them dense, whose plans take a fraction of a second."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

import moeopt
from moeopt import get_machine
from tests.rooms.planner import Planned, Request
from tests.rooms.sim import Machine, ModelShape, Trace, get_model

GIB = 2**30

MODEL = ModelShape.model_validate(
    get_model("mixtral-8x7b").model_dump(exclude_none=True)
    | {
        "name": "small",
        "layers": 6,
        "dense_layers": 2,
        "dense_intermediate_size": 14336,
        "routed_experts": 16,
        "top_k": 4,
        "expert_intermediate_size": 2048,
    }
)
"""An expert is 48 MiB, all 64 of them 3 GiB."""


def trace_of(model: ModelShape, tokens: int, seed: int = 0, skew: float = 1.2) -> Trace:
    """Return tokens whose experts are drawn by a power law, in an order of each layer's own."""
    rng = np.random.default_rng(seed)
    layers, experts = len(model.moe_layers), model.routed_experts
    weights = np.arange(1, experts + 1.0) ** -skew
    ids = np.empty((tokens, layers, model.top_k), dtype=np.int64)
    for layer in range(layers):
        order = rng.permutation(experts)
        keys = rng.exponential(size=(tokens, experts)) / weights
        ids[:, layer] = order[np.argsort(keys, axis=1)[:, : model.top_k]]
    return Trace("drawn", ids)


def machine_of(gpu_gib: float = 6.0, host_gib: float | None = None) -> Machine:
    """Return a machine with so much memory."""
    known = get_machine("rtx4090-7960x")
    gpu = known.require("gpu").with_capacity(gpu_gib)
    host = known.require("cpu").with_memory(capacity_gib=host_gib)
    return known.with_devices(gpu, host)


def request(**changes: Any) -> Request:
    """Return a request for the small model on a GPU with room for some of its experts."""
    made = Request(
        machine=machine_of(),
        model=MODEL,
        trace=trace_of(MODEL, 120),
        steps=30,
        time_limit_s=600.0,
        joint_time_s=0.0,
        context=4096,
    )
    return replace(made, **changes)


def plan_experts(*args: Any, **given: Any) -> Planned:
    """Return all that a plan of single experts decided and executed."""
    made = moeopt.plan(*args, strategy="experts", **given).experts
    assert made is not None
    return made


def planned_for(**options: Any) -> Planned:
    """Return the plan of a small request, given as options of `moeopt.plan`."""
    common: dict[str, Any] = {"steps": 30, "time_limit_s": 600.0, "joint_time_s": 0.0}
    common["context"] = 4096
    machine = options.pop("machine", machine_of())
    model = options.pop("model", MODEL)
    trace = options.pop("trace", trace_of(MODEL, 120))
    return plan_experts(machine, model, trace, **common | options)


@cache
def planned() -> Planned:
    """Return the plan of the small request, for several tests."""
    return planned_for()
