"""A second checker, and the optimum of tiny instances: arrays of all decisions at once.

Written from `formulations/layout/spec.md` alone, for schema 1 and 2 and several copies. It shares
nothing with the package but the fields of instances and solutions.
"""

from itertools import product

import numpy as np
from numpy.typing import NDArray

from tests.rooms.layout import Instance, Solution

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

NOWHERE, GPU, CPU, NDP = -1, 0, 1, 2
STRIPED = 0
"""Places: striped, then 1 + the number of a DIMM."""


def makespans(instance: Instance, s: int, resident: Flags, place: Ints, domain: Ints) -> Ints:
    """Return the makespan of scenario s under many decisions, shape (decisions,).

    Parameters
    ----------
    resident, place, domain
        Shape (decisions, experts): who is in the GPU's memory, the place that each expert is run
        from, and its domain (`NOWHERE`, `GPU`, `CPU`, `NDP`).
    """
    of = instance.scenarios[s]
    local = place != STRIPED
    on_gpu, on_cpu, on_ndp = domain == GPU, domain == CPU, domain == NDP
    hit, miss = on_gpu & resident, on_gpu & ~resident

    def either(striped_ns: object, local_ns: object) -> Ints:
        return np.where(local, np.array(local_ns), np.array(striped_ns))

    parts = of.gpu_calc_ns is not None
    whole = either(of.gpu_miss_striped_ns, of.gpu_miss_localized_ns)
    of_gpu = np.array(of.gpu_calc_ns)[None] if parts else whole
    gpu = (np.array(of.gpu_hit_ns) * hit + of_gpu * miss).sum(1) + (instance.gpu_base_ns or 0)
    cpu = (either(of.cpu_striped_ns, of.cpu_localized_ns) * on_cpu).sum(1)
    devices = [gpu, cpu]
    if parts:
        devices.append((either(of.pcie_striped_ns, of.pcie_localized_ns) * miss).sum(1))
    reads = miss | on_cpu
    striped_reads = (reads & ~local).sum(1)
    part, full = instance.dimm_share or (1, 1)
    charge = -(-instance.dram_striped_ns * part // full)
    lambda_ns = instance.dram_localized_ns
    at = [place == 1 + d for d in range(instance.dimms)]
    local_reads = [lambda_ns * (reads & here).sum(1) for here in at]
    for here, read in zip(at, local_reads, strict=True):
        own = (np.array(of.ndp_ns) * (on_ndp & here)).sum(1)
        devices.append(charge * striped_reads + read + own)
    for channel in set(instance.channels or ()):
        through = [
            r for r, c in zip(local_reads, instance.channels or (), strict=True) if c == channel
        ]
        devices.append(instance.dram_striped_ns * striped_reads + np.sum(through, axis=0))
    return np.asarray(np.max(devices, axis=0))


def keeps(instance: Instance, resident: Flags, lies: Flags) -> Flags:
    """Tell which layouts keep LA-C3, LA-C4, LA-C10 and LA-C11, and lie somewhere.

    Parameters
    ----------
    resident, lies
        Shapes (layouts, experts) and (layouts, experts, 1 + dimms).
    """
    held, several = lies[:, :, 1:].sum(1), instance.copies
    number = lies.sum(2)
    good = (resident.sum(1) <= instance.hbm_slots) & (number >= 1).all(1)
    if instance.dimm_slots is not None:
        good &= (held <= instance.dimm_slots).all(1)
    good &= (number <= (1 if several is None else several.max_per_expert)).all(1)
    if several is not None:
        share = -(-several.expert_bytes // instance.dimms)
        used = share * lies[:, :, 0].sum(1)[:, None] + several.expert_bytes * held
        good &= (several.reserved_bytes + used <= several.dimm_bytes).all(1)
    return np.asarray(good)


def judged(instance: Instance, solution: Solution) -> int | None:
    """Return the objective of a solution, None if it breaks a rule."""
    experts, dimms, windows = instance.experts, instance.dimms, len(instance.scenarios)
    copies = solution.copies if solution.copies is not None else ((),) * experts
    rows = (
        solution.resident,
        solution.dimm,
        copies,
        *solution.assignment,
        *(solution.source or ()),
    )
    if len(solution.assignment) != windows or any(len(row) != experts for row in rows):
        return None
    if solution.source is not None and len(solution.source) != windows:
        return None
    lies = np.zeros((1, experts, 1 + dimms), np.bool_)
    first = [STRIPED if d is None else 1 + d for d in solution.dimm]
    for e in range(experts):
        for at in (first[e], *(1 + d for d in copies[e])):
            if at > dimms or lies[0, e, at]:
                return None
            lies[0, e, at] = True
    resident = np.array([solution.resident])
    if not keeps(instance, resident, lies)[0]:
        return None
    total = 0
    for s, scenario in enumerate(instance.scenarios):
        chosen = solution.source[s] if solution.source is not None else (None,) * experts
        if any(d is not None and d not in copies[e] for e, d in enumerate(chosen)):
            return None
        place = [first[e] if d is None else 1 + d for e, d in enumerate(chosen)]
        names = (None, "gpu", "cpu", "ndp")
        domain = [names.index(of) - 1 for of in solution.assignment[s]]
        for tokens, of, at in zip(scenario.tokens, domain, place, strict=True):
            if (of == NOWHERE) == (tokens > 0) or (of == NDP and at == STRIPED):
                return None
        arrays = (resident, np.array([place]), np.array([domain]))
        total += scenario.weight * int(makespans(instance, s, *arrays)[0])
    return total


def optimum(instance: Instance) -> int:
    """Return the least objective over all layouts and all schedules."""
    return best(instance)[0]


def best(instance: Instance) -> tuple[int, Solution]:
    """Return the least objective over all layouts and all schedules, and a solution that has it."""
    experts, dimms = instance.experts, instance.dimms
    most = 1 if instance.copies is None else instance.copies.max_per_expert
    flags = product((False, True), repeat=1 + dimms)
    sets = np.array([of for of in flags if 1 <= sum(of) <= most])
    everywhere = range(1 + dimms)
    # An expert's run is a domain and a place; sets of places offer it.
    runs = np.array([*product((GPU, CPU), everywhere), *product((NDP,), everywhere[1:])])
    offers = sets[:, runs[:, 1]]
    value = np.zeros((2 * len(sets),) * experts, np.int64)
    for s, scenario in enumerate(instance.scenarios):
        table, _ = _table(instance, s, runs)
        for e in np.flatnonzero(scenario.tokens):  # of the runs that a layout offers, the best
            by_run = np.moveaxis(table, e, 0).reshape(len(runs), 2, *np.delete(table.shape, e))
            by_set = [by_run[of].min(axis=0) for of in offers]
            table = np.moveaxis(np.concatenate(by_set), 0, e)
        value += scenario.weight * table
    code = np.indices(value.shape).reshape(experts, -1).T
    good = np.flatnonzero(keeps(instance, code % 2 == 1, sets[code // 2]))
    at = good[value.ravel()[good].argmin()]
    return int(value.ravel()[at]), _solution(instance, code[at] % 2, sets[code[at] // 2], runs)


def _table(instance: Instance, s: int, runs: Ints) -> tuple[Ints, Ints]:
    """Return the makespan of every way to run a scenario, an axis per expert, and these ways.

    The codes along an axis are 2 x run + resident; an expert without tokens has one, 0.
    """
    busy = np.array(instance.scenarios[s].tokens) > 0
    shape = [2 * len(runs) if of else 1 for of in busy]
    code = np.indices(shape).reshape(len(shape), -1).T
    place, domain = runs[code // 2, 1], np.where(busy, runs[code // 2, 0], NOWHERE)
    return makespans(instance, s, code % 2 == 1, place, domain).reshape(shape), code


def _solution(instance: Instance, resident: Ints, lies: Flags, runs: Ints) -> Solution:
    """Return a layout with the best schedule of each scenario."""
    places = [np.flatnonzero(of).tolist() for of in lies]
    dimm_of = {place: place - 1 if place else None for place in range(1 + instance.dimms)}
    assignment, source = [], []
    for s, scenario in enumerate(instance.scenarios):
        table, code = _table(instance, s, runs)
        busy = np.array(scenario.tokens) > 0
        able = ((code % 2 == resident) & lies[np.arange(len(lies)), runs[code // 2, 1]]) | ~busy
        run = code[np.where(able.all(1), table.ravel(), np.iinfo(np.int64).max).argmin()] // 2
        row = list(zip(runs[run].tolist(), places, busy, strict=True))
        assignment.append([("gpu", "cpu", "ndp")[of[0]] if on else None for of, _, on in row])
        source.append([dimm_of[of[1]] if on and of[1] != at[0] else None for of, at, on in row])
    return Solution(
        instance=instance.name,
        resident=resident == 1,
        dimm=[dimm_of[at[0]] for at in places],
        copies=[[dimm_of[p] for p in at[1:]] for at in places] if instance.copies else None,
        source=source if instance.copies else None,
        assignment=assignment,
    )
