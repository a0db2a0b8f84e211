"""What a system's decisions would give at their optimum, on sampled layers and steps.

By kind of decision. *Within a step* (device, slices): exact on the step's loads and the system's
own state, which is the same with current information and by an oracle. *Once per run* (residents):
with the system's information the best on steps of its profile; by an oracle a bound on all sampled
steps of a layer together with any residents, as many as the system's; what is found for these steps
is achievable. *Stateful* (migrations, cache contents): by an oracle a bound, the free residents and
the free layout of each step with the system's slots; with the system's information the exact
decision on its forecast, rolling on a state of its own; rolling with hindsight is achievable.
*Forecast parameter*: the best value, never another assignment. *Quality*: the least time at the
loss of the system's own choice, over all sampled steps of a layer as it is made once; undefined
where its paper prices none. *None*: undefined.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from moeopt.problems.relayout.instance import Instance as RelayoutInstance
from moeopt.problems.relayout.instance import Solution as RelayoutSolution
from moeopt.problems.tri_domain.layout_rule import STRIPED
from moeopt.solvers.run import solve

from .cells import (
    CELL_WORK,
    ENOUGH_GAP,
    best_count_ns,
    cell_state,
    layout_bound_ns,
    schedule_ns,
)
from .over_run import chooses_residents, over_run
from .published.cxl_ndp import CxlNdp
from .published.ktransformers import KTransformers
from .quality import at_best_widths
from .relayouts import FREE_SLOTS, relayout_instance
from .run import Cell, Run, execute
from .system import RunState, System
from .work import Integers


@dataclass(frozen=True)
class Rolling:
    """What exact migrations give, cell by cell, in ns."""

    forecast_ns: list[int]
    hindsight_ns: list[int]


def rolling(system: System, state: RunState, cells: Sequence[Cell]) -> Rolling:
    """Return exact migrations on the forecast, and with hindsight, each on a layout of its own.

    The cells are consecutive steps of one layer; both start from the layout of the first.
    """
    from .published.trimoe import TriMoE, window_ns

    assert isinstance(system, TriMoE)  # noqa: S101
    window, move_ns = window_ns(state.world), system.move_ns(state.world)
    found: tuple[list[int], list[int]] = ([], [])
    for known, spans in zip((False, True), found, strict=True):
        dimm, resident = cells[0].dimm.copy(), cells[0].resident.copy()
        for cell in cells:
            tokens = cell.tokens if known else np.rint(cell.average).astype(np.int64)
            at = cell_state(state, replace(cell, dimm=dimm, resident=resident))
            there = resident
            if tokens.any():
                instance = relayout_instance(at, cell.layer, tokens, window, move_ns)
                dimm, there = _migrated(instance, dimm, resident)
            moved = replace(cell, dimm=dimm, resident=there)
            spans.append(schedule_ns(cell_state(state, moved), moved, system.needs))
    return Rolling(*found)


def _migrated(
    instance: RelayoutInstance, dimm: Integers, resident: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> tuple[Integers, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Return layout and residents after the best migrations that the limit finds."""
    # Its own algorithm begins from the same heuristic and bound, and no proof is used here.
    found = solve(
        instance,
        work_limit=CELL_WORK,
        enough_gap=ENOUGH_GAP,
        warm_start=False,
        verify=False,
    ).solution
    dimm, there = dimm.copy(), resident.copy()
    if isinstance(found, RelayoutSolution):
        for one in found.migrations:
            if one.kind == "prefetch":
                there[one.expert] = True
            else:
                dimm[one.expert] = STRIPED if one.dimm is None else one.dimm
    return dimm, there


@dataclass(frozen=True)
class Optimum:
    """What a system's sampled cells take, and would take at the optimum, in ns; None: undefined.

    Lists have an entry for each cell, or for all cells of a layer together where something was
    decided once per run.

    Attributes
    ----------
    layer
        Of each entry.
    executed_ns
        As executed.
    same_ns
        The same information.
    oracle_ns
        By an oracle: never above `executed_ns`.
    achievable_ns
        With hindsight.
    """

    layer: list[int]
    executed_ns: list[int]
    same_ns: list[int] | None = None
    oracle_ns: list[int] | None = None
    achievable_ns: list[int] | None = None


def optimum_of(system: System, run: Run) -> Optimum:
    """Return the optimum of a run's cells by the kinds of the system's decisions."""
    cells, state = run.cells, run.state
    assert state is not None  # noqa: S101
    layers, executed = [cell.layer for cell in cells], [cell.experts_ns for cell in cells]
    kinds = system.kinds
    if chooses_residents(system):
        found = over_run(system, run)
        return Optimum(
            layer=list(found),
            executed_ns=[
                sum(cell.experts_ns for cell in cells if cell.layer == layer) for layer in found
            ],
            same_ns=[one.same_ns for one in found.values()],
            oracle_ns=[one.bound_ns for one in found.values()],
            achievable_ns=[one.achievable_ns for one in found.values()],
        )
    if "forecast parameter" in kinds:
        best = [best_count_ns(state, cell) for cell in cells]
        return Optimum(layers, executed, executed, best, best)
    if "quality" in kinds:
        return _at_own_loss(system, run, layers, executed)
    if "none" in kinds:
        return Optimum(layers, executed)
    free = [
        layout_bound_ns(state.world, cell.tokens, _slots(system, state, cell), system.needs)
        for cell in cells
    ]
    if "within a step" not in kinds:
        return Optimum(layers, executed, None, free)
    same: dict[tuple[int, int], int] = {}
    achievable: dict[tuple[int, int], int] = {}
    for layer in sorted(set(layers)):
        steps = [cell for cell in cells if cell.layer == layer]
        rolled = rolling(system, state, steps)
        for cell, known, least in zip(steps, rolled.forecast_ns, rolled.hindsight_ns, strict=True):
            same[cell.step, layer], achievable[cell.step, layer] = known, least
    at = [(cell.step, cell.layer) for cell in cells]
    return Optimum(
        layers, executed, [same[one] for one in at], free, [achievable[one] for one in at]
    )


def _at_own_loss(system: System, run: Run, layers: list[int], executed: list[int]) -> Optimum:
    """Return what widths, or counts of deferred experts, give at the loss of the system's own."""
    state, cells = run.state, run.cells
    assert state is not None  # noqa: S101
    world = state.world
    if isinstance(system, KTransformers) and system.defers(world):
        at = frozenset((cell.step, cell.layer) for cell in cells)
        best = execute(system.at_best_counts(), world, state.readers, cells=at)
        return Optimum(layers, executed, [cell.experts_ns for cell in best.cells])
    if not isinstance(system, CxlNdp):
        return Optimum(layers, executed)
    seen = system.seen(state)
    total = np.maximum(seen.sum(axis=1, keepdims=True), 1)
    known = np.rint(seen * (world.batch * world.model.top_k / total)).astype(np.int64)
    of = {one: [cell for cell in cells if cell.layer == one] for one in sorted(set(layers))}
    alone = [at_best_widths(system, state, steps) for steps in of.values()]
    return Optimum(
        layer=list(of),
        executed_ns=[sum(cell.experts_ns for cell in steps) for steps in of.values()],
        same_ns=[
            at_best_widths(system, state, steps, [known[layer]]).executed_ns
            for layer, steps in of.items()
        ],
        oracle_ns=[one.bound_ns for one in alone],
        achievable_ns=[one.executed_ns for one in alone],
    )


def _slots(system: System, state: RunState, cell: Cell) -> int:
    """Return how many experts of a cell's layer may lie on the GPU, those prefetched included."""
    prefetches = any(one.problem == "relayout" for one in system.decisions)
    return state.room(cell.layer) + FREE_SLOTS * prefetches
