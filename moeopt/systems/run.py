"""Execution of a system: its prompts, then its decode steps, on the clock."""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from .clock import Begin, Clock
from .migrations import PCIE
from .readers import Readers
from .system import RunState, System
from .threads import cores_are_stated, on_threads_ns
from .work import CPU, Flags, Integers
from .world import LARGEST_CHUNK, World

MOST_CHUNKS = 4
"""Chunks of the prompts that are executed; the others are taken to be like them."""


@dataclass(frozen=True)
class Cell:
    """One layer of one decode step, as it was executed.

    Attributes
    ----------
    tokens, resident, dimm
        Of each expert of the layer, shape (experts,): residents include what came ahead of time.
    average
        What the exponential average expected, shape (experts,).
    experts_ns
        From when the experts were known until everything due had ended.
    """

    step: int
    layer: int
    tokens: Integers
    resident: Flags
    dimm: Integers
    average: NDArray[np.float64]
    experts_ns: int


@dataclass(frozen=True)
class Run:
    """What a system took.

    Attributes
    ----------
    prefill_ns
        All prompts of the batch together; None if prompts are empty.
    step_ns
        Latency of each executed decode step, shape (steps,); the first one counts.
    layer_ns
        Shape (steps, layers): from a layer's attention until the next one's.
    experts_ns
        Shape (steps, layers): what of it routed and shared experts take.
    busy
        Device or link -> share of the decode time that it is busy; at most 1.
    gpu_bytes
        Weights of experts in the GPU's memory.
    cells
        The cells that were asked for, in order.
    """

    system: str
    prefill_ns: int | None
    step_ns: Integers
    layer_ns: Integers
    experts_ns: Integers
    busy: dict[str, float]
    gpu_bytes: int
    cells: list[Cell] = field(default_factory=list, repr=False)
    state: RunState | None = field(default=None, repr=False, compare=False)


def execute(
    system: System,
    world: World,
    readers: Readers,
    *,
    cells: frozenset[tuple[int, int]] = frozenset(),
) -> Run:
    """Run a system on the requests of a trace.

    Parameters
    ----------
    cells
        Steps and layers that are kept as they were executed.
    """
    state = system.prepare(system.on_host(world), readers)
    world = state.world
    prefill = _prompts(system, state) if world.prompt else None
    clock = Clock(world.dimms)
    kept, steps, layers = [], readers.steps, world.layers
    layer_ns = np.zeros((steps, layers), dtype=np.int64)
    experts_ns = np.zeros((steps, layers), dtype=np.int64)
    step_ns = np.zeros(steps, dtype=np.int64)
    launch_ns = _launch_ns(system, world)
    shared = world.shared_ns(world.batch)
    for step in range(steps):
        begin_ns = clock.now_ns
        context = world.prompt + ((2 * step + 1) * world.output) // (2 * steps)
        counts = readers.step_counts(step)
        state.step = step
        clock.outside(world.outside_ns(world.batch, context))
        start = Begin(
            world.attention_ns(world.batch, context) + launch_ns,
            world.kv_ns(world.batch, context),
            world.kv_read_ns(world.batch, context),
        )
        for layer in range(layers):
            tokens, at = counts[layer], clock.now_ns
            routed, there = clock.begin(start)
            state.ready_ns = np.full(world.experts, -1, dtype=np.int64)
            for expert, when in there.items():
                state.ready_ns[expert] = when
            state.now_ns = routed
            moves = system.before(state, layer)
            made = system.route(state, layer, tokens)
            if (step, layer) in cells:
                resident = state.resident[layer] | (state.ready_ns >= 0)
                average = state.average[layer].copy()
                dimm = state.dimm[layer].copy()
                kept.append(Cell(step, layer, tokens, resident, dimm, average, 0))
            work = system.work(state, layer, tokens, made)
            copied = clock.run(routed, work._replace(moves=moves, shared_ns=shared))
            system.copied(state, layer, copied)
            layer_ns[step, layer] = clock.now_ns - at
            experts_ns[step, layer] = clock.now_ns - routed
            if (step, layer) in cells:
                kept[-1] = replace(kept[-1], experts_ns=clock.now_ns - routed)
        state.saw(counts[:layers])
        step_ns[step] = clock.now_ns - begin_ns
    total = max(clock.end_ns, 1)
    return Run(
        system=system.title,
        prefill_ns=prefill,
        step_ns=step_ns,
        layer_ns=layer_ns,
        experts_ns=experts_ns,
        busy=_busy(clock, total, world),
        gpu_bytes=int(state.resident.sum()) * world.model.expert_bytes,
        cells=kept,
        state=state,
    )


def _launch_ns(system: System, world: World) -> int:
    """Return what launching a layer's kernels one by one takes."""
    each_us = system.mechanisms.launch_us
    return world.to_ns(system.mechanisms.launches_per_layer * each_us / 1e6)


def _busy(clock: Clock, total_ns: int, world: World) -> dict[str, float]:
    found = {"gpu": clock.gpu_busy_ns / total_ns}
    if world.machine.nodes:
        found["cpu"] = clock.cpu_busy_ns / total_ns
    if world.machine.ndp_units:
        found["ndp"] = float(clock.ndp_busy_ns.mean()) / total_ns
    found["pcie"] = clock.link_busy_ns.get(PCIE, 0) / total_ns
    found["dimms"] = float(clock.dimm_busy_ns.mean()) / total_ns
    return found


def _prompts(system: System, state: RunState) -> int:
    """Return what the prompts of a batch take: some chunks are executed, all are counted."""
    world = state.world
    total = world.batch * world.prompt
    chunk = min(total, LARGEST_CHUNK if system.mechanisms.whole_prompts else world.ubatch)
    count, rest = divmod(total, chunk)
    shown = sorted({turn * count // MOST_CHUNKS for turn in range(MOST_CHUNKS)}) if count else []
    state.prompt = True
    lengths = [_chunk(system, state, turn * chunk, chunk) for turn in shown]
    whole = round(sum(lengths) * count / len(lengths)) if lengths else 0
    if rest:
        whole += _chunk(system, state, count * chunk, rest)
    state.prompt = False
    return whole + system.after_prompts(state)


def _chunk(system: System, state: RunState, first: int, tokens: int) -> int:
    """Return what one chunk of prompts takes."""
    world, clock = state.world, Clock(state.world.dimms)
    counts = state.readers.chunk_counts(first, tokens)
    # A token of a prompt sees half of the prompt on average.
    attention = world.attention_ns(tokens, world.prompt // 2, prompt=True)
    start = Begin(attention + _launch_ns(system, world))
    shared = world.shared_ns(tokens)
    clock.outside(world.outside_ns(tokens, 0))
    timed = cores_are_stated(world)
    for layer in range(world.layers):
        routed, _ = clock.begin(start)
        state.now_ns = routed
        made = system.prompt(state, layer, counts[layer])
        work = system.work(state, layer, counts[layer], made)
        early = system.mechanisms.uploads_early
        if work.on_cpu and timed:
            on_cpu = np.where(made.domain == CPU, counts[layer], 0)
            work = work._replace(cpu_ns=on_threads_ns(world, on_cpu, system.mechanisms.cpu_tasks))
        work = work._replace(shared_ns=shared, uploads_early=early, copies=(), ahead=())
        clock.run(routed, work)
    return clock.now_ns
