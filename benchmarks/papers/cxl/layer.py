"""A layer of one decoded token, run by the engine under the plan of each system (5.1, 5.2)."""

from functools import cache
from typing import Literal

import numpy as np

from benchmarks.rooms.sim import (
    Assignment,
    Trace,
    get_model,
    step_costs,
)
from moeopt import Plan, get_machine, simulate

System = Literal["context-aware", "MoNDE", "HOBBIT"]


def context_aware(model: str, bits: float) -> Plan:
    """Return the paper's plan: hot experts on the GPU in FP16, the others on NDP, narrower.

    Every expert on NDP has the average width. Prefix split gives more bits to those in use more
    often, which the paper's average leaves out as well.
    """
    experts, hot = get_model(model).routed_experts, HOT[model]
    return Plan(
        name="context-aware",
        resident=(tuple(range(hot)),),
        layout=((0,) * experts,),
        assignments=(Assignment(layer=0, gpu=tuple(range(hot)), ndp=tuple(range(hot, experts))),),
        bits=((FULL,) * hot + (bits,) * (experts - hot),),
    )


def monde(model: str) -> Plan:
    """Return MoNDE's plan: every expert on the one NDP device in FP16.

    MoNDE moves experts whose transfer takes no longer than computing them where they lie; over this
    link a transfer takes sixteen times as long, so none is moved. Migrations by history, which the
    paper speaks of, would make it slower and are not stated.
    """
    experts = get_model(model).routed_experts
    return Plan(
        name="MoNDE",
        layout=((0,) * experts,),
        assignments=(Assignment(layer=0, ndp=tuple(range(experts))),),
        bits=((FULL,),),
    )


def hobbit(model: str) -> Plan:
    """Return a plan like HOBBIT's: the GPU alone, what it lacks is loaded in fewer bits.

    HOBBIT (arXiv 2411.01433) loads missing experts of little weight in low precision. Assumed: the
    GPU holds as many experts as in the paper's system, and every other one is loaded in 4 bits,
    which is the fastest that HOBBIT can be. Each takes the longer of its copy and its computation.
    """
    experts, hot = get_model(model).routed_experts, HOT[model]
    return Plan(
        name="HOBBIT-like",
        resident=(tuple(range(hot)),),
        policy="gpu-only",
        gpu_work="one path",
        bits=((FULL,) * hot + (HOBBIT_BITS,) * (experts - hot),),
    )


@cache
def layer_ns(
    model: str,
    bits: float,
    on_gpu: int,
    system: System = "context-aware",
    fixed_us: float | None = 0.0,
) -> int:
    """Return the time of a layer for a token of whose experts so many are hot.

    Parameters
    ----------
    model
        A preset's name.
    bits
        Average width on the NDP device, in the context-aware system.
    on_gpu
        How many of the token's experts are among those that the GPU holds, if it holds any.
    fixed_us
        What is added to attention, whose bytes take what the GPU's bandwidth allows; None leaves
        out attention, too.
    """
    shape, machine = get_model(model), get_machine(MACHINE)
    hot = HOT[model]
    token = [*range(on_gpu), *range(hot, hot + shape.top_k - on_gpu)]
    extra = 0
    if fixed_us is not None:
        attention = step_costs(machine, shape).layer(quantum_ns=1).attention_ns
        extra = attention + round(1e3 * fixed_us)
    ran = simulate(
        _plan(system, model, bits),
        machine,
        shape,
        Trace("one token", np.array(token)[None, None]),
        attention_ns=extra,
        quantum_ns=1,
    )
    return int(ran.step_ns[0])


def _plan(system: System, model: str, bits: float) -> Plan:
    if system == "context-aware":
        return context_aware(model, bits)
    return monde(model) if system == "MoNDE" else hobbit(model)


MACHINE = "cxl-ndp"

HOT = {"mixtral-8x7b": 4, "mixtral-8x22b": 2}
"""Experts of a layer on the GPU, in FP16, by model."""

FULL = 16.0
"""Bits of FP16."""

WIDTHS = (3.0, 2.0)
"""Average bits of the experts on the NDP device: Ours-3bit and Ours-2bit."""

HOBBIT_BITS = 4.0
"""Bits in which a HOBBIT-like system loads an expert that is not on the GPU."""
