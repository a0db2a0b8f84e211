"""The table of modes: its loads are the checkers', its bounds and rows those of brute force."""

import random
from itertools import product

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moeopt import solve
from tests.problems.relayout import relayout_random_instances as relayout
from tests.problems.tri_domain.random_instances import (
    KINDS,
    random_instance,
    random_schema_2,
    with_copies,
)
from tests.rooms.core import cp_model
from tests.rooms.problems import ALL, SMOOTHING, Budget, Group, ModeTable, RunMode
from tests.rooms.relayout import kind_of, with_migrations
from tests.rooms.relayout import objective as relayout_objective
from tests.rooms.tri_domain import Instance, Solution, candidates, loads, modes_of, violations

Numbers = list[int]


def instances() -> list[Instance]:
    """Return instances of every kind, of both schemas, with and without copies."""
    made = [random_instance(seed, kind) for kind in KINDS for seed in range(3)]
    made += [random_schema_2(seed) for seed in range(10)]
    return (
        made
        + [
            with_copies(of, n, dual=n % 2 == 0)
            for n, of in enumerate(made)
            if "huge" not in of.name
        ][::2]
    )


def test_loads_are_the_checkers() -> None:
    """Device by device, for some valid schedules of each instance."""
    rng, seen = random.Random(5), 0
    for instance in instances():
        for _ in range(4):
            runs = [
                rng.choice(["gpu", "cpu", *["ndp"] * (e.dimm is not None)])
                for e in instance.experts
            ]
            solution = Solution(instance=instance.name, assignment=tuple(runs))
            if instance.has_copies:
                source = [
                    rng.choice([None, *(c.dimm for c in e.copies or ())]) for e in instance.experts
                ]
                solution = solution.model_copy(update={"source": tuple(source)})
            if violations(instance, solution):
                continue
            chosen = modes_of(instance, solution)
            judged = loads(instance, solution)
            gpu, cpu, dimm, pcie, channel = instance.modes.loads(chosen)
            assert (gpu.tolist(), cpu.tolist()) == ([judged.gpu_ns], [judged.cpu_ns])
            assert tuple(dimm) == judged.dimm_ns
            assert (pcie.sum(), tuple(channel)) == (judged.pcie_ns, judged.channel_ns)
            assert instance.modes.makespan(chosen) == judged.makespan_ns
            assert judged.makespan_ns % instance.modes.grid == 0
            seen += 1
    assert seen > 60


def test_modes_are_what_the_checker_allows() -> None:
    """As many choices of modes as valid schedules, each expert by itself."""
    for instance in instances()[::3]:
        for row, expert in enumerate(instance.experts[:2]):
            alone = instance.model_copy(update={"experts": (expert,)})
            alone = Instance.model_validate(alone.model_dump())
            valid = [one for one in candidates(alone) if not violations(alone, one)]
            assert len(alone.modes.label) == len(valid), (instance.name, row)


@st.composite
def tables(draw: st.DrawFn) -> ModeTable:
    """Draw a small table: up to four experts, two groups and a budget."""
    members, number = [1, draw(st.integers(1, 3))], draw(st.integers(1, 4))
    counts = [draw(st.integers(1, 3)) for _ in range(number)]
    limit = draw(st.integers(0, 8))
    owner, start, entries = [], [0], []
    for expert, modes in enumerate(counts):
        for mode in range(modes):
            owner.append(expert)
            for resource, size in enumerate(members):
                if draw(st.booleans()):
                    at = draw(st.integers(-1 if size > 1 else 0, size - 1))
                    entries.append((resource, at, draw(st.integers(1, 20))))
            if mode and draw(st.booleans()):  # the first mode of each expert needs nothing
                entries.append((2, 0, draw(st.integers(1, 5))))
            start.append(len(entries))
    names = [
        tuple(f"{group}{member}" for member in range(size)) for group, size in enumerate(members)
    ]
    base = np.array([draw(st.integers(0, 9))])
    groups = (Group("gpu", names[0], base), Group("dimm", names[1], np.zeros(members[1], np.int64)))
    columns = np.array(entries, np.int64).reshape(-1, 3).T
    budgets = (Budget("window", ("window",), np.array([limit])),)
    label = tuple(RunMode("gpu") for _ in owner)
    return ModeTable(groups, budgets, np.array(owner), label, np.array(start), *columns)


def choices(table: ModeTable) -> list[tuple[int, bool]]:
    """Return the makespan of every choice of modes, and whether it keeps the budget."""
    modes = [np.flatnonzero(table.owner == expert) for expert in range(table.experts)]
    found = []
    for chosen in product(*modes):
        gpu, dimm = table.groups[0].base.copy(), np.zeros(len(table.groups[1].members), np.int64)
        used = 0
        for mode in chosen:
            for at in range(table.start[mode], table.start[mode + 1]):
                resource, member, ns = (
                    int(of[at]) for of in (table.resource, table.member, table.ns)
                )
                if resource == 0:
                    gpu += ns
                elif resource == 2:
                    used += ns
                else:
                    dimm[slice(None) if member == ALL else member] += ns
        assert table.makespan(np.array(chosen)) == max(gpu.max(), dimm.max())
        assert table.loads(np.array(chosen))[2].tolist() == [used]
        found.append((int(max(gpu.max(), dimm.max())), bool(used <= table.budgets[0].limit[0])))
    return found


def value(table: ModeTable, chosen: np.ndarray) -> float:
    """Return what a descent lowers: the makespan, and a little for uneven members."""
    busy = np.concatenate(table.loads(chosen)[:2]).astype(float)
    span = max(busy.max(), 1.0)
    return float(span + SMOOTHING * (busy**2).mean() / span)


@given(tables())
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
def test_bounds_hold_and_descents_are_schedules(table: ModeTable) -> None:
    """No bound is above the least makespan, with the budget where the bound knows it."""
    found = choices(table)
    least, within = min(found)[0], min(span for span, fits in found if fits)
    assert table.lagrangian_bound() <= within
    assert table.longest_expert() <= least
    assert max(table.unavoidable("gpu"), table.unavoidable("dimm")) <= least
    chosen = table.descended(table.first)
    assert table.owner[chosen].tolist() == list(range(table.experts))
    assert least <= table.makespan(chosen)
    for mode, expert in enumerate(table.owner):  # no other mode of one expert is better
        other = chosen.copy()
        other[expert] = mode
        assert value(table, chosen) <= value(table, other) * (1 + 1e-6)
    only = np.isin(np.arange(len(table.owner)), table.first)
    assert table.lagrangian_bound([(5, only), (5, None)]) <= within


@given(tables(), st.sampled_from(["", "common"]))
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_rows_of_cp_sat_are_the_loads(table: ModeTable, every: str) -> None:
    """The model of one mode each, serial members and a budget has the optimum of brute force."""
    model = cp_model.CpModel()
    chosen = [model.new_bool_var("") for _ in table.owner]
    makespan = model.new_int_var(0, 1000, "")
    for expert in range(table.experts):
        model.add_exactly_one(chosen[m] for m in np.flatnonzero(table.owner == expert).tolist())
    table.add_serial(model, "gpu", chosen, makespan, 1, 1000)
    table.add_serial(model, "dimm", chosen, makespan, 1, 1000, every)
    model.add(table.sum("window", (0,), chosen, 1) <= int(table.budgets[0].limit[0]))
    model.minimize(makespan)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model) == cp_model.OPTIMAL
    assert solver.value(makespan) == min(span for span, fits in choices(table) if fits)


def test_a_relayout_s_modes_use_windows_and_slots() -> None:
    """A solution's migrations are those of its modes, and its objective is their makespan."""
    seen = 0
    for seed in range(12):
        instance = relayout.random_instance(seed)
        found = solve(instance, "benefit-makespan")
        if found.solution is None:
            continue
        table = with_migrations(instance)
        by = {m.expert: m for m in found.solution.migrations}
        active = [e for e in instance.experts if e.tokens]
        chosen = []
        domains = dict(
            zip((e.expert for e in instance.experts), found.solution.assignment, strict=True)
        )
        for row, expert in enumerate(active):
            move = by.get(expert.expert)
            held = expert.resident or (move is not None and move.kind == "prefetch")
            dimm = move.dimm if move is not None and move.kind != "prefetch" else expert.dimm
            place = -1 if dimm is None else dimm
            if held and domains[expert.expert] == "gpu":
                place = -2
            [mode] = [
                at
                for at, label in enumerate(table.label)
                if table.owner[at] == row
                and (label.path, label.copy) == (domains[expert.expert], place)
            ]
            assert table.label[mode].migration == kind_of(
                place, -1 if expert.dimm is None else expert.dimm, expert.resident
            )
            chosen.append(mode)
        assert table.makespan(np.array(chosen)) == relayout_objective(instance, found.solution)
        assert table.lagrangian_bound() <= relayout_objective(instance, found.solution)
        seen += 1
    assert seen > 6
