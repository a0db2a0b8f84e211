"""Layers that are alike, counted: a small model of how many of a class lie where.

Two layers are of one class if all their times and bytes are equal. Of a split only these numbers
are kept: how many layers of each class have attention on g and experts on h, and how often the
activations go from there to attention on g'. Memory is a sum over these numbers, and so is the
time. So whatever split there is gives numbers that satisfy the model, at its objective: the model
is a relaxation, and what CP-SAT proves of it in integers holds for all splits.

Proof that it loses little. Numbers that satisfy the model are a walk from the source through
devices and back if what they use hangs together (Euler): with an order, or where all layers are
alike, in which classes follow each other is all that is lost. `realised` looks for a split of the
same numbers of attention by device, with the best homes of the experts for it, exactly: for given
attention, layers no longer touch each other but in the memory.
"""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
from ortools.sat.python import cp_model

from moeopt.core.formulation import limit, spent

from .paths import FAR, Ints, Paths

MOST_S = 1.5
"""Deterministic seconds of CP-SAT for one model: most take a tenth of one."""


@dataclass(frozen=True)
class Counted:
    """What CP-SAT says of the model.

    Attributes
    ----------
    bound
        In ns; proven in integers.
    attention
        How many layers have attention on each device; None without a solution.
    infeasible
        Whether there is no split at all.
    """

    bound: int
    attention: Ints | None
    infeasible: bool


def classes_of(paths: Paths) -> tuple[Ints, Ints]:
    """Return each layer's class, and a layer of each class."""
    seen: dict[Hashable, int] = {}
    first: list[int] = []
    kinds = []
    for row in range(len(paths.has)):
        key = (
            paths.attention[row].tobytes(), paths.experts[row].tobytes(), int(paths.has[row]),
            int(paths.attention_bytes[row]), int(paths.experts_bytes[row]),
        )  # fmt: skip
        if key not in seen:
            first.append(row)
        kinds.append(seen.setdefault(key, len(seen)))
    return np.array(kinds, dtype=np.int64), np.array(first, dtype=np.int64)


def counted(paths: Paths, grid: int, known: int | None, remaining: float) -> Counted:
    """Solve the model with one worker for so many deterministic seconds.

    Parameters
    ----------
    grid
        All objectives are multiples of it.
    known
        An objective that is reached: only better ones are looked for.
    """
    kinds, first = classes_of(paths)
    sizes = np.bincount(kinds)
    model, count = cp_model.CpModel(), len(paths.room)
    terms: list[cp_model.IntVar] = []
    costs: list[int] = []

    def number(most: int, cost: int, name: str) -> cp_model.IntVar:
        found = model.new_int_var(0, most, name)
        terms.append(found)
        costs.append(cost // grid)
        return found

    lies: dict[tuple[int, int, int], cp_model.IntVar] = {}
    for kind, row in enumerate(first.tolist()):
        for g in range(count):
            for h in range(count) if paths.has[row] else (g,):
                if paths.attention[row, g] >= FAR or paths.experts[row, h] >= FAR:
                    continue
                cost = int(paths.attention[row, g])
                if paths.has[row]:
                    cost += int(paths.experts[row, h] + paths.hop[g, h])
                lies[kind, g, h] = number(int(sizes[kind]), cost, f"lies[{kind},{g},{h}]")
        own = [flag for (of, _, _), flag in lies.items() if of == kind]
        model.add(sum(own) == int(sizes[kind]))
    ordered = len(set(paths.place.tolist())) > 1
    layers = len(kinds)
    goes: dict[tuple[int, int, int], cp_model.IntVar] = {}
    ends: list[cp_model.IntVar] = []
    for g, h in sorted({(g if ordered else -1, h) for _, g, h in lies}):
        for after in range(count):
            if ordered and paths.place[after] < paths.place[g]:
                continue
            most = 1 if ordered and after != g else layers
            goes[g, h, after] = number(most, int(paths.hop[h, after]), f"goes[{g},{h},{after}]")
        end = number(1, int(paths.hop[h, paths.source]), f"ends[{g},{h}]")
        ends.append(end)
        last = [
            var
            for (kind, a, b), var in lies.items()
            if kind == kinds[-1] and b == h and (not ordered or a == g)
        ]
        model.add(end <= sum(last))
        out = sum(var for (a, b, _), var in goes.items() if (a, b) == (g, h)) + end
        here = [v for (_, a, b), v in lies.items() if b == h and (not ordered or a == g)]
        model.add(out == sum(here))
    model.add(sum(ends) == 1)
    starts = [number(1, int(paths.hop[paths.source, g]), f"starts[{g}]") for g in range(count)]
    model.add(sum(starts) == 1)
    for after, start in enumerate(starts):
        first_layer = (v for (kind, g, _), v in lies.items() if kind == kinds[0] and g == after)
        model.add(start <= sum(first_layer))
    for after in range(count):
        into = sum(var for (_, _, to), var in goes.items() if to == after) + starts[after]
        model.add(into == sum(var for (_, g, _), var in lies.items() if g == after))
        if ordered:
            entered = [v for (a, _, to), v in goes.items() if to == after and a != after]
            used = model.new_bool_var(f"used[{after}]")
            model.add(sum(entered) + starts[after] == used)
            model.add(sum(v for (_, g, _), v in lies.items() if g == after) <= layers * used)
    for device in range(count):
        held = []
        for (kind, g, h), var in lies.items():
            row = first[kind]
            size = int(paths.attention_bytes[row]) * (g == device)
            size += int(paths.experts_bytes[row]) * (h == device)
            if size:
                held.append(size * var)
        if held:
            model.add(sum(held) <= max(0, int(paths.room[device])))
    total = cp_model.LinearExpr.weighted_sum(terms, costs)
    if known is not None:
        model.add(total <= known // grid - 1)
    model.minimize(total)
    solver, status = _solved(model, remaining)
    if status == cp_model.INFEASIBLE:
        return Counted(0 if known is None else known, None, known is None)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Counted(0, None, False)
    attention = np.zeros(count, dtype=np.int64)
    for (_, g, _), var in lies.items():
        attention[g] += solver.value(var)
    return Counted(round(solver.best_objective_bound) * grid, attention, False)


def realised(paths: Paths, attention: Ints, remaining: float) -> Ints | None:
    """Return homes with so many layers' attention on each device; None if none was found.

    Attention lies in consecutive blocks, in the order, else by number of the device. For that
    attention the homes of the experts are the best ones, if time suffices: layers of a class whose
    attention, and the next layer's, are on the same devices are counted together.
    """
    count = len(paths.room)
    ways = sorted(range(count), key=lambda device: (int(paths.place[device]), device))
    at = np.repeat(ways, attention[ways]).astype(np.int64)
    used = np.bincount(at, paths.attention_bytes, count)
    rows = np.arange(len(at))
    if (used > paths.room).any() or (paths.attention[rows, at] >= FAR).any():
        return None
    after = np.concatenate([at[1:], [paths.source]])
    kinds, _ = classes_of(paths)
    groups: dict[tuple[int, int, int], list[int]] = {}
    for row in np.flatnonzero(paths.has).tolist():
        key = (int(kinds[row]), int(at[row]), int(after[row]))
        groups.setdefault(key, []).append(row)
    model = cp_model.CpModel()
    terms: list[cp_model.IntVar] = []
    costs: list[int] = []
    lies: dict[tuple[int, int, int], list[cp_model.IntVar]] = {}
    used_by: list[list[tuple[int, cp_model.IntVar]]] = [[] for _ in range(count)]
    for key, members in groups.items():
        _, g, following = key
        row = members[0]
        lies[key] = []
        for h in range(count):
            can = paths.experts[row, h] < FAR
            number = model.new_int_var(0, len(members) if can else 0, f"lies[{key},{h}]")
            lies[key].append(number)
            if can:
                terms.append(number)
                hops = paths.hop[g, h] + paths.hop[h, following]
                costs.append(int(paths.experts[row, h] + hops))
                used_by[h].append((int(paths.experts_bytes[row]), number))
        model.add(sum(lies[key]) == len(members))
    for device, found in enumerate(used_by):
        if found:
            left = int(paths.room[device] - used[device])
            model.add(sum(size * number for size, number in found) <= left)
    model.minimize(cp_model.LinearExpr.weighted_sum(terms, costs))
    solver, status = _solved(model, remaining)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    homes = np.full((2, len(at)), -1, dtype=np.int64)
    homes[0] = at
    for key, members in groups.items():
        chosen = np.repeat(np.arange(count), [solver.value(number) for number in lies[key]])
        homes[1, members] = chosen
    return homes


def _solved(model: cp_model.CpModel, remaining: float) -> tuple[cp_model.CpSolver, object]:
    """Run CP-SAT with one worker, for `MOST_S` at most."""
    solver = cp_model.CpSolver()
    limit(solver.parameters, remaining)
    solver.parameters.max_deterministic_time = min(MOST_S, max(0.01, remaining))
    status = solver.solve(model)
    spent(solver)
    return solver, status
