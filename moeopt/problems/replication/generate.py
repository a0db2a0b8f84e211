"""replication instances: one layer's loads in windows, and the devices that share its experts.

What reading an expert and computing a token take on a GPU, fitted to measured kernels.

``python benchmarks/studies/replication_kernel.py fit --data DIR`` fits them to half of the measured
configurations and holds them to the other half: a rank's time is a launch, which all configurations
share, the larger of readings and tokens' computing, and what tokens take besides, each in
proportion to an expert's weights. Source of the measurements: github.com/ai-dynamo/aiconfigurator
at 095f58a, ``systems/data`` (Apache-2.0): TensorRT-LLM 1.3.0rc10, experts in FP8 by CUTLASS, two to
256 ranks of H100; SGLang 0.5.10 on one A100, BF16 by Triton and INT4 by Marlin; 1 to 16,384 tokens.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moeopt.core.errors import InputError
from moeopt.sim.presets import get_model, names
from moeopt.sim.source import FeltWhere, Record, Source, Where
from moeopt.sim.traces.count_sample import UNKNOWN
from moeopt.sim.traces.trace import Trace
from moeopt.sim.traces.windows import LayerWindows, WindowOptions

from .heuristics import start
from .instance import MAX_COPIES, MAX_DEVICES, Copies, Instance


@dataclass(frozen=True)
class KernelTimes:
    """Times per expert's weights; `launch_ns` is the same whatever is decided."""

    launch_ns: int
    read_ps_per_thousand: int
    token_ps_per_million: int
    pass_ps_per_million: int

    def of(self, hidden: int, intermediate: int) -> dict[str, int]:
        """Return `read_ns`, `token_ns` and `pass_ns` of experts with three matrices."""
        weights = 3 * hidden * intermediate
        return {
            "read_ns": max(1, self.read_ps_per_thousand * weights // 10**6),
            "token_ns": max(1, self.token_ps_per_million * weights // 10**9),
            "pass_ns": self.pass_ps_per_million * weights // 10**9,
        }

    def scaled(self, reads: float, products: float) -> "KernelTimes":
        """Return the times on another device, by two ratios of data sheets.

        Parameters
        ----------
        reads
            How much longer reading an expert takes: this device's memory bandwidth over the
            other's, times the other format's bytes per weight over this one's.
        products
            How much longer a product takes: this device's peak in its format over the other's in
            its own. Launches take as long.

        Returns
        -------
        KernelTimes
            Of no measurement: docs/studies.md says how far off that is.
        """
        return KernelTimes(
            self.launch_ns,
            round(self.read_ps_per_thousand * reads),
            round(self.token_ps_per_million * products),
            round(self.pass_ps_per_million * products),
        )


KERNELS = {
    "h100-fp8": KernelTimes(41_411, 354, 1_109, 3_691),
    "a100-bf16": KernelTimes(37_500, 1_202, 3_130, 15_941),
    "a100-int4": KernelTimes(32_900, 313, 25, 14_863),
}
"""Fitted times by device and format."""


class Options(WindowOptions):
    """What this generator can be told besides machine, model, trace and seed.

    The windows are `first_window` and those after it, with weight 1 each; counts are one window,
    the only one. For a hold-out, generate again with the first window after them.
    """

    felt_where: ClassVar[FeltWhere] = {
        "seed": Where(
            "of a workload, or where first_window of a trace is drawn",
            lambda o, s: s.workload is not None or (s.trace is not None and o.first_window is None),
        ),
        "batch": Where("of a trace or a workload", lambda _, s: s.counts is None),
        "batching": Where("of a trace or a workload", lambda _, s: s.counts is None),
        "move_tokens": Where("where current is eplb", lambda o, _: o.current == "eplb"),
    }

    devices: Annotated[int, Field(ge=1, le=MAX_DEVICES, description="devices")] = 32
    slots: Annotated[int, Field(ge=1, le=4096, description="copies that a device has room for")] = 9
    nodes: Annotated[int, Field(ge=1, le=MAX_DEVICES, description="nodes of the devices")] = 1
    groups: Annotated[
        int | None,
        Field(ge=1, le=4096, description="of experts, which stay in a node; each one if absent"),
    ] = None
    split: Annotated[
        Literal["even", "free"], Field(description="how tokens are shared out over copies")
    ] = "even"
    max_copies: Annotated[
        int, Field(ge=1, le=MAX_COPIES, description="most copies of one expert")
    ] = 8
    windows: Annotated[int, Field(ge=1, le=256, description="windows")] = 1
    first_window: Annotated[
        int | None, Field(ge=0, le=2**31, description="window; drawn with the seed if absent")
    ] = None
    drawn_windows: Annotated[
        int | None,
        Field(ge=1, le=2**20, description="windows a workload draws, if not just the needed ones"),
    ] = None
    current: Annotated[
        Literal["none", "eplb"],
        Field(description="where copies lie now: EPLB's map for the window before, if it matters"),
    ] = "none"
    move_tokens: Annotated[
        int, Field(ge=0, le=2**31, description="what moving one copy costs, in tokens")
    ] = 0
    work: Annotated[
        Literal["tokens", "kernel"],
        Field(description="a device's time: its tokens, or a kernel's readings and tokens"),
    ] = "tokens"
    kernel: Annotated[
        Literal["h100-fp8", "a100-bf16", "a100-int4"],
        Field(description="whose times, fitted to measured ones"),
    ] = "h100-fp8"
    slot_cost: Annotated[
        int, Field(ge=0, le=2**40, description="kernel: what each further copy costs, in ns")
    ] = 0


def generate(source: Source, options: Options) -> Instance:
    """Return the instance of one layer in one or more windows, or of its counts.

    Raises
    ------
    InputError
        If the trace does not fit the model or has no such windows or layer; with counts, if windows
        are asked for.
    """
    said = options.model_fields_set
    if options.work == "tokens" and "kernel" in said:
        raise InputError('kernel: can be used with work "kernel" only')
    if source.workload is None and options.drawn_windows is not None:
        raise InputError("drawn_windows: is for a workload; a trace has the windows it has")
    if source.counts is not None:
        _refuse_windows(options)
        layers = source.counts.total()
        if options.layer >= len(layers):
            raise InputError(f"layer: must be below {len(layers)}, not {options.layer}")
        name = source.name or f"{source.model.name}-layer{options.layer}-counts"
        instance = _instance(source, options, layers[options.layer][None], name, None)
        record = _record(source, None, _said(options))
        record["counts"] = {"name": source.counts.name} | (source.counts.facts or {})
        return instance.model_copy(update={"provenance": record})
    low = int(options.current != "none")
    first = options.first_window
    need = (low if first is None else first) + options.windows
    windows = LayerWindows.of(source, options, options.drawn_windows or need)
    first = windows.choose("first_window", first, low, options.windows - 1, source.seed)
    loads = np.array([windows.load(first + turn) for turn in range(options.windows)])
    name = source.name or _name(source, options, first)
    current = None
    if options.current == "eplb":
        before = start(_instance(source, options, windows.load(first - 1)[None], name, None))
        current = None if before is None else before.copies
    instance = _instance(source, options, loads, name, current)
    decided: dict[str, object] = {"first_window": first}
    if source.workload is not None:
        decided["drawn_windows"] = windows.total
    record = _record(source, windows.trace, _said(options) | decided)
    return instance.model_copy(update={"provenance": record})


def _record(source: Source, trace: Trace | None, options: dict[str, object]) -> dict[str, object]:
    """Return the provenance; nothing is rounded here, for there are no times."""
    found = source.provenance(trace, options)
    return {key: value for key, value in found.items() if key != "rounding"}


def _instance(
    source: Source,
    options: Options,
    loads: NDArray[np.int64],
    name: str,
    current: Copies | None,
) -> Instance:
    made = Instance.from_arrays(
        name=name,
        loads=loads,
        devices=options.devices,
        slots=options.slots,
        nodes=options.nodes,
        groups=options.groups,
        split=options.split,
        max_copies=options.max_copies,
        current=current,
        **_kernel(source, options),
    )
    if current is None:
        return made
    token = (made.token_ns or 0) + made.pass_ns
    cost = options.move_tokens * (token or made.units_per_token)
    return made.model_copy(update={"move_cost": cost})


def _said(options: Options) -> dict[str, object]:
    """Return the options for the provenance; what goes with kernels only where there are any."""
    without = {"work", "kernel", "slot_cost"} if options.work == "tokens" else set()
    return options.model_dump(exclude=without)


def _kernel(source: Source, options: Options) -> dict[str, Any]:
    """Return what a kernel takes for the model's experts; nothing where tokens alone count."""
    if options.work == "tokens":
        if options.slot_cost:
            raise InputError('slot_cost: can be used with work "kernel" only')
        return {}
    times = KERNELS[options.kernel].of(
        source.model.hidden_size, source.model.expert_intermediate_size
    )
    return {"work": "kernel", "slot_cost": options.slot_cost, **times}


def assume(instance: Instance, assumption: str, value: str) -> Instance | None:
    """Return the same loads with the times of another GPU's kernels.

    None if the instance has no kernel times, or does not say which model's experts they are of.
    """
    record = Record.of(instance)
    if assumption != "kernel" or value not in KERNELS or record is None:
        return None
    if instance.work != "kernel" or record.model not in names("models"):
        return None
    model = get_model(record.model)
    times = KERNELS[value].of(model.hidden_size, model.expert_intermediate_size)
    options = {**record.options, "kernel": value}
    provenance = {**(instance.provenance or {}), "options": options}
    return instance.model_copy(update={**times, "provenance": provenance})


def _refuse_windows(options: Options) -> None:
    """Refuse what only a trace has."""
    if options.windows > 1 or options.first_window or options.current != "none":
        raise InputError(f"windows: counts are one window; {UNKNOWN}")


def _name(source: Source, options: Options, first: int) -> str:
    where = f"layer{options.layer}-batch{options.batch}-window{first}x{options.windows}"
    return f"{source.model.name}-{where}-{options.devices}x{options.slots}-seed{source.seed}"
