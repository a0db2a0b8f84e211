"""SystemComparison of the published systems on one machine, one model and one trace."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from moeopt.core.errors import InputError, expect
from moeopt.core.interval import interval
from moeopt.core.options import Options, option, takes, with_given
from moeopt.core.units import GIB, gib_of
from moeopt.sim.costs.runtime import quantum_ns
from moeopt.sim.costs.step import step_costs
from moeopt.sim.machines.machine import Machine
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.presets import find, get_machine, get_model
from moeopt.sim.source import one_of_two
from moeopt.sim.traces.files import load_trace
from moeopt.sim.traces.synthetic import routing_trace
from moeopt.sim.traces.trace import Trace
from moeopt.sim.traces.workload import Workload
from moeopt.solvers.arguments import a_function

from .cells import layout_bound_ns
from .optimum import Optimum, optimum_of
from .readers import Readers
from .registry import get_system, named_systems, what_is_missing
from .relayouts import FREE_SLOTS
from .run import Run, execute
from .system import System, Unit
from .threads import cores_are_stated
from .world import World, slots_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

SAMPLED_LAYERS, SAMPLED_STEPS = 3, 16
"""Layers and consecutive steps of which optima are found unless all are asked for."""

MOST_STEPS = 64
"""Decode steps that are executed; with more the same time is spread over these."""

SYNTHETIC_TOKENS = 2**15
"""Most tokens that are drawn of a synthetic workload."""


def _names(name: str, value: "str | Sequence[str]") -> tuple[str, ...]:
    parts = re.split(r",(?![^\[]*\])", value) if isinstance(value, str) else value
    if not isinstance(parts, Sequence) or not all(isinstance(part, str) for part in parts):
        expect(name, value, what="names of systems")
    return tuple(part.strip() for part in parts)


@dataclass(frozen=True, kw_only=True)
class CompareOptions(Options):
    """Options of `moeopt.compare` and of ``moeopt compare``."""

    batch: int = option(64, "Requests that are decoded together.", least=1, most=2**16)
    prompt: int = option(512, "Tokens of each request's prompt; 0: none.", least=0, most=2**20)
    output: int = option(512, "Tokens of each request's reply.", least=1, most=2**20)
    steps: int | None = option(
        None,
        f"Decode steps that are executed; default: those of the reply, at most {MOST_STEPS}.",
        least=1,
        most=2**16,
        group="Steps",
    )
    layers: int | None = option(
        None, "First layers with experts alone; default: all.", least=1, most=4096, group="Steps"
    )
    batching: str = option(
        "streams",
        "streams: a step has one token of each request; window: consecutive tokens of the trace.",
        metavar="streams|window",
        group="Steps",
    )
    systems: "tuple[str, ...] | None" = option(
        None,
        "Systems by name (moeopt list systems); default: all.",
        read=_names,
        metavar="NAME[,NAME]",
    )
    gpu_expert_gib: float | None = option(
        None,
        "GPU memory for routed experts, the same for every system; default: that of one in eight.",
        read=gib_of,
        least=0,
        group="Memory",
    )
    kv_cache: str = option("gpu", "Where the KV cache lies.", metavar="gpu|host", group="Memory")
    ubatch: int = option(
        512, "Tokens of prompts together, where a paper says nothing.", least=1, most=2**20
    )
    exact: str = option(
        "sample",
        "Optima: none, of a sample of three layers and 16 steps, or of all.",
        metavar="none|sample|all",
    )
    seed: int = option(0, "Seed of a workload.", least=0, most=2**31 - 1, metavar="N")

    def __post_init__(self) -> None:
        """Raise InputError for a word that is none of an option's."""
        super().__post_init__()
        words = {
            "batching": ("streams", "window"),
            "kv_cache": ("gpu", "host"),
            "exact": ("none", "sample", "all"),
        }
        for name, known in words.items():
            if getattr(self, name) not in known:
                text = f"must be {' or '.join(known)}, not {getattr(self, name)!r}"
                raise InputError(text, field=name)


@dataclass(frozen=True)
class Compared:
    """A system's row.

    Attributes
    ----------
    system, paper
        Its name, and where it is described.
    reason
        Why it does not run; None if it does.
    notes
        What was assumed, or left out on this machine.
    run, optimum
        What it took, and would take at its optimum.
    """

    system: str
    paper: str
    reason: str | None = None
    notes: tuple[str, ...] = ()
    run: Run | None = field(default=None, repr=False)
    optimum: Optimum | None = field(default=None, repr=False)

    @property
    def decode_ms(self) -> float | None:
        """Median latency of a decode step, in ms."""
        return None if self.run is None else float(np.median(self.run.step_ns)) / 1e6

    @property
    def mean_ms(self) -> float | None:
        """Mean latency of a decode step, the first included, in ms."""
        return None if self.run is None else float(np.mean(self.run.step_ns)) / 1e6

    @property
    def prefill_s(self) -> float | None:
        """All prompts together, in s; None without prompts."""
        ns = None if self.run is None else self.run.prefill_ns
        return None if ns is None else ns / 1e9

    def end_to_end_s(self, output: int) -> float | None:
        """Return prompts and a reply of so many tokens, in s."""
        return (
            None if self.mean_ms is None else (self.prefill_s or 0.0) + output * self.mean_ms / 1e3
        )

    @property
    def experts_ms(self) -> float:
        """What of the mean latency routed and shared experts take, in ms."""
        return 0.0 if self.run is None else float(self.run.experts_ns.sum(axis=1).mean()) / 1e6

    def at_optimum_ms(self, which: str) -> float | None:
        """Return the mean latency of a step with other times of the experts, in ms.

        The share of the experts' time that the sampled cells would take is taken for every cell.

        Parameters
        ----------
        which
            "same", "oracle" or "achievable": an attribute of `Optimum` without ``_ns``.
        """
        if self.run is None or self.optimum is None or self.mean_ms is None:
            return None
        found = getattr(self.optimum, f"{which}_ns")
        if found is None:
            return None
        return self._with_experts(sum(found) / sum(self.optimum.executed_ns))

    def _with_experts(self, share: float) -> float:
        """Return the mean latency if experts took a share of their time, in ms."""
        return (self.mean_ms or 0.0) + self.experts_ms * (share - 1)

    def oracle_interval_ms(self) -> tuple[float, float] | None:
        """Return the 95 % interval of the oracle's latency over the sampled layers, in ms."""
        if self.run is None or self.optimum is None or self.optimum.oracle_ns is None:
            return None
        best = self.optimum
        oracle = np.array(best.oracle_ns)
        layer, executed = np.array(best.layer), np.array(best.executed_ns)
        found = interval(
            [
                float(oracle[layer == one].sum() / executed[layer == one].sum())
                for one in sorted(set(best.layer))
            ],
            of="mean",
        )
        return (
            None if found is None else (self._with_experts(found[0]), self._with_experts(found[1]))
        )


@dataclass(frozen=True)
class SystemComparison:
    """The systems side by side.

    Attributes
    ----------
    machine, model, trace
        Names.
    options
        What was compared.
    slots
        Experts in the GPU's memory.
    gpu_expert_gib
        What they take, in GiB.
    rows
        A row for each system, those that cannot run too.
    ceiling_ms
        Decode step with the best residents, layout and schedule of whole experts that each sampled
        layer and step could have, with these slots. None where optima are not asked for. A system
        that cuts experts may be faster.
    notes
        What holds for every row.
    """

    machine: str
    model: str
    trace: str
    options: CompareOptions
    slots: int
    gpu_expert_gib: float
    rows: tuple[Compared, ...]
    ceiling_ms: float | None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        ran = sum(row.run is not None for row in self.rows)
        return f"<comparison of {ran} systems: {self.model} on {self.machine}>"

    @property
    def best(self) -> Compared | None:
        """The system with the least mean latency of a decode step; None if none runs."""
        ran = [row for row in self.rows if row.mean_ms is not None]
        return min(ran, key=lambda row: cast(float, row.mean_ms), default=None)

    def to_dict(self) -> dict[str, object]:
        """Return everything as JSON values (docs/json.md)."""
        o = self.options
        return {
            "machine": self.machine,
            "model": self.model,
            "trace": self.trace,
            "batch": o.batch,
            "prompt": o.prompt,
            "output": o.output,
            "batching": o.batching,
            "kv_cache": o.kv_cache,
            "gpu_expert_gib": self.gpu_expert_gib,
            "systems": [_row(row, o) for row in self.rows],
            "best_ms": self.ceiling_ms,
            "notes": list(self.notes),
        }

    def to_frame(self) -> "pd.DataFrame":
        """Return a pandas frame with a row for each system.

        Columns: system, runs, reason, prefill_s, decode_ms, p99_ms, mean_ms, tokens_per_s,
        busy_gpu, busy_cpu, busy_ndp, busy_pcie, same_information_ms, oracle_ms, achievable_ms.
        """
        import pandas as pd

        rows = []
        for row in self.rows:
            made = _row(row, self.options)
            decode, busy = made.pop("decode_ms") or {}, made.pop("busy") or {}
            best = made.pop("optimum") or {}
            assert isinstance(decode, dict)  # noqa: S101
            assert isinstance(busy, dict)  # noqa: S101
            assert isinstance(best, dict)  # noqa: S101
            made |= {"decode_ms": decode.get("median"), "p99_ms": decode.get("p99")}
            made |= {"mean_ms": decode.get("mean")}
            made |= {f"busy_{name}": busy.get(name) for name in ("gpu", "cpu", "ndp", "pcie")}
            names = ("same_information_ms", "oracle_ms", "achievable_ms")
            rows.append(made | {name: best.get(name) for name in names})
        return pd.DataFrame(rows)

    def plot(self) -> "Figure":
        """Return a picture: each system's decode step in stages, and the oracle's beside it.

        Examples
        --------
        >>> import moeopt
        >>> found = moeopt.compare(
        ...     "trimoe", "deepseek-v2-lite", workload="trimoe-skew", batch=4, prompt=0, output=2,
        ...     layers=1, systems=["klotski"], exact="none",
        ... )
        >>> found.plot().savefig("compared.svg")  # doctest: +SKIP
        """
        from .picture import SystemBar, draw

        bars = [
            SystemBar(row.system, row.mean_ms - row.experts_ms, row.experts_ms, oracle_ms)
            for row in self.rows
            if row.mean_ms is not None
            for oracle_ms in [row.at_optimum_ms("oracle")]
        ]
        title = f"{self.model} on {self.machine}, {self.options.batch} requests"
        return draw(bars, title)


@takes(CompareOptions)
def compare(
    machine: Machine | str | Path,
    model: ModelShape | str | Path,
    trace: Trace | str | Path | None = None,
    *,
    workload: Workload | str | Path | None = None,
    options: CompareOptions | None = None,
    on_start: Callable[[int, int, str], None] | None = None,
    **given: object,
) -> SystemComparison:
    """Run the published systems on one machine, one model and one trace.

    Every system decides by the heuristics of its paper, with the information that its paper gives
    it, and is executed on the loads that come. Beside it stands what the same decisions would give
    at their optimum (`moeopt.systems.optimum`).

    Parameters
    ----------
    machine, model
        Objects, names of presets or files.
    trace
        A routing trace or its file.
    workload
        In its place, a synthetic workload: an object, the name of a preset or a file.
    options
        What else may be said; `moeopt.systems.compare.CompareOptions` explains every field.
    on_start
        Called with (systems done, systems in all, name) before each system.
    **given
        Fields of these options by keyword.

    Returns
    -------
    SystemComparison
        A row for each system; one that the machine lacks a unit for says so.

    Raises
    ------
    InputError
        If the trace is not the model's, or the model lacks a size.

    Examples
    --------
    >>> import moeopt
    >>> found = moeopt.compare(
    ...     "ktransformers-a100", "deepseek-v2-lite", workload="trimoe-skew", batch=8, prompt=0,
    ...     output=4, layers=2, systems=["ktransformers", "trimoe"], exact="none",
    ... )
    >>> [(row.system, row.reason) for row in found.rows]
    [('ktransformers', None), ('trimoe', 'ktransformers-a100 has no NDP units')]
    """
    how = with_given(CompareOptions, options, given)
    a_function("on_start", on_start)
    machine, model = get_machine(machine), get_model(model)
    systems = named_systems(how.systems)
    steps = how.steps or min(how.output, MOST_STEPS)
    routing = _routing(model, trace, workload, how, steps)
    batching = cast(Literal["streams", "window"], how.batching)
    readers = Readers.of(routing, model, how.batch, how.prompt, steps, batching)
    if how.layers is not None and how.layers > readers.layers:
        raise InputError(f"must be at most {readers.layers}, not {how.layers}", field="layers")
    layers = how.layers or readers.layers
    machine.require("gpu")
    costs = step_costs(machine, model)
    world = World(
        costs=costs,
        batch=how.batch,
        prompt=how.prompt,
        output=how.output,
        layers=layers,
        slots=slots_of(machine, model, layers, how.gpu_expert_gib),
        kv=cast(Literal["gpu", "host"], how.kv_cache),
        ubatch=how.ubatch,
        quantum_ns=quantum_ns(costs),
    )
    cells = _cells(how.exact, steps, layers)
    rows = []
    for number, system in enumerate(systems):
        if on_start is not None:
            on_start(number, len(systems), system.title)
        rows.append(_compared(system, world, readers, cells, how))
    return SystemComparison(
        machine=machine.name,
        model=model.name,
        trace=routing.name,
        options=how,
        slots=world.slots,
        gpu_expert_gib=world.slots * model.expert_bytes / GIB,
        rows=tuple(rows),
        ceiling_ms=_ceiling(world, readers, rows, cells),
        notes=tuple(_notes(world, readers, how, steps)),
    )


def _routing(
    model: ModelShape,
    trace: Trace | str | Path | None,
    workload: Workload | str | Path | None,
    how: CompareOptions,
    steps: int,
) -> Trace:
    """Return the trace, or one drawn of the workload."""
    one_of_two(trace, workload)
    if trace is not None and how.seed:
        raise InputError("goes with a workload: of a trace nothing is drawn", field="seed")
    if not how.prompt and how.ubatch != CompareOptions.ubatch:
        raise InputError("is for prompts, and there are none", field="ubatch")
    if trace is not None:
        return trace if isinstance(trace, Trace) else load_trace(trace)
    assert workload is not None  # noqa: S101
    if not isinstance(workload, Workload):
        workload = find("workloads", Workload, workload)
    tokens = min(SYNTHETIC_TOKENS, how.batch * (how.prompt + 2 * steps))
    layers = how.layers or len(model.moe_layers)
    layers = min(layers, len(model.moe_layers))
    experts = model.routed_experts
    return routing_trace(
        workload, experts, model.top_k, layers, max(tokens, how.batch), how.seed, batch=how.batch
    )


def _cells(exact: str, steps: int, layers: int) -> frozenset[tuple[int, int]]:
    """Return the steps and layers whose optima are found: three layers, the last steps of them."""
    if exact == "none":
        return frozenset()
    if exact == "all":
        return frozenset((step, layer) for step in range(steps) for layer in range(layers))
    shown = {(2 * turn + 1) * layers // (2 * SAMPLED_LAYERS) for turn in range(SAMPLED_LAYERS)}
    last = range(max(0, steps - SAMPLED_STEPS), steps)
    return frozenset((step, layer) for step in last for layer in shown)


def _compared(
    system: System,
    world: World,
    readers: Readers,
    cells: frozenset[tuple[int, int]],
    how: CompareOptions,
) -> Compared:
    reason = what_is_missing(system, world.machine)
    if reason is not None:
        return Compared(system.title, system.paper, reason)
    notes = [*system.notes(world)]
    most = system.mechanisms.most_batch
    if most is not None and how.batch > most:
        notes.append(f"its paper serves {most} request at a time" if most == 1 else f"up to {most}")
    try:
        run = execute(system, world, readers, cells=cells)
    except InputError as error:
        return Compared(system.title, system.paper, str(error))
    best = optimum_of(system, run) if cells else None
    return Compared(system.title, system.paper, None, tuple(notes), run, best)


def _ceiling(
    world: World,
    readers: Readers,
    rows: Sequence[Compared],
    cells: frozenset[tuple[int, int]],
) -> float | None:
    """Return what a step would take with the best residents and layout of each step, in ms.

    The least that any row takes beside its experts, and of the experts' time of the fastest that
    leaves experts whole the share which its sampled cells could take; no more than any oracle's.
    """
    machine = world.machine
    units: set[Unit] = {"gpu"}
    units |= {"cpu"} if machine.nodes else set()
    units |= {"ndp"} if machine.ndp_units else set()
    ran = [row.run for row in rows if row.run is not None]
    whole = [run for run in ran if not _cuts(run.system)]
    if not cells or not whole or units == {"gpu"}:
        return None
    counts = {step: readers.step_counts(step) for step in {step for step, _ in cells}}
    slots = world.slots_per_layer + FREE_SLOTS
    free = [layout_bound_ns(world, counts[s][layer], slots, units) for s, layer in sorted(cells)]
    best = min(whole, key=lambda run: float(np.mean(run.experts_ns)))
    share = sum(free) / sum(cell.experts_ns for cell in best.cells)
    rest = min(float((run.step_ns - run.experts_ns.sum(axis=1)).mean()) for run in ran)
    found = (rest + share * float(best.experts_ns.sum(axis=1).mean())) / 1e6
    oracles = (row.at_optimum_ms("oracle") for row in rows if not _cuts(row.system))
    return min([found, *(value for value in oracles if value is not None)])


def _cuts(name: str) -> bool:
    return any(one.problem == "balance" for one in get_system(name).decisions)


def _notes(world: World, readers: Readers, how: CompareOptions, steps: int) -> list[str]:
    found = []
    if readers.wrapped:
        executed = how.batch * steps
        found.append(
            f"{readers.wrapped} of {executed} decoded tokens come more than once: the trace has"
            f" {readers.trace.tokens}"
        )
    if how.batch * how.prompt > readers.trace.tokens:
        found.append(f"prompts overlap: together they have {how.batch * how.prompt} tokens")
    if readers.profile_is_executed:
        found.append("the profile holds executed tokens: the trace has no others")
    if world.layers < len(world.model.moe_layers):
        found.append(f"{world.layers} of {len(world.model.moe_layers)} layers with experts alone")
    if how.prompt and world.machine.nodes and not cores_are_stated(world):
        machine = world.machine.name
        found.append(f"{machine} states no cores: in prompts its CPU's rate is shared evenly")
    if steps < how.output:
        found.append(f"{steps} decode steps are executed for {how.output}")
    return found


def _row(row: Compared, how: CompareOptions) -> dict[str, object]:
    """Return a row as JSON values."""
    made: dict[str, object] = {
        "system": row.system,
        "paper": row.paper,
        "runs": row.run is not None,
        "reason": row.reason,
        "notes": list(row.notes),
        "prefill_s": None,
        "decode_ms": None,
        "tokens_per_s": None,
        "end_to_end_s": None,
        "busy": None,
        "gpu_expert_bytes": None,
        "optimum": None,
    }
    run = row.run
    if run is None or row.mean_ms is None:
        return made
    made |= {
        "prefill_s": row.prefill_s,
        "decode_ms": {
            "median": row.decode_ms,
            "p99": float(np.quantile(run.step_ns, 0.99)) / 1e6,
            "mean": row.mean_ms,
            "first": int(run.step_ns[0]) / 1e6,
        },
        "tokens_per_s": how.batch * 1e3 / row.mean_ms,
        "end_to_end_s": row.end_to_end_s(how.output),
        "busy": run.busy,
        "gpu_expert_bytes": run.gpu_bytes,
    }
    if row.optimum is not None:
        made["optimum"] = {
            "same_information_ms": row.at_optimum_ms("same"),
            "oracle_ms": row.at_optimum_ms("oracle"),
            "oracle_interval_ms": row.oracle_interval_ms(),
            "achievable_ms": row.at_optimum_ms("achievable"),
        }
    return made
