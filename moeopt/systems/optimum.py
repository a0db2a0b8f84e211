"""What a system's decisions would give at their optimum, on sampled layers and steps.

By kind of decision. *Within a step* (device, slices): exact on the step's loads and the system's
own state, which is the same with current information and by an oracle. *Stateful* (migrations,
cache contents) and *once per run* (residents, layout): by an oracle a bound, the free residents and
the free layout of each step with the system's slots; with the system's information the exact
decision on its forecast, rolling on a state of its own; rolling with hindsight is achievable.
*Forecast parameter*: the best value, never another assignment. *Quality*: the least time at the
loss of the system's own choice; undefined where its paper prices none. *None*: undefined.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from moeopt.problems.balance.instance import Instance as SlicesInstance
from moeopt.problems.layout.instance import Instance as LayoutInstance
from moeopt.problems.relayout.instance import Instance as RelayoutInstance
from moeopt.problems.relayout.instance import Solution as RelayoutSolution
from moeopt.problems.tri_domain.instance import Instance as ScheduleInstance
from moeopt.problems.tri_domain.layout_rule import STRIPED
from moeopt.solvers.run import solve

from .clock import Clock
from .cost_table import UNAVAILABLE_NS
from .published.cxl_ndp import CxlNdp
from .published.ktransformers import KTransformers
from .quality import CellTimes, at_best_widths
from .run import Cell, Run, execute
from .slices import slices_instance
from .system import Assignment, RunState, System, Unit, idle, work_of
from .work import GPU, NDP, Integers
from .world import World

CELL_LIMIT_S = 2.0
"""Seconds for one cell's optimum; what is open then counts with its bound."""

Units = Collection[Unit]


def cell_state(state: RunState, cell: Cell) -> RunState:
    """Return a system's state as it was when a cell was executed."""
    resident, dimm = state.resident.copy(), state.dimm.copy()
    resident[cell.layer], dimm[cell.layer] = cell.resident, cell.dimm
    ready = np.full(state.world.experts, -1, dtype=np.int64)
    return replace(state, resident=resident, dimm=dimm, ready_ns=ready, step=cell.step, now_ns=0)


def schedule_instance(state: RunState, cell: Cell, units: Units) -> ScheduleInstance:
    """Return the schedule of a cell on the devices of a system as an instance of `tri_domain`.

    What a system has no device for costs more than everything else together.
    """
    world = state.world
    offer = state.offer(cell.layer, cell.tokens)
    rows = np.flatnonzero(cell.tokens)
    table, width = world.table, state.width[cell.layer]
    striped = cell.dimm == STRIPED
    read = np.where(striped, table.read_ns["striped"][width], table.read_ns["localized"][width])
    calc = table.path_ns["gpu_hit"][width, cell.tokens]
    gpu = np.where(cell.resident, calc, np.maximum(offer.gpu_ns[0], calc))
    pcie = np.where(cell.resident, 0, np.maximum(table.fetch_ns[width], read))
    never = int(gpu[rows].sum()) + world.shared_ns(world.batch) + 1
    ndp = np.where(striped, -1, offer.ndp_ns[0] if _units(units) else never)
    cpu = offer.cpu_ns[0] if "cpu" in units else np.full_like(gpu, never)
    return ScheduleInstance.from_arrays(
        expert=rows,
        tokens=cell.tokens[rows],
        resident=cell.resident[rows],
        dimm=cell.dimm[rows],
        gpu_ns=np.maximum(gpu, pcie)[rows],
        gpu_calc_ns=calc[rows],
        pcie_ns=pcie[rows],
        cpu_ns=cpu[rows],
        ndp_ns=ndp[rows],
        gpu_dram_ns=np.where(cell.resident, 0, read)[rows],
        cpu_dram_ns=read[rows],
        dimms=world.dimms,
        gpu_base_ns=world.shared_ns(world.batch),
        name=f"step{cell.step}-layer{cell.layer}",
    )


def schedule_ns(state: RunState, cell: Cell, units: Units) -> int:
    """Return the least makespan of a cell's experts on a system's state: proven, or its bound."""
    return _bound_ns(state.world, schedule_instance(state, cell, units))


def layout_bound_ns(world: World, tokens: Integers, slots: int, units: Units) -> int:
    """Return a bound on a layer's experts over all residents and layouts with so many slots."""
    return _bound_ns(world, layout_instance(world, tokens, slots, units))


def _bound_ns(world: World, instance: ScheduleInstance | LayoutInstance | SlicesInstance) -> int:
    """Return the bound of an instance; several systems often share one."""
    key = instance.model_dump_json()
    if key not in world.cache:
        found = solve(instance, time_limit_s=CELL_LIMIT_S)
        assert found.bound is not None  # noqa: S101
        world.cache[key] = int(_first(found.bound))
    bound = world.cache[key]
    assert isinstance(bound, int)  # noqa: S101
    return bound


def layout_instance(world: World, tokens: Integers, slots: int, units: Units) -> LayoutInstance:
    """Return the choice of residents, layout and schedule of a layer as an instance of `layout`.

    What a system or machine has no device for costs more than everything else together.
    """
    table, base = world.table, world.shared_ns(world.batch)
    read = {name: int(of[0]) for name, of in table.read_ns.items()}
    costs = {f"{path}_ns": of[0][tokens] for path, of in table.path_ns.items()}
    costs["gpu_calc_ns"] = costs["gpu_hit_ns"]
    for name in ("striped", "localized"):
        fetch = max(int(table.fetch_ns[0]), read[name])
        costs[f"pcie_{name}_ns"] = np.full_like(tokens, fetch)
    left_out = {name for name in costs if name.startswith("cpu") and "cpu" not in units}
    if not _units(units):
        left_out |= {name for name in costs if name == "ndp_ns" or name.endswith("localized_ns")}
    there = {name: (of < UNAVAILABLE_NS) & (name not in left_out) for name, of in costs.items()}
    never = base + 1
    never += int(np.max([np.where(there[name], costs[name], 0) for name in costs], axis=0).sum())
    scenario: dict[str, Any] = {
        name: np.where(there[name], of, never)[None] for name, of in costs.items()
    }
    made: LayoutInstance = LayoutInstance.from_arrays(
        tokens=tokens[None],
        dimms=max(1, world.dimms),
        hbm_slots=min(slots, world.experts),
        gpu_base_ns=base,
        dram_striped_ns=read["striped"] if read["striped"] < UNAVAILABLE_NS else 0,
        dram_localized_ns=read["localized"] if read["localized"] < UNAVAILABLE_NS else 0,
        name="free",
        **scenario,
    )
    return made


def slices_ns(state: RunState, cell: Cell) -> int:
    """Return the least makespan of a cell's slices, shared experts beforehand on the GPU."""
    instance = slices_instance(cell_state(state, cell), cell.layer, cell.tokens)
    return max(_bound_ns(state.world, instance), state.world.shared_ns(state.world.batch))


def best_count_ns(state: RunState, cell: Cell) -> int:
    """Return the least time of a cell over the number of experts that are uploaded (MoNDE)."""
    state = cell_state(state, cell)
    shared = state.world.shared_ns(state.world.batch)
    order = np.argsort(-cell.tokens, kind="stable")
    best = None
    for count in range(int(np.count_nonzero(cell.tokens)) + 1):
        domain = np.full_like(cell.tokens, NDP)
        domain[order[:count]] = GPU
        work = work_of(state, cell.layer, cell.tokens, Assignment(idle(domain, cell.tokens)))
        clock = Clock(state.world.dimms)
        clock.run(0, work._replace(shared_ns=shared))
        best = clock.now_ns if best is None else min(best, clock.now_ns)
    return best or 0


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
    from .relayouts import relayout_instance

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
    found = solve(instance, time_limit_s=CELL_LIMIT_S).solution
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

    Attributes
    ----------
    executed_ns
        As executed.
    same_ns
        The same information.
    oracle_ns
        By an oracle: never above `executed_ns` where decisions are within a step.
    achievable_ns
        By rolling with hindsight.
    """

    executed_ns: list[int]
    same_ns: list[int] | None = None
    oracle_ns: list[int] | None = None
    achievable_ns: list[int] | None = None


def optimum_of(system: System, run: Run) -> Optimum:
    """Return the optimum of a run's cells by the kinds of the system's decisions."""
    cells, state = run.cells, run.state
    assert state is not None  # noqa: S101
    executed = [cell.experts_ns for cell in cells]
    kinds = system.kinds
    if any(one.problem == "balance" for one in system.decisions):
        exact = [slices_ns(state, cell) for cell in cells]
        return Optimum(executed, exact, exact, exact)
    if "forecast parameter" in kinds:
        best = [best_count_ns(state, cell) for cell in cells]
        return Optimum(executed, executed, best, best)
    if "quality" in kinds:
        return _at_own_loss(system, run, executed)
    if "none" in kinds:
        return Optimum(executed)
    free = [
        layout_bound_ns(state.world, cell.tokens, _slots(system, cell), system.needs)
        for cell in cells
    ]
    if "within a step" not in kinds:
        return Optimum(executed, None, free)
    exact = [schedule_ns(cell_state(state, cell), cell, system.needs) for cell in cells]
    if "stateful" not in kinds:
        return Optimum(executed, exact, free, exact)
    same: dict[tuple[int, int], int] = {}
    achievable: dict[tuple[int, int], int] = {}
    for layer in {cell.layer for cell in cells}:
        steps = [cell for cell in cells if cell.layer == layer]
        found = rolling(system, state, steps)
        for cell, known, least in zip(steps, found.forecast_ns, found.hindsight_ns, strict=True):
            same[cell.step, layer], achievable[cell.step, layer] = known, least
    at = [(cell.step, cell.layer) for cell in cells]
    return Optimum(executed, [same[one] for one in at], free, [achievable[one] for one in at])


def _at_own_loss(system: System, run: Run, executed: list[int]) -> Optimum:
    """Return what widths, or counts of deferred experts, give at the loss of the system's own."""
    state, cells = run.state, run.cells
    assert state is not None  # noqa: S101
    world = state.world
    if isinstance(system, KTransformers) and system.defers(world):
        at = frozenset((cell.step, cell.layer) for cell in cells)
        best = execute(system.at_best_counts(), world, state.readers, cells=at)
        return Optimum(executed, [cell.experts_ns for cell in best.cells])
    if not isinstance(system, CxlNdp):
        return Optimum(executed)
    seen = system.seen(state)
    total = np.maximum(seen.sum(axis=1, keepdims=True), 1)
    known = np.rint(seen * (world.batch * world.model.top_k / total)).astype(np.int64)
    same, free = list[int](), list[CellTimes]()
    for cell in cells:
        there = cell_state(state, cell)
        layer, tokens = cell.layer, cell.tokens
        same.append(at_best_widths(system, there, layer, tokens, known[layer]).executed_ns)
        free.append(at_best_widths(system, there, layer, tokens, tokens))
    oracle = [one.bound_ns for one in free]
    return Optimum(executed, same, oracle, [one.executed_ns for one in free])


def _slots(system: System, cell: Cell) -> int:
    """Return how many experts of a cell's layer may lie on the GPU: its own, and two prefetches."""
    return int(cell.resident.sum()) + 2 * ("stateful" in system.kinds)


def _units(units: Units) -> bool:
    return "ndp" in units or "cxl" in units


def _first(value: int | Sequence[int]) -> int:
    return value if isinstance(value, int) else value[0]
