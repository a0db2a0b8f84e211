"""What a layer's experts take at the least in one step, by what a system may decide."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from moeopt.problems.balance.instance import Solution as SlicesSolution
from moeopt.problems.layout.instance import Instance as LayoutInstance
from moeopt.problems.registry import get_problem
from moeopt.problems.tri_domain.instance import Instance as ScheduleInstance
from moeopt.problems.tri_domain.layout_rule import STRIPED
from moeopt.solvers.run import solve

from .clock import Clock, LayerWork
from .cost_table import UNAVAILABLE_NS
from .run import Cell
from .slices import balanced_slices, slices_instance, slices_of, work_of_slices
from .system import Assignment, RunState, System, Unit, idle, work_of
from .work import GPU, NDP, Integers
from .world import World

CELL_WORK = 0.5
"""Units of work for one cell's optimum, everywhere alike; what is open counts by its bound."""

ENOUGH_GAP = 0.001
"""Relative gap at which a cell's bound is near enough: tables show less. It saves two thirds of the
time of the longest."""

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
    ndp = np.where(striped, -1, offer.ndp_ns[0] if has_units(units) else never)
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


def _bound_ns(world: World, instance: ScheduleInstance | LayoutInstance) -> int:
    """Return the bound of an instance; several systems often share one."""
    key = instance.model_dump_json()
    if key not in world.cache:
        found = solve(instance, work_limit=CELL_WORK, enough_gap=ENOUGH_GAP)
        problem = get_problem(instance.problem)
        bound_of = problem.bound(instance) if found.bound is None else found.bound
        world.cache[key] = int(_first(bound_of))
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
    if not has_units(units):
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
    """Return what a cell takes with the best slices, or with those of the paper's equations.

    Shared experts are on the GPU beforehand, which the slices do not know.
    """
    world, there = state.world, cell_state(state, cell)
    instance = slices_instance(there, cell.layer, cell.tokens)
    key = instance.model_dump_json()
    if key not in world.cache:
        found = solve(instance, work_limit=CELL_WORK).solution
        best = [balanced_slices(there, cell.layer, cell.tokens)]
        best += [slices_of(instance, found)] if isinstance(found, SlicesSolution) else []
        works = [work_of_slices(world, one) for one in best]
        world.cache[key] = min(_alone_ns(world, work) for work in works)
    taken = world.cache[key]
    assert isinstance(taken, int)  # noqa: S101
    return taken


def _alone_ns(world: World, work: LayerWork) -> int:
    """Return what a layer's work takes, after its shared experts, if every device is free."""
    clock = Clock(world.dimms)
    clock.run(0, work._replace(shared_ns=world.shared_ns(world.batch)))
    return clock.now_ns


def best_count_ns(state: RunState, cell: Cell) -> int:
    """Return the least time of a cell over the number of experts that are uploaded (MoNDE)."""
    state = cell_state(state, cell)
    order = np.argsort(-cell.tokens, kind="stable")
    best = None
    for count in range(int(np.count_nonzero(cell.tokens)) + 1):
        domain = np.full_like(cell.tokens, NDP)
        domain[order[:count]] = GPU
        work = work_of(state, cell.layer, cell.tokens, Assignment(idle(domain, cell.tokens)))
        taken = _alone_ns(state.world, work)
        best = taken if best is None else min(best, taken)
    return best or 0


def clock_ns(system: System, state: RunState, cell: Cell) -> int:
    """Return what a cell takes by a system's own rules if every device is free."""
    there = cell_state(state, cell)
    made = system.route(there, cell.layer, cell.tokens)
    return _alone_ns(state.world, system.work(there, cell.layer, cell.tokens, made))


def has_units(units: Units) -> bool:
    """Tell whether there are units beside memory."""
    return "ndp" in units or "cxl" in units


def _first(value: int | Sequence[int]) -> int:
    return value if isinstance(value, int) else value[0]
