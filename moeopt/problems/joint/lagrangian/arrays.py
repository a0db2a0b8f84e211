"""What the algorithm computes with: an instance with one of its contexts, as arrays."""

from copy import deepcopy
from dataclasses import dataclass

import numpy as np

from moeopt.core.clock import spend
from moeopt.problems.joint.instance import Instance, Solution

from .gpu_memory import others_since
from .kernels import (
    ARCS,
    LOST,
    MOST_SWAPPED,
    Decisions,
    Flags,
    Floats,
    Frame,
    Ints,
    Steps,
    run_steps,
)

RUN_WORK, ENTRIES = 1e-4, 2e7
"""Units of work that executing a plan takes, and entries that go into one of them."""


@dataclass(frozen=True)
class Arrays:
    """An instance as arrays.

    Attributes
    ----------
    steps
        See `Steps`.
    frames
        By context.
    row
        Of every entry, shape (entries,).
    loss, size
        Of experts, shape (layers, experts, widths), and in bytes, shape (widths,).
    """

    instance: Instance
    steps: Steps
    frames: tuple[Frame, ...]
    row: Ints
    loss: Ints
    size: Ints

    @classmethod
    def of(cls, instance: Instance) -> "Arrays":
        """Return the arrays of an instance."""
        rows = instance.rows
        shape = (instance.layers, instance.experts, len(instance.bits))
        loss = np.zeros(shape, dtype=np.int64)
        if instance.width_loss is not None:
            loss = np.array(instance.width_loss, dtype=np.int64)

        def times(tables: tuple[tuple[int, ...], ...]) -> Ints:
            most = int(rows.tokens.max(initial=0)) + 1
            known = np.array([table[:most] for table in tables], dtype=np.int64)
            return np.ascontiguousarray(known[:, rows.tokens].T)

        gpu_ns, cpu_ns = times(instance.gpu_ns), times(instance.cpu_ns)
        copy_ns = np.tile(np.array(instance.copy_ns), (rows.entries, 1))  # writable, as in kernels
        others = np.full(rows.entries, -1)
        if instance.max_ways:
            others = others_since(rows, instance.layers, instance.experts)
        steps = Steps(rows.start, rows.expert, gpu_ns, cpu_ns, copy_ns, rows.loss, others)
        return cls(
            instance=instance,
            steps=steps,
            frames=tuple(_frame(instance, number) for number in range(len(instance.contexts))),
            row=rows.row,
            loss=loss,
            size=np.array(instance.expert_bytes, dtype=np.int64),
        )

    def nowhere(self) -> Flags:
        """Return a flag for every entry that is not set."""
        return np.zeros(len(self.row), dtype=np.bool_)

    @property
    def cell(self) -> Ints:
        """Of every entry, layer x experts + expert."""
        layers, experts = self.instance.layers, self.instance.experts
        return self.row % layers * experts + self.steps.expert


def _frame(instance: Instance, number: int) -> Frame:
    """Return a context's frame; `relaxation` has the argument for `idle_ns`."""
    context = instance.contexts[number]
    attention = np.array(context.attention_ns, dtype=np.int64)
    shared = np.array(instance.shared_ns, dtype=np.int64)
    around = shared + np.append(attention + shared, 0)[1:]
    s = instance.hand_over_ns
    return Frame(
        attention, shared, np.minimum(s, around - s), context.step_ns, s, instance.host_copy
    )


@dataclass
class Choice:
    """Decisions as arrays; dispatch is decided by `cost`, each row for itself.

    Attributes
    ----------
    held, width
        Shape (layers, experts): residents, and places of widths.
    ways, deferred
        Shape (layers,).
    """

    context: int
    held: Flags
    width: Ints
    ways: Ints
    deferred: Ints

    def copy(self) -> "Choice":
        """Return a copy that can be changed."""
        return deepcopy(self)

    def decisions(self, hit: Flags) -> Decisions:
        """Return the same as compiled functions take it, with what the caches hold."""
        return Decisions(self.held, self.width, self.ways, self.deferred, hit)


@dataclass(frozen=True)
class Cost:
    """What a plan takes.

    Attributes
    ----------
    total_ns, copies_ns, loss, gpu_bytes, host_bytes
        As the checker counts them.
    swapped
        Entries that run on the CPU though the GPU holds them, shape (entries,).
    lengths
        Of the five arcs of every row, shape (rows, 5), as `kernels` has them.
    """

    total_ns: int
    copies_ns: int
    loss: int
    gpu_bytes: int
    host_bytes: int
    swapped: Flags
    lengths: Ints


def cost(arrays: Arrays, plan: Choice) -> Cost:
    """Return what a plan takes, with the dispatch that suits each row best."""
    i = arrays.instance
    spend(RUN_WORK + len(arrays.row) / ENTRIES)
    context = i.contexts[plan.context]
    frame, decisions = arrays.frames[plan.context], plan.decisions(arrays.nowhere())
    used, moved, swapped, arcs = scratch(arrays)
    steps_ns, copies_ns = run_steps(arrays.steps, frame, decisions, used, moved, swapped, arcs)
    lengths = arcs[:-1, :ARCS]
    idle = np.flatnonzero(lengths[:, 3] < 0)
    lengths[idle, 3] = frame.attention_ns[idle % i.layers]
    gpu_bytes, host_bytes, lost = uses(arrays, np.arange(i.layers), decisions).sum(axis=1).tolist()
    return Cost(
        total_ns=int(max(steps_ns, copies_ns)),
        copies_ns=int(copies_ns),
        loss=context.kv_loss + lost + int(arcs[:-1, LOST].sum()),
        gpu_bytes=context.kv_bytes + gpu_bytes,
        host_bytes=host_bytes,
        swapped=swapped,
        lengths=lengths,
    )


def uses(arrays: Arrays, layer: Ints, plan: Decisions) -> Ints:
    """Return bytes on GPU and host and the widths' loss of layers' decisions, shape (3, layers)."""
    size = arrays.size[plan.width]
    gpu = (size * plan.held).sum(axis=1) + plan.ways * (size * ~plan.held).max(axis=1)
    host = size.sum(axis=1) if arrays.instance.host_copy else (size * ~plan.held).sum(axis=1)
    lost = np.take_along_axis(arrays.loss[layer], plan.width[:, :, None], axis=2).sum(axis=(1, 2))
    return np.stack([gpu, host, lost])


def scratch(arrays: Arrays) -> tuple[Ints, Ints, Flags, Ints]:
    """Return what `run_steps` and `outcomes` write on."""
    used, moved = np.zeros(arrays.instance.experts, np.int64), np.zeros((MOST_SWAPPED, 2), np.int64)
    arcs = np.zeros((len(arrays.steps.start), ARCS + 3), dtype=np.int64)
    return used, moved, arrays.nowhere(), arcs


def room(arrays: Arrays, found: Cost) -> Floats:
    """Return what is left of GPU memory, host memory, loss and time for copies."""
    i = arrays.instance
    return np.array(
        [
            i.gpu_bytes - found.gpu_bytes,
            np.inf if i.host_bytes is None else i.host_bytes - found.host_bytes,
            np.inf if i.max_loss is None else i.max_loss - found.loss,
            found.total_ns - found.copies_ns,
        ]
    )


def fits(arrays: Arrays, found: Cost) -> bool:
    """Tell whether the budgets are kept; copies are part of the time."""
    return bool((room(arrays, found) >= 0).all())


def plan_of(instance: Instance, solution: Solution) -> Choice:
    """Return the arrays of a valid solution."""
    held = np.zeros((instance.layers, instance.experts), dtype=np.bool_)
    for row, chosen in zip(held, solution.resident, strict=True):
        row[list(chosen)] = True
    place = {bits: j for j, bits in enumerate(instance.bits)}
    width = [[place[bits or 0] for bits in row] for row in solution.bits]
    return Choice(
        solution.context or 0,
        held,
        np.array(width, dtype=np.int64),
        np.array([ways or 0 for ways in solution.ways], dtype=np.int64),
        np.array([count or 0 for count in solution.deferred], dtype=np.int64),
    )


def solution_of(arrays: Arrays, plan: Choice, found: Cost) -> Solution:
    """Return a plan as a solution."""
    i = arrays.instance
    entries = np.flatnonzero(found.swapped)
    steps, layers = np.divmod(arrays.row[entries], i.layers)
    swapped = zip(
        steps.tolist(), layers.tolist(), arrays.steps.expert[entries].tolist(), strict=True
    )
    return Solution(
        instance=i.name,
        context=plan.context,
        resident=tuple(tuple(np.flatnonzero(row).tolist()) for row in plan.held),
        bits=tuple(tuple(i.bits[j] for j in row) for row in plan.width.tolist()),
        ways=tuple(plan.ways.tolist()),
        deferred=tuple(plan.deferred.tolist()),
        swapped=tuple(swapped),
    )
