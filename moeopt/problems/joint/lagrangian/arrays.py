"""What the algorithm computes with: an instance with one of its contexts, as arrays."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moeopt.problems.joint.check import layer_runs
from moeopt.problems.joint.instance import Instance
from moeopt.problems.joint.solution import Solution

from .kernels import run_steps

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Arrays:
    """An instance as arrays; row ``step * layers + layer``, entry: an expert with tokens in a row.

    Attributes
    ----------
    start, expert, row
        Where a row's entries begin, shape (rows + 1,); of an entry its expert and its row.
    gpu_ns, cpu_ns, copy_ns
        Shape (entries, widths).
    late_loss
        Of an entry that is deferred.
    seen
        Whether the expert was used in the layer before, shape (entries,).
    shared_ns, loss
        Shape (layers,) and (layers, experts, widths).
    """

    instance: Instance
    start: Ints
    expert: Ints
    row: Ints
    gpu_ns: Ints
    cpu_ns: Ints
    copy_ns: Ints
    late_loss: Ints
    seen: Flags
    shared_ns: Ints
    loss: Ints
    size: Ints

    @classmethod
    def of(cls, instance: Instance) -> "Arrays":
        """Return the arrays of an instance."""
        rows = instance.rows
        row = np.repeat(np.arange(len(rows.start) - 1), np.diff(rows.start))
        cell = row % instance.layers * instance.experts + rows.expert
        _, first = np.unique(cell, return_index=True)
        seen = np.ones(len(cell), dtype=np.bool_)
        seen[first] = False
        shape = (instance.layers, instance.experts, len(instance.bits))
        loss = np.zeros(shape, dtype=np.int64)
        if instance.width_loss is not None:
            loss = np.array(instance.width_loss, dtype=np.int64)

        def times(tables: tuple[tuple[int, ...], ...]) -> Ints:
            most = int(rows.tokens.max(initial=0)) + 1
            known = np.array([table[:most] for table in tables], dtype=np.int64)
            return np.ascontiguousarray(known[:, rows.tokens].T)

        copies = np.broadcast_to(np.array(instance.copy_ns), (len(cell), shape[2]))
        return cls(
            instance=instance,
            start=rows.start,
            expert=rows.expert,
            row=row,
            gpu_ns=times(instance.gpu_ns),
            cpu_ns=times(instance.cpu_ns),
            copy_ns=np.ascontiguousarray(copies),
            late_loss=rows.loss,
            seen=seen,
            shared_ns=np.array(instance.shared_ns, dtype=np.int64),
            loss=loss,
            size=np.array(instance.expert_bytes, dtype=np.int64),
        )

    @property
    def cell(self) -> Ints:
        """Of every entry, layer x experts + expert."""
        layers, experts = self.instance.layers, self.instance.experts
        return self.row % layers * experts + self.expert


@dataclass
class Plan:
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

    def copy(self) -> "Plan":
        """Return a copy that can be changed."""
        parts = (self.held, self.width, self.ways, self.deferred)
        return Plan(self.context, *(part.copy() for part in parts))


@dataclass(frozen=True)
class Cost:
    """What a plan takes.

    Attributes
    ----------
    total_ns, loss, gpu_bytes, host_bytes
        As the checker counts them.
    swapped
        Entries that run on the CPU though the GPU holds them, shape (entries,).
    lengths
        Of the five arcs of every row, shape (rows, 5), as `kernels` has them.
    """

    total_ns: int
    loss: int
    gpu_bytes: int
    host_bytes: int
    swapped: Flags
    lengths: Ints


def cost(arrays: Arrays, plan: Plan) -> Cost:
    """Return what a plan takes, with the dispatch that suits each row best."""
    i = arrays.instance
    context = i.contexts[plan.context]
    swapped = np.zeros(len(arrays.expert), dtype=np.bool_)
    lengths = np.zeros((len(arrays.start) - 1, 5), dtype=np.int64)
    steps_ns, copies_ns, late = run_steps(
        arrays.start,
        arrays.expert,
        arrays.gpu_ns,
        arrays.cpu_ns,
        arrays.copy_ns,
        arrays.late_loss,
        np.array(context.attention_ns, dtype=np.int64),
        arrays.shared_ns,
        i.hand_over_ns,
        context.step_ns,
        i.host_copy,
        plan.held,
        plan.width,
        plan.ways,
        plan.deferred,
        swapped,
        lengths,
    )
    size = arrays.size[plan.width]
    largest = np.where(plan.held, 0, size).max(axis=1)
    lost = np.take_along_axis(arrays.loss, plan.width[:, :, None], axis=2)
    return Cost(
        total_ns=max(steps_ns, copies_ns),
        loss=context.kv_loss + int(lost.sum()) + late,
        gpu_bytes=context.kv_bytes + int(size[plan.held].sum() + (plan.ways * largest).sum()),
        host_bytes=int(size.sum() if i.host_copy else size[~plan.held].sum()),
        swapped=swapped,
        lengths=lengths,
    )


def fits(arrays: Arrays, found: Cost) -> bool:
    """Tell whether the budgets are kept."""
    i = arrays.instance
    return (
        found.gpu_bytes <= i.gpu_bytes
        and (i.host_bytes is None or found.host_bytes <= i.host_bytes)
        and (i.max_loss is None or found.loss <= i.max_loss)
    )


def plan_of(instance: Instance, solution: Solution) -> Plan:
    """Return the arrays of a valid solution."""
    held = np.zeros((instance.layers, instance.experts), dtype=np.bool_)
    for row, chosen in zip(held, solution.resident, strict=True):
        row[list(chosen)] = True
    place = {bits: j for j, bits in enumerate(instance.bits)}
    width = [[place[bits or 0] for bits in row] for row in solution.bits]
    return Plan(
        solution.context or 0,
        held,
        np.array(width, dtype=np.int64),
        np.array([ways or 0 for ways in solution.ways], dtype=np.int64),
        np.array([count or 0 for count in solution.deferred], dtype=np.int64),
    )


def solution_of(arrays: Arrays, plan: Plan, found: Cost) -> Solution:
    """Return a plan as a solution."""
    i = arrays.instance
    entries = np.flatnonzero(found.swapped)
    steps, layers = np.divmod(arrays.row[entries], i.layers)
    swapped = zip(
        steps.tolist(), layers.tolist(), arrays.expert[entries].tolist(), strict=True
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


def runs_of(instance: Instance, solution: Solution) -> int:
    """Return how many experts the GPU runs."""
    return sum(len(run.gpu) for run in layer_runs(instance, solution))
