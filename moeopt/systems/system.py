"""A published system: its choices, the information they are made with, and its mechanisms."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray

from moeopt.core.assumptions import assumed_name, check_assumed
from moeopt.problems.tri_domain.layout_rule import STRIPED
from moeopt.sim.costs.sockets import Sockets
from moeopt.sim.traces.predictor import ALPHA

from .assumptions import AS_PUBLISHED, ASSUMPTIONS, KERNEL_SHARES
from .clock import LayerWork, OnGpu
from .cost_table import UNAVAILABLE_NS, CostTable
from .migrations import Transfer
from .readers import Readers
from .threads import Tasks
from .work import CPU, GPU, NDP, NOWHERE, Flags, Integers, Offer
from .world import World, at_dimms

Unit = Literal["gpu", "cpu", "ndp", "cxl"]
"""What a machine may have: a CPU that computes experts, units beside DIMMs, or a CXL box."""

Kind = Literal["within a step", "once per run", "stateful", "forecast parameter", "quality", "none"]
"""How a decision's optimum is defined: see `moeopt.systems.optimum`."""


@dataclass(frozen=True)
class Mechanisms:
    """What a system does besides deciding.

    Attributes
    ----------
    launches_per_layer, launch_us
        Kernels that are launched one by one in each layer of a decode step or a chunk of prompts,
        and what each takes; none where one CUDA graph holds the step, or the paper does not say.
    whole_prompts
        Whether prompts of all requests go through the layers together, as memory allows; otherwise
        in parts of `World.ubatch` tokens.
    uploads_early
        Whether uploads of prompts run ahead of the layers, as every expert is needed.
    cpu_tasks
        How a prompt's experts on the CPU are spread over its threads.
    sockets
        How experts lie over the CPU's sockets, and who computes them, where a machine has several.
    most_batch
        Largest batch that the paper's system decodes; None: any.
    """

    launches_per_layer: int = 0
    launch_us: float = 0.0
    whole_prompts: bool = False
    uploads_early: bool = False
    cpu_tasks: Tasks = "static-all-threads"
    sockets: Sockets = "tensor-parallel"
    most_batch: int | None = None


@dataclass(frozen=True)
class Assignment:
    """Where each expert of a layer runs; arrays of shape (experts,).

    Attributes
    ----------
    domain
        `GPU`, `CPU`, `NDP`, or `NOWHERE` without tokens.
    late_tokens
        Tokens of experts on the CPU whose outputs join the next layer; None: none.
    width
        Rows of the cost table; None: as the state says.
    copies
        Experts that are copied into the layer's cache afterwards, in order.
    ahead
        Experts of the next layer to upload while the link is idle, in order.
    """

    domain: Integers
    late_tokens: Integers | None = None
    width: Integers | None = None
    copies: Sequence[int] = ()
    ahead: Sequence[int] = ()


@dataclass
class RunState:
    """Where everything lies while a system runs; arrays of shape (layers, experts).

    Attributes
    ----------
    resident
        Whether an expert's weights are in the GPU's memory.
    dimm
        The DIMM that holds it, or `STRIPED`.
    width
        Its row of the cost tables.
    loads
        Tokens of the last step; None before the first.
    average
        Exponential average of the loads of all steps so far; before the first, what the profile
        expects.
    step, now_ns
        The step that runs, and when its next experts may begin.
    ready_ns
        Shape (experts,): when the weights of this layer's experts are there that were uploaded
        ahead; -1 for others.
    """

    world: World
    readers: Readers
    resident: Flags
    dimm: Integers
    width: Integers
    average: NDArray[np.float64]
    loads: Integers | None = None
    step: int = 0
    now_ns: int = 0
    ready_ns: Integers = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    prompt: bool = False

    @classmethod
    def of(
        cls,
        world: World,
        readers: Readers,
        *,
        resident: Flags | None = None,
        dimm: Integers | None = None,
    ) -> "RunState":
        """Return the state before the first step; by default nothing is resident, all striped."""
        shape = (world.layers, world.experts)
        return cls(
            world=world,
            readers=readers,
            resident=np.zeros(shape, dtype=np.bool_) if resident is None else resident,
            dimm=np.full(shape, STRIPED) if dimm is None else dimm,
            width=np.zeros(shape, dtype=np.int64),
            average=expected(world, readers),
            ready_ns=np.full(world.experts, -1, dtype=np.int64),
        )

    @property
    def table(self) -> CostTable:
        """The costs of the phase that runs."""
        return self.world.prompt_table if self.prompt else self.world.table

    def room(self, layer: int) -> int:
        """Return how many experts of a layer the GPU holds for longer than a step, at most."""
        return int(self.resident[layer].sum())

    def saw(self, counts: Integers) -> None:
        """Remember the loads of a step, shape (layers, experts) (TriMoE Eq. 8)."""
        self.average = ALPHA * counts + (1 - ALPHA) * self.average
        self.loads = counts

    def offer(self, layer: int, tokens: Integers) -> Offer:
        """Return what the experts of a layer cost on each device, arrays of shape (1, experts).

        Experts uploaded ahead count as resident.
        """
        resident = self.resident[layer] | (self.ready_ns >= 0)
        table, dimm, width = self.table, self.dimm[layer], self.width[layer]
        striped = dimm == STRIPED

        def cost(path: str) -> Integers:
            return np.asarray(table.path_ns[path][width, tokens])

        def by_layout(path: str) -> Integers:
            if striped.all():
                return cost(f"{path}_striped")
            return np.where(striped, cost(f"{path}_striped"), cost(f"{path}_localized"))

        dram = np.where(striped, table.read_ns["striped"][width], table.read_ns["localized"][width])
        return Offer(
            dimms=self.world.dimms,
            tokens=tokens[None],
            resident=resident[None],
            dimm=dimm[None],
            gpu_ns=np.where(resident, cost("gpu_hit"), by_layout("gpu_miss"))[None],
            cpu_ns=by_layout("cpu")[None],
            ndp_ns=cost("ndp")[None],
            gpu_dram_ns=np.where(resident, 0, dram)[None],
            cpu_dram_ns=dram[None],
        )


@dataclass(frozen=True)
class SystemDecision:
    """A decision of a system.

    Attributes
    ----------
    name
        What is decided.
    problem, heuristic
        The problem that it is, and the heuristic that the system makes it by.
    kind
        How its optimum is defined.
    """

    name: str
    problem: str
    heuristic: str
    kind: Kind


class System(ABC):
    """A published system. Each is a small module; methods say what its paper decides, and how.

    Attributes
    ----------
    name, paper
        How it is called, and where it is described.
    needs
        Units that a machine must have.
    mechanisms
        What it does besides deciding.
    decisions
        What it decides, by which heuristic.
    assumed
        Values of its assumptions other than the defaults.
    """

    name: ClassVar[str]
    paper: ClassVar[str]
    needs: ClassVar[frozenset[Unit]]
    mechanisms: ClassVar[Mechanisms] = Mechanisms()
    decisions: ClassVar[tuple[SystemDecision, ...]] = ()

    def __init__(self, assumed: Mapping[str, str] | None = None) -> None:
        check_assumed(self.name, assumed or {}, ASSUMPTIONS, "systems")
        self.assumed = dict(assumed or {})

    @property
    def title(self) -> str:
        """Its name, with the assumptions that it was made with: ``trimoe[move_reads=yes]``."""
        return assumed_name(self.name, self.assumed)

    def takes(self, assumption: str) -> str:
        """Return the value of one of its assumptions (`moeopt.systems.assumptions`)."""
        [default] = [one.default for one in ASSUMPTIONS if one.name == assumption]
        return self.assumed.get(assumption, default)

    @property
    def kinds(self) -> frozenset[Kind]:
        """The kinds of its decisions."""
        return frozenset(one.kind for one in self.decisions)

    def on_host(self, world: World) -> World:
        """Return the world with the CPU as this system uses it.

        Raises
        ------
        InputError
            If an assumption asks for sockets that the machine lacks.
        """
        sockets = self.takes("sockets")
        if sockets == AS_PUBLISHED:
            several = len(world.machine.nodes) > 1
            sockets = self.mechanisms.sockets if several else "tensor-parallel"
        kernels = KERNEL_SHARES[self.takes("cpu_kernels")]
        return world.on_host(cast(Sockets, sockets), kernels)

    @abstractmethod
    def prepare(self, world: World, seen: Readers) -> RunState:
        """Decide what is decided once: residents, layout, widths; all from past loads."""

    def before(self, state: RunState, layer: int) -> Sequence[Transfer]:
        """Decide what migrates before a layer runs; changes the state."""
        return ()

    @abstractmethod
    def route(self, state: RunState, layer: int, tokens: Integers) -> Assignment:
        """Decide where each expert of a layer runs, for the tokens that come."""

    def prompt(self, state: RunState, layer: int, tokens: Integers) -> Assignment:
        """Decide the same for a chunk of prompts; by default as in a decode step."""
        return self.route(state, layer, tokens)

    def after_prompts(self, state: RunState) -> int:
        """Decide what prompts tell; return how long PCIe is busy with what is moved for it."""
        return 0

    def notes(self, world: World) -> Sequence[str]:
        """Return what is assumed or left out on a machine, in words."""
        return ()

    def copied(  # noqa: B027 - most systems have no cache to note them in
        self, state: RunState, layer: int, ends_ns: Mapping[int, int]
    ) -> None:
        """Take note of when copies into a layer's cache end, expert by expert."""

    def work(self, state: RunState, layer: int, tokens: Integers, made: Assignment) -> LayerWork:
        """Return what an assignment asks of each device."""
        return work_of(state, layer, tokens, made)


def expected(world: World, readers: Readers) -> NDArray[np.float64]:
    """Return the tokens that each expert is expected to get in a step, from the profile.

    Shape (layers, experts).
    """
    counts = readers.profile[: world.layers].astype(np.float64)
    total = np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    rates: NDArray[np.float64] = counts * (world.batch * world.model.top_k / total)
    return rates


def hottest(counts: NDArray[np.float64] | Integers, slots: int) -> Flags:
    """Return the most chosen experts over all layers together, ties to the first, as flags."""
    flags = np.zeros(counts.size, dtype=np.bool_)
    flags[np.argsort(-counts, axis=None, kind="stable")[:slots]] = True
    return flags.reshape(counts.shape)


def hottest_of_each(counts: NDArray[np.float64] | Integers, slots: int) -> Flags:
    """Return the most chosen experts of each layer, as many in all layers, as flags."""
    order = np.argsort(-counts, axis=1, kind="stable")[:, :slots]
    flags = np.zeros(counts.shape, dtype=np.bool_)
    np.put_along_axis(flags, order, True, axis=1)
    return flags


def with_popular(world: World, seen: Readers) -> RunState:
    """Return the state with the most popular experts of each layer on the GPU, all else striped."""
    resident = hottest_of_each(expected(world, seen), world.slots_per_layer)
    return RunState.of(world, seen, resident=resident)


def work_of(state: RunState, layer: int, tokens: Integers, made: Assignment) -> LayerWork:
    """Return what an assignment asks of each device; uploads go by falling tokens.

    An expert of which the CPU computes some tokens now and others late is read twice.
    """
    world, table = state.world, state.table
    width = state.width[layer] if made.width is None else made.width
    dimm, striped = state.dimm[layer], state.dimm[layer] == STRIPED
    ready = state.ready_ns
    there = state.resident[layer] | (ready >= 0)
    read = np.where(striped, table.read_ns["striped"][width], table.read_ns["localized"][width])
    on_gpu = np.flatnonzero(made.domain == GPU)
    upload = np.where(there[on_gpu], 0, np.maximum(table.fetch_ns[width[on_gpu]], read[on_gpu]))
    order = np.lexsort((-tokens[on_gpu], np.maximum(ready[on_gpu], 0), upload > 0))
    on_gpu, upload = on_gpu[order], upload[order]
    gpu_ns = check_there(table, "gpu_hit", table.path_ns["gpu_hit"][width[on_gpu], tokens[on_gpu]])
    cpu = "cpu_striped", "cpu_localized"

    def on_cpu(counts: Integers) -> tuple[int, Integers | None]:
        rows = np.flatnonzero((made.domain == CPU) & (counts > 0))
        if not len(rows):
            return 0, None
        striped_ns, localized_ns = (table.path_ns[path][width[rows], counts[rows]] for path in cpu)
        cost = check_there(table, cpu[0], np.where(striped[rows], striped_ns, localized_ns))
        # A token's outputs are put together once, whichever of its experts are there.
        most = min(int(counts[rows].sum()), -(-int(tokens.sum()) // world.model.top_k))
        return world.cpu_ns(rows, cost, most), world.cpu_reads_ns(rows, dimm[rows], read[rows])

    late = made.late_tokens
    cpu_ns, cpu_reads = on_cpu(tokens if late is None else tokens - late)
    later_ns, later_reads = (0, None) if late is None else on_cpu(late)
    ndp = np.flatnonzero(made.domain == NDP)
    moved = upload > 0
    check_there(table, "localized", upload)
    ndp_ns = check_there(table, "ndp", table.path_ns["ndp"][width[ndp], tokens[ndp]])
    uploads_ns = at_dimms(dimm[on_gpu[moved]], read[on_gpu[moved]], world.dimms)
    return LayerWork(
        gpu=OnGpu.of(gpu_ns, upload, np.maximum(ready[on_gpu], 0)),
        gpu_reads_ns=uploads_ns if moved.any() else None,
        cpu_reads_ns=cpu_reads,
        later_reads_ns=later_reads,
        ndp_ns=at_dimms(dimm[ndp], ndp_ns, world.dimms) if len(ndp) else None,
        on_cpu=bool(cpu_ns or later_ns),
        cpu_ns=cpu_ns,
        cpu_later_ns=later_ns,
        to_host_ns=world.sync_ns,
        to_gpu_ns=world.sync_ns,
        copies=[(expert, int(table.fetch_ns[width[expert]])) for expert in made.copies],
        ahead=[(expert, int(table.fetch_ns[0])) for expert in made.ahead],
    )


def check_there(table: CostTable, path: str, costs: Integers) -> Integers:
    """Return costs of a path, or raise InputError if the machine has no such path."""
    if len(costs) and int(costs.max()) >= UNAVAILABLE_NS:
        table.require(path)
    return costs


def idle(domain: Integers, tokens: Integers) -> Integers:
    """Return the domains with `NOWHERE` for experts without tokens."""
    return np.where(tokens > 0, domain, NOWHERE)
