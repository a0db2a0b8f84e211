"""tri_domain instances: one layer of one decode step, on a layout decided one step earlier."""

from typing import Annotated

import numpy as np
from pydantic import Field

from moeopt.errors import InputError
from moeopt.problems.envelope import Frozen
from moeopt.problems.tri_domain.instance import Expert, Instance
from moeopt.sim.batching import Batching, step_tokens, steps
from moeopt.sim.cost import expert_costs
from moeopt.sim.layout_rule import STRIPED, cold_localized
from moeopt.sim.source import Source
from moeopt.sim.trace import Trace


class Options(Frozen):
    """What this generator can be told besides machine, model, trace and seed."""

    batch: Annotated[int, Field(ge=1, le=2**16, description="tokens in the decode step")] = 256
    layer: Annotated[int, Field(ge=0, le=4096, description="layer of the trace, from 0")] = 0
    step: Annotated[
        int | None, Field(ge=1, le=2**31, description="decode step; drawn with the seed if absent")
    ] = None
    batching: Annotated[
        Batching, Field(description="how tokens make up a step; see moeopt.sim.batching")
    ] = "window"
    residents: Annotated[int, Field(ge=0, le=4096, description="hottest experts kept in HBM")] = 0
    cold_share: Annotated[float, Field(ge=0, le=1, description="share of experts localized")] = 0.7
    dimms: Annotated[
        int | None, Field(ge=1, le=1024, description="DIMMs, if not the machine's number")
    ] = None


def generate(source: Source, options: Options) -> Instance:
    """Return the instance of one layer in one decode step.

    The layout is decided on the step before the one that is executed, so that it fits as well, and
    as badly, as in life.

    Raises
    ------
    InputError
        If the trace does not fit the model or has no such step or layer.
    """
    trace = source.trace_of(options.batch)
    machine, model = source.machine, source.model
    if source.workload is not None and options.batching != "window":
        raise InputError("batching: must be window for a workload, which is drawn step by step")
    if options.layer >= trace.layers:
        raise InputError(f"layer: must be below {trace.layers}, not {options.layer}")
    step = _step(trace, options, source.seed)
    experts = model.routed_experts
    before, now = (
        trace.counts(
            step_tokens(trace, options.batch, at, options.batching), options.layer, experts
        )
        for at in (step - 1, step)
    )
    dimms = options.dimms or machine.dram.dimms
    layout = cold_localized(before, dimms, options.cold_share, options.residents)
    active = np.flatnonzero(now)
    costs = expert_costs(machine, model, now[active], source.quantum_ns)
    rows = []
    for row, expert in enumerate(active.tolist()):
        resident, dimm = bool(layout.resident[expert]), int(layout.dimm[expert])
        striped = dimm == STRIPED
        miss = costs.gpu_miss_striped_ns if striped else costs.gpu_miss_localized_ns
        cpu = costs.cpu_striped_ns if striped else costs.cpu_localized_ns
        dram = costs.dram_striped_ns if striped else costs.dram_localized_ns
        rows.append(
            Expert(
                expert=expert,
                tokens=int(now[expert]),
                resident=resident,
                dimm=None if striped else dimm,
                gpu_ns=int((costs.gpu_hit_ns if resident else miss)[row]),
                cpu_ns=int(cpu[row]),
                ndp_ns=None if striped else int(costs.ndp_ns[row]),
                gpu_dram_ns=0 if resident else dram,
                cpu_dram_ns=dram,
            )
        )
    decided = options.model_dump() | {"step": step, "dimms": dimms}
    return Instance(
        name=source.name or _name(source, options, step),
        provenance=source.provenance(trace, decided),
        quantum_ns=source.quantum_ns,
        dimms=dimms,
        experts=tuple(rows),
    )


def _name(source: Source, options: Options, step: int) -> str:
    where = f"layer{options.layer}-batch{options.batch}-step{step}"
    return f"{source.model.name}-{where}-seed{source.seed}"


def _step(trace: Trace, options: Options, seed: int) -> int:
    available = steps(trace, options.batch, options.batching)
    if available < 2:
        if options.batching not in ("window", "streams"):
            raise InputError(f"batch: {trace.name} does not give two steps of {options.batch}")
        need = 2 * options.batch
        raise InputError(f"batch: needs a trace of {need} tokens, {trace.name} has {trace.tokens}")
    if options.step is None:
        return int(np.random.default_rng(seed).integers(1, available))
    if options.step >= available:
        raise InputError(f"step: must be from 1 to {available - 1}, not {options.step}")
    return options.step
