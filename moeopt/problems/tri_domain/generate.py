"""tri_domain instances: one layer of one decode step, on a layout decided on other steps."""

from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moeopt.core.errors import InputError
from moeopt.problems.cold_cut import DEFAULT as DEFAULT_CUT
from moeopt.problems.tri_domain.expert import Expert
from moeopt.problems.tri_domain.instance import Instance
from moeopt.problems.tri_domain.layout_rule import (
    STRIPED,
    CutOption,
    cold_localized,
    expected_ndp_ns,
)
from moeopt.sim.source import FeltWhere, Record, Source, Where, made_again
from moeopt.sim.traces.windows import (
    LayerWindows,
    LayoutFrom,
    LayoutLoads,
    MemoryOptions,
    memory_fields,
    offline_steps,
    parts_ns,
)


class Options(MemoryOptions):
    """What this generator can be told besides machine, model, trace and seed."""

    felt_where: ClassVar[FeltWhere] = {
        "seed": Where(
            "of a workload, or where step is drawn",
            lambda o, s: s.workload is not None or o.step is None,
        ),
    }

    step: Annotated[
        int | None, Field(ge=1, le=2**31, description="decode step; drawn with the seed if absent")
    ] = None
    residents: Annotated[int, Field(ge=0, le=4096, description="hottest experts kept in HBM")] = 0
    cold_cut: Annotated[
        CutOption, Field(description="experts localized: 'tokens 0.08', 'experts 0.7', any number")
    ] = DEFAULT_CUT
    dimm_choice: Annotated[
        Literal["balanced", "in turn"], Field(description="how localized experts get their DIMMs")
    ] = "balanced"
    layout_from: Annotated[LayoutFrom, Field(description="what the layout is decided from")] = (
        "offline trace"
    )


def generate(source: Source, options: Options) -> Instance:
    """Return the instance of one layer in one decode step.

    The layout is decided on other steps than the one that is executed, so that it fits as well, and
    as badly, as in life: on all others, the offline trace of TriMoE 4.3, or on the one before. Of a
    workload two steps are drawn, of which the second is executed, and `OFFLINE_STEPS` more.

    Raises
    ------
    InputError
        If the trace does not fit the model or has no such step or layer.
    """
    windows = LayerWindows.of(source, options, 2, offline_steps(options.batch))
    step = _step(windows, options, source.seed)
    dimms = options.dimms or source.machine.dimm_count
    loads: LayoutLoads = {
        "last step": windows.load(step - 1).tolist(),
        "offline trace": windows.load_without([step]).tolist(),
    }
    name = source.name or _name(source, options, step)
    instance = of_load(source, options, windows.load(step), loads, name)
    decided = options.model_dump()
    decided |= {"step": step, "dimms": dimms}
    provenance = source.provenance(windows.trace, decided) | {"layout_loads": loads}
    return instance.model_copy(update={"provenance": provenance})


def of_load(
    source: Source, options: Options, now: NDArray[np.int64], loads: LayoutLoads, name: str
) -> Instance:
    """Return the instance of a given load.

    Parameters
    ----------
    now
        Tokens of every expert in the executed step, shape (experts,).
    loads
        What the layout may be decided from; `options` say which of them it is.
    """
    source = source.paced(options.ndp_rate)
    machine = source.machine
    dimms = options.dimms or machine.dimm_count
    seen = np.array(loads[options.layout_from], dtype=np.int64)
    work = None
    if options.dimm_choice == "balanced":
        work = expected_ndp_ns(source, seen, int(now.sum()))
    layout = cold_localized(seen, dimms, options.cold_cut, options.residents, work)
    active = np.flatnonzero(now)
    costs = source.costs.experts(now[active], source.quantum_ns)
    calculation, transfer = parts_ns(source, now[active])
    two_parts = options.gpu_work == "two parts"
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
                gpu_calc_ns=int(calculation[row]) if two_parts else None,
                pcie_ns=(0 if resident else transfer) if two_parts else None,
            )
        )
    return Instance(
        name=name,
        quantum_ns=source.quantum_ns,
        dimms=dimms,
        experts=tuple(rows),
        **memory_fields(source, options, dimms, int(now.sum()) // source.model.top_k),
    )


def assume(instance: Instance, assumption: str, value: str) -> Instance | None:
    """Return the same loads under another value of an assumption; see `sim.source.made_again`."""
    return made_again(
        instance, assumption, value, assumed=ASSUMED, options=Options, make=_from_record
    )


ASSUMED = (
    *("cold_cut", "dimm_choice", "layout_from"),
    *("dimm_share", "gpu_work"),
    *("residents", "dimms", "ndp_rate"),
)
"""The options that are assumptions of instances."""


def _from_record(instance: Instance, record: Record, options: Options) -> Instance | None:
    """Return the instance that a record and other options give; None if they give none."""
    if (source := record.source(instance)) is None:
        return None
    now = np.zeros(source.model.routed_experts, dtype=np.int64)
    for expert in instance.experts:
        if expert.expert >= len(now):
            return None
        now[expert.expert] = expert.tokens
    loads = record.loads(len(now))
    if options.layout_from not in loads:
        return None
    made = of_load(source, options, now, loads, instance.name)
    decided = options.model_dump()
    return made.model_copy(
        update={"provenance": (instance.provenance or {}) | {"options": decided}}
    )


def _name(source: Source, options: Options, step: int) -> str:
    where = f"layer{options.layer}-batch{options.batch}-step{step}"
    return f"{source.model.name}-{where}-seed{source.seed}"


def _step(windows: LayerWindows, options: Options, seed: int) -> int:
    available = windows.total
    if available < 2:
        trace = windows.trace
        if options.batching not in ("window", "streams"):
            raise InputError(f"batch: {trace.name} does not give two steps of {options.batch}")
        need = 2 * options.batch
        raise InputError(f"batch: needs a trace of {need} tokens, {trace.name} has {trace.tokens}")
    if options.step is None:
        return int(np.random.default_rng(seed).integers(1, available))
    if options.step >= available:
        raise InputError(f"step: must be from 1 to {available - 1}, not {options.step}")
    return options.step
