"""Execution of a system: its prompts, then its decode steps, on the clock."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from .clock import Begin, Clock, LayerWork
from .migrations import PCIE
from .readers import Readers
from .system import RunState, System
from .threads import cores_are_stated, on_threads_ns
from .walk import Walked, walk
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
    clock, kept, walked = Clock(world.dimms), list[Cell](), list[Walked]()
    for number in range(readers.steps):
        step = _DecodeStep(system, state, number, cells, kept)
        walked.append(walk(clock, step))
        state.saw(step.counts)
    edges = np.array([one.edges_ns for one in walked], dtype=np.int64)
    routed = np.array([one.routed_ns for one in walked], dtype=np.int64)
    experts_ns = edges[:, 1:] - routed
    return Run(
        system=system.title,
        prefill_ns=prefill,
        step_ns=np.diff(edges[:, -1], prepend=0),
        layer_ns=np.diff(edges, axis=1),
        experts_ns=experts_ns,
        busy=_busy(clock, max(clock.end_ns, 1), world),
        gpu_bytes=int(state.resident.sum()) * world.model.expert_bytes,
        cells=[replace(one, experts_ns=int(experts_ns[one.step, one.layer])) for one in kept],
        state=state,
    )


class _DecodeStep:
    """A decode step of a system, decided layer by layer; keeps what cells ask for."""

    def __init__(
        self,
        system: System,
        state: RunState,
        step: int,
        cells: frozenset[tuple[int, int]],
        kept: list[Cell],
    ) -> None:
        world, steps = state.world, state.readers.steps
        self.system, self.state, self.cells, self.kept = system, state, cells, kept
        self.layers = world.layers
        state.step = step
        self.counts = state.readers.step_counts(step)[: self.layers]
        context = world.prompt + ((2 * step + 1) * world.output) // (2 * steps)
        self.outside_ns = world.outside_ns(world.batch, context)
        self.shared_ns = world.shared_ns(world.batch)
        self.start = Begin(
            world.attention_ns(world.batch, context) + _launch_ns(system, world),
            world.kv_ns(world.batch, context),
            world.kv_read_ns(world.batch, context),
        )

    def begin(self, layer: int) -> Begin:
        return self.start

    def work(self, layer: int, routed_ns: int, there_ns: Mapping[int, int]) -> LayerWork:
        state, tokens = self.state, self.counts[layer]
        state.ready_ns = np.full(state.world.experts, -1, dtype=np.int64)
        for expert, when in there_ns.items():
            state.ready_ns[expert] = when
        state.now_ns = routed_ns
        moves = self.system.before(state, layer)
        made = self.system.route(state, layer, tokens)
        if (state.step, layer) in self.cells:
            resident = state.resident[layer] | (state.ready_ns >= 0)
            average, dimm = state.average[layer].copy(), state.dimm[layer].copy()
            self.kept.append(Cell(state.step, layer, tokens, resident, dimm, average, 0))
        work = self.system.work(state, layer, tokens, made)
        return work._replace(moves=moves, shared_ns=self.shared_ns)

    def ran(self, layer: int, copies_ns: Mapping[int, int]) -> None:
        self.system.copied(self.state, layer, copies_ns)


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
    clock = Clock(state.world.dimms)
    walk(clock, _PromptChunk(system, state, first, tokens))
    return clock.now_ns


class _PromptChunk:
    """Tokens of prompts that go through the layers together."""

    def __init__(self, system: System, state: RunState, first: int, tokens: int) -> None:
        world = state.world
        self.system, self.state, self.layers = system, state, world.layers
        self.counts = state.readers.chunk_counts(first, tokens)
        # A token of a prompt sees half of the prompt on average.
        attention = world.attention_ns(tokens, world.prompt // 2, prompt=True)
        self.start = Begin(attention + _launch_ns(system, world))
        self.shared_ns = world.shared_ns(tokens)
        self.outside_ns = world.outside_ns(tokens, 0)
        self.on_threads = cores_are_stated(world)

    def begin(self, layer: int) -> Begin:
        return self.start

    def work(self, layer: int, routed_ns: int, there_ns: Mapping[int, int]) -> LayerWork:
        state, tokens, how = self.state, self.counts[layer], self.system.mechanisms
        state.now_ns = routed_ns
        made = self.system.prompt(state, layer, tokens)
        work = self.system.work(state, layer, tokens, made)
        if work.on_cpu and self.on_threads:
            on_cpu = np.where(made.domain == CPU, tokens, 0)
            work = work._replace(cpu_ns=on_threads_ns(state.world, on_cpu, how.cpu_tasks))
        early = how.uploads_early
        return work._replace(shared_ns=self.shared_ns, uploads_early=early, copies=(), ahead=())

    def ran(self, layer: int, copies_ns: Mapping[int, int]) -> None:
        """Do nothing: prompts fill no caches."""
