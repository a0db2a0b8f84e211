"""threads instances: one fused batch of a layer's experts on one node's CPU.

A part is a block of columns of an expert's matrices. A grain divides the longer of two times that a
thread takes for the whole expert: of its operations, with rows rounded up to the kernel's tile, at
a core's share of the node's rate; and of its bytes, at a thread's share of the node's bandwidth.

On several nodes each holds its share of every expert, and an instance is one of them. A layer is
the sum of its two batches, "gate-up" and "down". How far the constants can be trusted, in the words
P (predicted from stated numbers) and A (an assumption):

- P: operations and bytes over the machine's rates.
- A: `input_gb_s`, the rate at which a thread loads an expert's input, 20 or 60 GB/s; `pull_ns`, an
  atomic operation on a line that all cores contend for; `tile_rows`, 16 for AMX.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moeopt.core.errors import InputError
from moeopt.core.wording import shown
from moeopt.sim.costs.quanta import NS_PER_S, to_quanta
from moeopt.sim.costs.step import step_costs
from moeopt.sim.machines.cores import node_gb_s
from moeopt.sim.machines.machine import Machine
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.presets import get_machine, get_model
from moeopt.sim.source import FeltWhere, Record, Source, Where, made_again
from moeopt.sim.traces.windows import LayerWindows, WindowOptions

from .instance import MAX_PARTS, MAX_THREADS, Expert, Instance

QUANTUM_NS = 1
"""Parts take microseconds: the usual quantum of 5 us would make them all alike."""

INPUT_BYTES = 2
"""Of a number of the activations, which are BF16."""

LEAST_COLUMNS = 16
"""A part is no narrower than a tile."""

Integers = NDArray[np.int64]


class Options(WindowOptions):
    """What this generator can be told besides machine, model, trace and seed."""

    felt_where: ClassVar[FeltWhere] = {
        "seed": Where(
            "of a workload, or where step of a trace is drawn",
            lambda o, s: s.workload is not None or (s.trace is not None and o.step is None),
        ),
        "batch": Where("of a trace or a workload", lambda _, s: s.counts is None),
        "batching": Where("of a trace or a workload", lambda _, s: s.counts is None),
        "step": Where("of a trace or a workload", lambda _, s: s.counts is None),
    }

    step: Annotated[
        int | None,
        Field(ge=0, le=2**31, description="batch of the trace; drawn with the seed if absent"),
    ] = None
    matrices: Annotated[
        Literal["gate-up", "down"], Field(description="which fused batch of the layer")
    ] = "gate-up"
    grains: Annotated[
        str, Field(max_length=400, description="into how many parts, comma-separated")
    ] = "1,2,4,8,16,32,64"
    threads: Annotated[
        int | None,
        Field(ge=1, le=MAX_THREADS, description="threads; the node's cores if absent"),
    ] = None
    pull_ns: Annotated[
        int, Field(ge=0, le=10**9, description="taking a part from the queue, in ns")
    ] = 100
    input_gb_s: Annotated[
        float, Field(gt=0, le=1e6, description="rate at which a thread loads an expert's input")
    ] = 20.0
    tile_rows: Annotated[
        int, Field(ge=1, le=4096, description="rows that the main kernel rounds tokens up to")
    ] = 16


def generate(source: Source, options: Options) -> Instance:
    """Return the instance of one layer in one batch, or of its counts.

    Raises
    ------
    InputError
        If the trace does not fit the model or has no such batch or layer, if the machine states
        no cores and no threads are given, or if a grain exists for no expert.
    """
    machine, model = source.machine, source.model
    machine.require("cpu")
    decided: dict[str, object] = {}
    if source.counts is not None:
        layers = source.counts.total()
        if options.layer >= len(layers):
            raise InputError(f"layer: must be below {len(layers)}, not {options.layer}")
        loads, trace, where = layers[options.layer], None, "counts"
    else:
        windows = LayerWindows.of(source, options, 1 + (options.step or 0))
        step = windows.choose("step", options.step, 0, 0, source.seed)
        loads, trace = windows.load(step), windows.trace
        where, decided["step"] = f"batch{options.batch}-step{step}", step
    active = np.flatnonzero(loads)
    if not len(active):
        raise InputError(f"layer: no expert of layer {options.layer} has a token")
    tokens = loads[active].astype(np.int64)
    name = f"{model.name}-layer{options.layer}-{where}-{options.matrices}-seed{source.seed}"
    record = source.provenance(trace, options.model_dump() | decided)
    record["tokens"] = tokens.tolist()
    if source.counts is not None:
        record["counts"] = {"name": source.counts.name} | (source.counts.facts or {})
    return Instance(
        name=source.name or name,
        provenance=record,
        quantum_ns=source.quantum_ns,
        threads=threads_of(machine, options),
        pull_ns=options.pull_ns,
        grains=grains_of(options),
        experts=parts_of(machine, model, active, tokens, options, source.quantum_ns),
    )


def threads_of(machine: Machine, options: Options) -> int:
    """Return how many threads there are: those asked for, or the cores of the first node.

    Raises
    ------
    InputError
        If neither is known, or there are more threads than cores.
    """
    cores = machine.nodes[0].only("cpu").cores
    if options.threads is None:
        if cores is None:
            node = machine.nodes[0].id
            reason = (
                f"is missing: machine {machine.name} does not state the cores of its CPU; "
                f"give --threads N, or a machine with devices.{node}.cpu.cores"
            )
            raise InputError(reason, field="threads")
        return cores
    if cores is not None and options.threads > cores:
        reason = f"must be at most the {cores} cores of a node of {machine.name}"
        raise InputError(f"{reason}, not {options.threads}", field="threads")
    return options.threads


@dataclass(frozen=True)
class Team:
    """Threads that share one queue, and what they have of each expert.

    Attributes
    ----------
    threads
        How many.
    read_gb_s
        What they read together.
    slices
        Each expert is cut over so many teams.
    """

    threads: int
    read_gb_s: float
    slices: int = 1


def team_of(machine: Machine, options: Options) -> Team:
    """Return the first node's threads, with their slice of every expert.

    Raises
    ------
    InputError
        As `threads_of`.
    """
    node = machine.nodes[0]
    read_gb_s = node_gb_s(node) * (node.only("cpu").reached or 1.0)
    return Team(threads_of(machine, options), read_gb_s, len(machine.nodes))


def grains_of(options: Options) -> tuple[int, ...]:
    """Return the grains that were asked for, which rise.

    Raises
    ------
    InputError
        If they are no rising integers from 1.
    """
    try:
        found = [int(word) for word in options.grains.split(",")]
    except ValueError:
        found = []
    if not found or found != sorted(set(found)) or not 1 <= found[0] <= found[-1] <= MAX_PARTS:
        due = f"rising integers from 1 to {MAX_PARTS}, comma-separated"
        raise InputError(f"must be {due}, not {shown(options.grains)}", field="grains")
    return tuple(found)


def parts_of(
    machine: Machine,
    model: ModelShape,
    numbers: Integers,
    tokens: Integers,
    options: Options,
    quantum_ns: int,
    team: Team | None = None,
) -> tuple[Expert, ...]:
    """Return the experts with their times.

    Parameters
    ----------
    numbers, tokens
        Of each active expert, shape (experts,).
    team
        Whose times; by default `team_of`.

    Raises
    ------
    InputError
        If no grain exists: parts would be narrower than a tile.
    """
    team, grains = team or team_of(machine, options), grains_of(options)
    width = model.expert_hidden_size or model.hidden_size
    own = -(-model.expert_intermediate_size // team.slices)
    matrices = model.matrices - 1 if options.matrices == "gate-up" else 1
    inputs, columns = (width, own) if options.matrices == "gate-up" else (own, width)
    there = [grain * LEAST_COLUMNS <= columns for grain in grains]
    if not any(there):
        most = columns // LEAST_COLUMNS
        raise InputError(
            f"must have one up to {most}, or parts of {columns} columns are narrower than a tile",
            field="grains",
        )
    rows = _rows(machine, tokens, options.tile_rows)
    costs = step_costs(machine, model)
    whole_s = costs.thread_s(matrices * width * own, rows, team.threads, team.read_gb_s)
    whole_ns = whole_s * NS_PER_S
    load_ns = to_quanta(tokens * (inputs * INPUT_BYTES) / options.input_gb_s, quantum_ns)
    part_ns = to_quanta(whole_ns[:, None] / np.array(grains), quantum_ns)
    return tuple(
        Expert(
            expert=number,
            load_ns=load,
            part_ns=tuple(ns if exists else None for ns, exists in zip(of, there, strict=True)),
        )
        for number, load, of in zip(
            numbers.tolist(), load_ns.tolist(), part_ns.tolist(), strict=True
        )
    )


def _rows(machine: Machine, tokens: Integers, tile_rows: int) -> Integers:
    """Return the rows that are computed: the main kernel rounds tokens up to whole tiles."""
    limits = [kernel.max_tokens or 0 for kernel in machine.nodes[0].only("cpu").kernels[:-1]]
    tiles = -(-tokens // tile_rows) * tile_rows
    return np.where(tokens <= max(limits, default=0), tokens, tiles)


def assume(instance: Instance, assumption: str, value: str) -> Instance | None:
    """Return the same tokens under another value of an assumption; see `sim.source.made_again`."""
    return made_again(
        instance, assumption, value, assumed=ASSUMED, options=Options, make=_with_times
    )


ASSUMED = ("input_gb_s",)
"""The options that are assumptions of instances."""


def _with_times(instance: Instance, record: Record, options: Options) -> Instance | None:
    """Return an instance with the times that options give to its experts' tokens."""
    provenance = instance.provenance or {}
    stated = provenance.get("tokens")
    tokens = np.array(stated if isinstance(stated, list) else [])
    if tokens.shape != (len(instance.experts),) or tokens.dtype.kind != "i" or tokens.min() < 1:
        return None
    machine, model = get_machine(record.machine or ""), get_model(record.model)
    numbers = np.array([expert.expert for expert in instance.experts])
    quantum = instance.quantum_ns or QUANTUM_NS
    experts = parts_of(machine, model, numbers, tokens, options, quantum)
    update = {"options": record.options | {name: getattr(options, name) for name in ASSUMED}}
    return instance.model_copy(update={"provenance": provenance | update, "experts": experts})
