"""relayout instances: what may migrate before a step whose loads are predicted."""

from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moeopt.core.errors import InputError
from moeopt.problems.cold_cut import DEFAULT as DEFAULT_CUT
from moeopt.problems.relayout.instance import COSTS, TWO_PARTS, Expert, Instance
from moeopt.problems.tri_domain.layout_rule import (
    STRIPED,
    CutOption,
    Layout,
    cold_localized,
    expected_ndp_ns,
)
from moeopt.sim.costs.quanta import to_quanta
from moeopt.sim.source import FeltWhere, Record, Source, Where, made_again
from moeopt.sim.traces.predictor import ALPHA, predict_run
from moeopt.sim.traces.windows import (
    LayerWindows,
    LayoutFrom,
    LayoutLoads,
    MemoryOptions,
    memory_fields,
    offline_steps,
    parts_ns,
    spread,
    to_ns,
)


class Options(MemoryOptions):
    """What this generator can be told besides machine, model, trace and seed.

    TriMoE 5.5 hides "the ~0.63 ms cost of migrating up to four experts" behind "~0.68 ms" of
    computation, whatever the model: hence the default of `link_window_us`. A move takes a quarter
    of the 0.63 ms by default if all share one link (``link_sum="serial"``), all of it if four moves
    between different DIMMs run side by side ("per link"). One 25 GB/s link would take 1.4 to 1.9 ms
    for one expert, which neither explains. The paper gives no figure for prefetches:
    ``windows="two"`` leaves them a window that fits `prefetches` of them.
    """

    felt_where: ClassVar[FeltWhere] = {
        "seed": Where(
            "of a workload, or where step is drawn",
            lambda o, s: s.workload is not None or o.step is None,
        ),
        "layout_steps": Where(
            "where layout_from is earlier steps", lambda o, _: o.layout_from == "earlier steps"
        ),
        "prefetches": Where("where windows is two", lambda o, _: o.windows == "two"),
    }

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
    cold_cut: Annotated[
        CutOption, Field(description="experts localized: 'tokens 0.08', 'experts 0.7', any number")
    ] = DEFAULT_CUT
    dimm_choice: Annotated[
        Literal["balanced", "in turn"], Field(description="to which DIMM each cold expert goes")
    ] = "balanced"
    layout_from: Annotated[
        Literal[LayoutFrom, "earlier steps"],
        Field(description="what the layout is decided from; 'earlier steps': see layout_steps"),
    ] = "offline trace"
    hbm_free_slots: Annotated[int, Field(ge=0, le=4096, description="room for prefetches")] = 2
    windows: Annotated[
        Literal["one", "two"],
        Field(description="one: link_window_us on both links; two: PCIe has room for prefetches"),
    ] = "one"
    prefetches: Annotated[
        int, Field(ge=0, le=4096, description="prefetches that fit into PCIe's own window")
    ] = 2
    link_sum: Annotated[
        Literal["serial", "per link"],
        Field(description="whether moves between different DIMMs wait for each other"),
    ] = "serial"
    link_move_us: Annotated[
        float | None,
        Field(ge=0, le=1e9, description="link time of one move, in us; by default 157.5 or 630"),
    ] = None
    link_window_us: Annotated[
        float, Field(ge=0, le=1e9, description="how long DIMM-Link is free, in us")
    ] = 680.0

    @property
    def move_us(self) -> float:
        """DIMM-Link time of one move, in us; see the class."""
        if self.link_move_us is not None:
            return self.link_move_us
        return 157.5 if self.link_sum == "serial" else 630.0


ASSUMED = (
    *("windows", "link_sum", "cold_cut", "dimm_choice", "layout_from"),
    *("dimm_share", "channels", "gpu_base", "gpu_work"),
    *("residents", "dimms", "ndp_rate"),
)
"""The options that are assumptions of instances."""


def generate(source: Source, options: Options) -> Instance:
    """Return the instance of one layer before one decode step.

    The layout is decided on other steps than the one that runs (`cold_localized`): on all others,
    the offline trace of TriMoE 4.3, or on earlier ones. The predictor (Eq. 8) has seen the history
    and nothing of the step that runs. Predictions are rounded to whole tokens. With
    ``loads="actual"`` everything is the same but the tokens and their costs.

    Raises
    ------
    InputError
        If the trace does not fit the model or has no such steps or layer.
    """
    if options.layout_steps > options.history:
        raise InputError(
            f"layout_steps: must be at most history = {options.history}, not {options.layout_steps}"
        )
    drawn = (options.step or options.history) + 1
    windows = LayerWindows.of(source, options, drawn, offline_steps(options.batch))
    step = windows.choose("step", options.step, options.history, 0, source.seed)
    run = np.array([windows.load(at) for at in range(step - options.history, step + 1)])
    loads: LayoutLoads = {
        "offline trace": windows.load_without([step]).tolist(),
        "last step": run[-2].tolist(),
        "earlier steps": run[: options.layout_steps].sum(axis=0).tolist(),
    }
    tokens = run[-1] if options.loads == "actual" else _predicted(run, options.alpha)
    dimms = options.dimms or source.machine.dimm_count
    name = source.name or _name(source, options, step)
    layout = _decided(source, options, loads)
    instance = on_layout(source, options, tokens, layout, name)
    decided = options.model_dump()
    decided |= {"step": step, "dimms": dimms}
    provenance = source.provenance(windows.trace, decided) | {"layout_loads": loads}
    return instance.model_copy(update={"provenance": provenance})


def _decided(source: Source, options: Options, loads: LayoutLoads) -> Layout:
    """Return the layout of the options, the same for predicted and for actual loads."""
    source = source.paced(options.ndp_rate)
    seen = np.array(loads[options.layout_from], dtype=np.int64)
    work = None
    if options.dimm_choice == "balanced":
        work = expected_ndp_ns(source, seen, options.batch * source.model.top_k)
    dimms = options.dimms or source.machine.dimm_count
    return cold_localized(seen, dimms, options.cold_cut, options.residents, work)


def assume(instance: Instance, assumption: str, value: str) -> Instance | None:
    """Return the same loads under another value of an assumption; see `sim.source.made_again`."""
    return made_again(
        instance, assumption, value, assumed=ASSUMED, options=Options, make=_from_record
    )


def _from_record(instance: Instance, record: Record, options: Options) -> Instance | None:
    """Return the instance that a record and other options give; None if they give none."""
    if (source := record.source(instance)) is None:
        return None
    tokens = np.array([expert.tokens for expert in instance.experts], dtype=np.int64)
    loads = record.loads(len(tokens))
    if options.layout_from not in loads or len(tokens) != source.model.routed_experts:
        return None
    layout = _decided(source, options, loads)
    made = on_layout(source, options, tokens, layout, instance.name)
    stated = {"options": options.model_dump()}
    return made.model_copy(update={"provenance": (instance.provenance or {}) | stated})


def on_layout(
    source: Source,
    options: Options,
    tokens: NDArray[np.int64],
    layout: Layout,
    name: str,
) -> Instance:
    """Return the instance of given loads on a given layout, with the windows of the options.

    Parameters
    ----------
    tokens
        Tokens of every expert, predicted or real, shape (experts,).
    layout
        Where the experts lie before the migrations.
    """
    source = source.paced(options.ndp_rate)
    machine, quantum = source.machine, source.quantum_ns
    dimms = options.dimms or machine.dimm_count
    reads = source.costs.experts(1, quantum)
    move = int(to_quanta(options.move_us * 1000, quantum))
    prefetch = source.costs.transfer_ns(quantum)
    window = to_ns(options.link_window_us, "link_window_us")
    newer = memory_fields(source, options, dimms, options.batch)
    if options.link_sum == "per link":
        newer["relayout_share_ns"] = min(int(to_quanta(move / dimms, quantum)), move)
    return Instance(
        name=name,
        quantum_ns=quantum,
        dimms=dimms,
        hbm_free_slots=options.hbm_free_slots,
        dram_striped_ns=reads.dram_striped_ns,
        dram_localized_ns=reads.dram_localized_ns,
        prefetch_ns=prefetch,
        relayout_ns=move,
        rebalance_ns=move,
        pcie_window_ns=window if options.windows == "one" else options.prefetches * prefetch,
        dimm_link_window_ns=window,
        experts=_experts(source, options, tokens, layout),
        **newer,
    )


def _experts(
    source: Source, options: Options, tokens: NDArray[np.int64], layout: Layout
) -> tuple[Expert, ...]:
    active = tokens > 0
    costs = source.costs.experts(tokens[active], source.quantum_ns)
    columns = [spread(getattr(costs, name), active) for name in COSTS]
    parts: list[dict[str, int]] = [{}] * len(tokens)
    if options.gpu_work == "two parts":
        computation, transfer = parts_ns(source, tokens[active])
        parts = [
            dict(zip(TWO_PARTS, (own, moved, moved), strict=True))
            for own, moved in zip(
                spread(computation, active), (transfer * active).tolist(), strict=True
            )
        ]
    return tuple(
        Expert(
            expert=expert,
            tokens=int(tokens[expert]),
            resident=bool(layout.resident[expert]),
            dimm=None if layout.dimm[expert] == STRIPED else int(layout.dimm[expert]),
            **{name: column[expert] for name, column in zip(COSTS, columns, strict=True)},
            **parts[expert],
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
