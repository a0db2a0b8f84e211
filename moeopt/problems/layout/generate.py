"""layout instances: windows of one layer, which one layout must serve."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moeopt.core.errors import InputError
from moeopt.problems.layout.instance import COSTS, Instance, Scenario
from moeopt.sim.costs.noise import with_table_noise
from moeopt.sim.source import FeltWhere, Record, Source, Where, made_again
from moeopt.sim.traces.windows import (
    LayerWindows,
    LayoutLoads,
    MemoryOptions,
    memory_fields,
    offline_steps,
    parts_ns,
    spread,
)


def _none(held_out: int) -> bool:
    """Tell whether nothing is held out: then provenance does not mention it, as it never did."""
    return held_out == 0


class Options(MemoryOptions):
    """What this generator can be told besides machine, model, trace and seed.

    The windows are `first_window`, `first_window + spacing` and so on, with weight 1 each.
    `moeopt.generate_twins` makes them and later ones, which the forecast does not see: it says so
    with `held_out`.
    """

    felt_where: ClassVar[FeltWhere] = {
        "seed": Where(
            "of a workload, where first_window is drawn, or with table_noise",
            lambda o, s: s.workload is not None or o.first_window is None or o.table_noise > 0,
        ),
        "spacing": Where(
            "between several windows, observed or held out", lambda o, _: o.windows + o.held_out > 1
        ),
    }

    windows: Annotated[int, Field(ge=1, le=256, description="windows, one scenario each")] = 1
    spacing: Annotated[int, Field(ge=1, le=2**20, description="from one window to the next")] = 1
    first_window: Annotated[
        int | None, Field(ge=0, le=2**31, description="window; drawn with the seed if absent")
    ] = None
    drawn_windows: Annotated[
        int | None,
        Field(ge=1, le=2**20, description="windows a workload draws, if not just the needed ones"),
    ] = None
    hbm_slots: Annotated[int, Field(ge=0, le=4096, description="experts that fit in HBM")] = 0
    dimm_slots: Annotated[
        int | None, Field(ge=0, le=4096, description="localized experts per DIMM; any if absent")
    ] = None
    table_noise: Annotated[
        float, Field(ge=0, le=1, description="scatter of the times, e.g. 0.03; 0 for a roofline")
    ] = 0.0
    held_out: Annotated[
        int,
        Field(ge=0, le=256, exclude_if=_none, description="next windows, which no forecast sees"),
    ] = 0
    layout_from: Annotated[
        Literal["offline trace", "last step", "none"],
        Field(description="the forecast that systems decide their layout from; none: hindsight"),
    ] = "offline trace"


def generate(source: Source, options: Options) -> Instance:
    """Return the instance of one layer in one or more windows.

    Costs of experts without tokens in a window are 0 there. The forecast, which no window of the
    instance is part of, is for rules that decide the layout before the loads are known.

    Raises
    ------
    InputError
        If the trace does not fit the model or has no such windows or layer.
    """
    after = (options.windows + options.held_out - 1) * options.spacing
    need = (options.first_window or 0) + after + 1
    low = 1 if options.layout_from == "last step" else 0
    if source.workload is None and options.drawn_windows is not None:
        raise InputError("drawn_windows: is for a workload; a trace has the windows it has")
    windows = LayerWindows.of(
        source, options, options.drawn_windows or max(need, low + 1), _offline(source, options)
    )
    first = windows.choose("first_window", options.first_window, low, after, source.seed)
    executed = [first + turn * options.spacing for turn in range(options.windows)]
    loads = [windows.load(window) for window in executed]
    end = first + options.windows * options.spacing
    later = [end + turn * options.spacing for turn in range(options.held_out)]
    seen = _layout_loads(windows, executed, later)
    if options.layout_from != "none" and options.layout_from not in seen:
        have = f"{windows.trace.name} has none"
        raise InputError(f"layout_from: needs a window besides those of the instance, {have}")
    decided: dict[str, object] = {"first_window": first, "dimms": _dimms(source, options)}
    if source.workload is not None:
        decided["drawn_windows"] = windows.total
    name = source.name or _name(source, options, first)
    instance = of_loads(source, options, loads, name, seen.get(options.layout_from))
    provenance = source.provenance(windows.trace, options.model_dump() | decided)
    return instance.model_copy(update={"provenance": provenance | {"layout_loads": seen}})


def of_loads(
    source: Source,
    options: Options,
    loads: Sequence[NDArray[np.int64]],
    name: str,
    forecast: Sequence[int] | None = None,
) -> Instance:
    """Return the instance of given loads, one scenario of weight 1 each.

    Parameters
    ----------
    loads
        Tokens of every expert, shape (experts,) each.
    forecast
        What systems decide their layout from, shape (experts,), if anything.
    """
    source = source.paced(options.ndp_rate)
    if options.table_noise:
        noise = (options.batch, options.table_noise, source.seed)
        source = replace(source, machine=with_table_noise(source.machine, source.model, *noise))
    reads = source.costs.experts(1, source.quantum_ns)
    tokens = max(int(load.sum()) for load in loads) // source.model.top_k
    dimms = _dimms(source, options)
    fields = memory_fields(source, options, dimms, tokens)
    if forecast is not None:
        fields["forecast_tokens"] = tuple(forecast)
    return Instance(
        name=name,
        quantum_ns=source.quantum_ns,
        dimms=dimms,
        hbm_slots=options.hbm_slots,
        dimm_slots=options.dimm_slots,
        experts=source.model.routed_experts,
        dram_striped_ns=reads.dram_striped_ns,
        dram_localized_ns=reads.dram_localized_ns,
        scenarios=tuple(_scenario(source, options, load) for load in loads),
        **fields,
    )


ASSUMED = (
    *("layout_from", "dimm_share", "gpu_work"),
    *("hbm_slots", "dimms", "ndp_rate"),
)
"""The options that are assumptions of instances."""


def assume(instance: Instance, assumption: str, value: str) -> Instance | None:
    """Return the same loads under another value of an assumption; see `sim.source.made_again`."""
    return made_again(
        instance, assumption, value, assumed=ASSUMED, options=Options, make=_from_record
    )


def _from_record(instance: Instance, record: Record, options: Options) -> Instance | None:
    """Return the instance that a record and other options give; None if they give none."""
    source = record.source(instance)
    if source is None or source.model.routed_experts != instance.experts:
        return None
    seen = record.loads(instance.experts)
    if options.layout_from != "none" and options.layout_from not in seen:
        return None
    loads = [np.array(scenario.tokens, dtype=np.int64) for scenario in instance.scenarios]
    made = of_loads(source, options, loads, instance.name, seen.get(options.layout_from))
    provenance = (instance.provenance or {}) | {"options": options.model_dump()}
    return made.model_copy(update={"provenance": provenance})


def _layout_loads(
    windows: LayerWindows, executed: Sequence[int], later: Sequence[int]
) -> LayoutLoads:
    """Return what a layout may be decided from, as far as the trace has it.

    Neither the windows that it is executed in nor the later ones, which are held out, are part of
    it.
    """
    offline = windows.load_without([*executed, *later])
    seen = {"offline trace": offline.tolist()} if offline.any() else {}
    if executed[0] > 0:
        seen["last step"] = windows.load(executed[0] - 1).tolist()
    return seen


def _offline(source: Source, options: Options) -> int:
    """Return how many windows a workload draws for the offline trace.

    None are drawn where nothing asks for them and they would change the windows: a workload that is
    not plain draws everything at once.
    """
    plain = source.workload is None or source.workload.is_plain
    return offline_steps(options.batch) if plain or options.layout_from == "offline trace" else 0


def _dimms(source: Source, options: Options) -> int:
    return options.dimms or source.machine.dimm_count


def _scenario(source: Source, options: Options, load: NDArray[np.int64]) -> Scenario:
    active = load > 0
    costs = source.costs.experts(load[active], source.quantum_ns)
    columns = {name: spread(getattr(costs, name), active) for name in COSTS}
    if options.gpu_work == "two parts":
        calculation, transfer = parts_ns(source, load[active])
        columns["gpu_calc_ns"] = spread(calculation, active)
        for name in ("pcie_striped_ns", "pcie_localized_ns"):
            columns[name] = spread(np.full(len(calculation), transfer), active)
    return Scenario(weight=1, tokens=tuple(load.tolist()), **columns)


def _name(source: Source, options: Options, first: int) -> str:
    where = f"layer{options.layer}-batch{options.batch}-window{first}x{options.windows}"
    return f"{source.model.name}-{where}-seed{source.seed}"
