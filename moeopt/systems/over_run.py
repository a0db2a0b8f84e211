"""Residents that are chosen once per run, at their optimum: by the profile, and by the run itself.

What a system decides beside them stays of its kind: exact within a step where it schedules, or its
own rule. Steps of a layer are compared by their sum, as no choice is the best in each of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .cells import cell_state, clock_ns, schedule_ns, slices_ns
from .residents import StepPaths, best_residents
from .run import Cell, Run
from .slices import slices_instance
from .system import RunState, System
from .work import Integers

PROFILE_STEPS = 64
"""Most steps of the profile by which residents are chosen; fewer where it has no more."""


@dataclass(frozen=True)
class OverRun:
    """What the cells of one layer take together with residents chosen once, in ns.

    Attributes
    ----------
    same_ns
        With those that are the best on steps of the profile.
    bound_ns
        At the least, with any that are as many.
    achievable_ns
        With those that were found for these very steps, or the system's own.
    """

    same_ns: int
    bound_ns: int
    achievable_ns: int


def chooses_residents(system: System) -> bool:
    """Tell whether a system chooses residents once per run, and nothing that changes them."""
    once = any(one.kind == "once per run" for one in system.decisions)
    return once and "stateful" not in system.kinds and "cxl" not in system.needs


def over_run(system: System, run: Run) -> dict[int, OverRun]:
    """Return what each sampled layer takes over its sampled steps."""
    state = run.state
    assert state is not None  # noqa: S101
    profile = state.readers.on_profile(PROFILE_STEPS)
    found = {}
    for layer in sorted({cell.layer for cell in run.cells}):
        cells = [cell for cell in run.cells if cell.layer == layer]
        slots = int(state.resident[layer].sum())
        seen = [
            step_paths(system, replace(state, readers=profile), layer, step)
            for step in range(profile.steps)
        ]
        came = [
            step_paths(system, state, layer, cell.step, extra=int(cell.resident.sum()) - slots)
            for cell in cells
        ]
        best = best_residents(came, slots)
        found[layer] = OverRun(
            same_ns=_taken(system, state, cells, best_residents(seen, slots).resident),
            bound_ns=best.bound_ns,
            achievable_ns=min(
                _taken(system, state, cells, one) for one in (best.resident, state.resident[layer])
            ),
        )
    return found


def _taken(
    system: System, state: RunState, cells: Sequence[Cell], resident: NDArray[np.bool_]
) -> int:
    """Return what cells take together with other residents.

    As many others as before come ahead of time: those of which most is expected.
    """
    total = 0
    for cell in cells:
        ahead = int(cell.resident.sum() - state.resident[cell.layer].sum())
        there = resident.copy()
        there[np.argsort(np.where(resident, 0, -cell.average), kind="stable")[:ahead]] = True
        changed = replace(cell, resident=there)
        if any(one.problem == "balance" for one in system.decisions):
            total += slices_ns(state, changed)
        elif "within a step" in system.kinds:
            total += schedule_ns(cell_state(state, changed), changed, system.needs)
        else:
            total += clock_ns(system, state, changed)
    return total


def step_paths(
    system: System, state: RunState, layer: int, step: int, *, extra: int = 0
) -> StepPaths:
    """Return what the experts of a layer may do in a step of the state's readers.

    Parameters
    ----------
    extra
        How many were uploaded ahead of time.
    """
    tokens = state.readers.step_counts(step)[layer]
    if any(one.problem == "balance" for one in system.decisions):
        return _slice_paths(state, layer, tokens)
    nobody = np.zeros_like(state.resident[layer])
    away = cell_state(
        state, Cell(step, layer, tokens, nobody, state.dimm[layer], state.average[layer], 0)
    )
    made = system.route(away, layer, tokens)
    own = state.width[layer]
    width = own if made.width is None else made.width
    table, active = state.world.table, tokens > 0
    read = np.where(active, table.read_ns["striped"][width], 0)
    pcie = np.where(active, np.maximum(table.fetch_ns[width], read), 0)
    none = np.zeros_like(tokens)

    def on(path: str, rows: Integers) -> Integers:
        return np.asarray(table.path_ns[path][rows, tokens])

    # Devices: GPU, PCIe, DIMMs, CPU.
    paths = [
        [on("gpu_hit", own), none, none, none],
        [on("gpu_hit", width), pcie, read, none],
    ]
    if "cpu" in system.needs:
        paths.append([none, none, read, on("cpu_striped", width)])
    base = np.array([state.world.shared_ns(state.world.batch), 0, 0, 0])
    return StepPaths(np.array(paths), base, extra)


def _slice_paths(state: RunState, layer: int, tokens: Integers) -> StepPaths:
    """Return the same of experts that are cut over all units."""
    instance = slices_instance(state, layer, tokens)
    units, shared = instance.ndp_units, state.world.shared_ns(state.world.batch)
    gpu, ndp = np.zeros((2, len(tokens)), dtype=np.int64)
    rows = np.flatnonzero(tokens)
    gpu[rows] = [units * one.slice_gpu_ns for one in instance.experts]
    ndp[rows] = [one.slice_ndp_ns for one in instance.experts]
    pcie = np.where(tokens > 0, units * instance.slice_transfer_ns, 0)
    none = np.zeros_like(tokens)
    # Devices: GPU, PCIe, each unit. Activations go to the units unless these have nothing to do:
    # where leaving all to the units is no slower than that, they have.
    overhead = instance.ndp_overhead_ns
    on_gpu = shared + int(gpu.sum())
    at_units = max(int(ndp.sum()) + overhead, shared)
    cost = np.array([[gpu, none, none], [gpu, pcie, none], [none, none, ndp]])
    return StepPaths(cost, np.array([shared, 0, overhead if on_gpu >= at_units else 0]))
