"""layout instances: windows of one layer, which one layout must serve."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moeopt.errors import InputError
from moeopt.problems.layout.instance import COSTS, Instance, Scenario
from moeopt.sim.cost import expert_costs
from moeopt.sim.source import Source
from moeopt.sim.table_noise import with_table_noise
from moeopt.sim.windows import LayerOptions, LayerWindows, spread


class Options(LayerOptions):
    """What this generator can be told besides machine, model, trace and seed.

    The windows are `first_window`, `first_window + spacing` and so on, with weight 1 each. For a
    hold-out, generate again with the first window after them and pass the layout to
    `moeopt.sim.holdout.layout`.
    """

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


def generate(source: Source, options: Options) -> Instance:
    """Return the instance of one layer in one or more windows.

    Costs of experts without tokens in a window are 0 there.

    Raises
    ------
    InputError
        If the trace does not fit the model or has no such windows or layer.
    """
    after = (options.windows - 1) * options.spacing
    need = (options.first_window or 0) + after + 1
    if source.workload is None and options.drawn_windows is not None:
        raise InputError("drawn_windows: is for a workload; a trace has the windows it has")
    windows = LayerWindows.of(source, options, options.drawn_windows or need)
    first = windows.choose("first_window", options.first_window, 0, after, source.seed)
    machine, model = source.machine, source.model
    if options.table_noise:
        machine = with_table_noise(machine, model, options.batch, options.table_noise, source.seed)
    loads = [windows.load(first + turn * options.spacing) for turn in range(options.windows)]
    decided: dict[str, Any] = {"first_window": first, "dimms": options.dimms or machine.dram.dimms}
    if source.workload is not None:
        decided["drawn_windows"] = windows.total
    name = source.name or _name(source, options, first)
    instance = of_loads(replace(source, machine=machine), options, loads, name)
    provenance = source.provenance(windows.trace, options.model_dump() | decided)
    return instance.model_copy(update={"provenance": provenance})


def of_loads(
    source: Source, options: Options, loads: Sequence[NDArray[np.int64]], name: str
) -> Instance:
    """Return the instance of given loads, one scenario of weight 1 each.

    Parameters
    ----------
    loads
        Tokens of every expert, shape (experts,) each.
    """
    reads = expert_costs(source.machine, source.model, 1, source.quantum_ns)
    return Instance(
        name=name,
        quantum_ns=source.quantum_ns,
        dimms=options.dimms or source.machine.dram.dimms,
        hbm_slots=options.hbm_slots,
        dimm_slots=options.dimm_slots,
        experts=source.model.routed_experts,
        dram_striped_ns=reads.dram_striped_ns,
        dram_localized_ns=reads.dram_localized_ns,
        scenarios=tuple(_scenario(source, load) for load in loads),
    )


def _scenario(source: Source, load: NDArray[np.int64]) -> Scenario:
    active = load > 0
    costs = expert_costs(source.machine, source.model, load[active], source.quantum_ns)
    return Scenario(
        weight=1,
        tokens=tuple(load.tolist()),
        **{name: spread(getattr(costs, name), active) for name in COSTS},
    )


def _name(source: Source, options: Options, first: int) -> str:
    where = f"layer{options.layer}-batch{options.batch}-window{first}x{options.windows}"
    return f"{source.model.name}-{where}-seed{source.seed}"
