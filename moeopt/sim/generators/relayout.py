"""relayout instances: what may migrate before a step whose loads are predicted."""

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moeopt.errors import InputError
from moeopt.problems.relayout.instance import COSTS, Expert, Instance
from moeopt.sim.cost import NS_PER_S, expert_costs, to_quanta, transfer_s
from moeopt.sim.layout_rule import STRIPED, Layout, cold_localized
from moeopt.sim.predictor import ALPHA, predict_run
from moeopt.sim.source import Source
from moeopt.sim.windows import LayerOptions, LayerWindows, spread, to_ns


class Options(LayerOptions):
    """What this generator can be told besides machine, model, trace and seed.

    TriMoE 5.5 hides "the ~0.63 ms cost of migrating up to four experts" behind "~0.68 ms" of
    computation, whatever the model: hence the defaults of `link_move_us` and `link_window_us`,
    which let four moves fit. One 25 GB/s link would take 1.4 to 1.9 ms for one expert, so the paper
    must mean that several links share a move. It gives no figure for prefetches: by default two
    fit.
    """

    step: Annotated[
        int | None, Field(ge=1, le=2**31, description="step that runs; drawn if absent")
    ] = None
    history: Annotated[
        int, Field(ge=1, le=2**20, description="steps before it that the predictor has seen")
    ] = 8
    layout_steps: Annotated[
        int, Field(ge=1, le=2**20, description="first steps of these, which decide the layout")
    ] = 1
    alpha: Annotated[float, Field(ge=1e-6, le=1, description="weight of the newest step")] = ALPHA
    loads: Annotated[
        Literal["predicted", "actual"],
        Field(description="loads of the instance: predicted, or those that come"),
    ] = "predicted"
    residents: Annotated[int, Field(ge=0, le=4096, description="hottest experts kept in HBM")] = 0
    cold_share: Annotated[float, Field(ge=0, le=1, description="share of experts localized")] = 0.7
    hbm_free_slots: Annotated[int, Field(ge=0, le=4096, description="room for prefetches")] = 2
    prefetches: Annotated[
        int, Field(ge=0, le=4096, description="prefetches that the PCIe window is long enough for")
    ] = 2
    link_move_us: Annotated[
        float, Field(ge=0, le=1e9, description="DIMM-Link time of one move, in us")
    ] = 157.5
    link_window_us: Annotated[
        float, Field(ge=0, le=1e9, description="how long DIMM-Link is free, in us")
    ] = 680.0


def generate(source: Source, options: Options) -> Instance:
    """Return the instance of one layer before one decode step.

    The layout was decided on the first steps of the history (`cold_localized`); the predictor
    (Eq. 8) has seen all of it and nothing of the step that runs. Predictions are rounded to whole
    tokens. With ``loads="actual"`` everything is the same but the tokens and their costs.

    Raises
    ------
    InputError
        If the trace does not fit the model or has no such steps or layer.
    """
    if options.layout_steps > options.history:
        raise InputError(
            f"layout_steps: must be at most history = {options.history}, not {options.layout_steps}"
        )
    windows = LayerWindows.of(source, options, (options.step or options.history) + 1)
    step = windows.choose("step", options.step, options.history, 0, source.seed)
    run = np.array([windows.load(at) for at in range(step - options.history, step + 1)])
    dimms = options.dimms or source.machine.dram.dimms
    seen = run[: options.layout_steps].sum(axis=0)
    layout = cold_localized(seen, dimms, options.cold_share, options.residents)
    tokens = run[-1] if options.loads == "actual" else _predicted(run, options.alpha)
    decided = options.model_dump() | {"step": step, "dimms": dimms}
    name = source.name or _name(source, options, step)
    instance = on_layout(source, options, tokens, layout, name)
    provenance = source.provenance(windows.trace, decided)
    return instance.model_copy(update={"provenance": provenance})


def on_layout(
    source: Source, options: Options, tokens: NDArray[np.int64], layout: Layout, name: str
) -> Instance:
    """Return the instance of given loads on a given layout, with the windows of the options.

    Parameters
    ----------
    tokens
        Tokens of every expert, predicted or real, shape (experts,).
    layout
        Where the experts lie before the migrations.
    """
    machine, model, quantum = source.machine, source.model, source.quantum_ns
    reads = expert_costs(machine, model, 1, quantum)
    move = int(to_quanta(options.link_move_us * 1000, quantum))
    prefetch = int(to_quanta(transfer_s(machine, model) * NS_PER_S, quantum))
    return Instance(
        name=name,
        quantum_ns=quantum,
        dimms=options.dimms or machine.dram.dimms,
        hbm_free_slots=options.hbm_free_slots,
        dram_striped_ns=reads.dram_striped_ns,
        dram_localized_ns=reads.dram_localized_ns,
        prefetch_ns=prefetch,
        relayout_ns=move,
        rebalance_ns=move,
        pcie_window_ns=options.prefetches * prefetch,
        dimm_link_window_ns=to_ns(options.link_window_us, "link_window_us"),
        experts=_experts(source, tokens, layout),
    )


def _experts(source: Source, tokens: NDArray[np.int64], layout: Layout) -> tuple[Expert, ...]:
    active = tokens > 0
    costs = expert_costs(source.machine, source.model, tokens[active], source.quantum_ns)
    columns = [spread(getattr(costs, name), active) for name in COSTS]
    return tuple(
        Expert(
            expert=expert,
            tokens=int(tokens[expert]),
            resident=bool(layout.resident[expert]),
            dimm=None if layout.dimm[expert] == STRIPED else int(layout.dimm[expert]),
            **{name: column[expert] for name, column in zip(COSTS, columns, strict=True)},
        )
        for expert in range(len(tokens))
    )


def _predicted(run: NDArray[np.int64], alpha: float) -> NDArray[np.int64]:
    """Return what is expected of the last step of a run, shape (experts,), in whole tokens."""
    expected = np.rint(predict_run(run[:, None, :], alpha)[-1, 0])
    return np.asarray(expected, dtype=np.int64)


def _name(source: Source, options: Options, step: int) -> str:
    where = f"layer{options.layer}-batch{options.batch}-step{step}-{options.loads}"
    return f"{source.model.name}-{where}-seed{source.seed}"
