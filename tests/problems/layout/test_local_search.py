"""The move engine: loads as kernel and checker count them, moves worth what they promise."""

import random

import numpy as np
import pytest

from moeopt.core.device_loads import OWN, loads_of
from moeopt.problems.layout.check import loads, objective, violations
from moeopt.problems.layout.heuristics import trimoe_layout, trimoe_layout_tuned
from moeopt.problems.layout.instance import DOMAINS, Instance, Solution
from moeopt.problems.layout.local_search import two_bins
from moeopt.problems.layout.local_search.annealing import Best, anneal
from moeopt.problems.layout.local_search.descent import kick
from moeopt.problems.layout.local_search.moves import best_devices, change, move
from moeopt.problems.layout.local_search.state import (
    NOBODY,
    Costs,
    SearchState,
    copy_of,
    costs_of,
    decision_of,
    objective_of,
    solution_of,
    state_of,
    unit_of,
)
from moeopt.problems.layout.local_search.two_bins import divide, repartition
from moeopt.problems.layout.paths import IDLE, STRIPED, Device
from moeopt.problems.layout.second_stage import Layout, tables
from tests.problems.layout.layout_random_instances import (
    KINDS,
    links_bind,
    random_instance,
    with_schema_2,
)


def instances(experts: int) -> list[Instance]:
    """Return 6 random instances of every kind, two of them of schema 2, and some of busy links."""
    made = [random_instance(seed, kind, experts) for kind in KINDS for seed in range(6)]
    made = [with_schema_2(of, n) if n % 3 == 1 else of for n, of in enumerate(made)]
    return [*made, *(links_bind(seed, experts) for seed in range(24))]


def experts_of(instance: Instance) -> np.ndarray:
    """Return the experts with tokens."""
    return np.flatnonzero(instance.path_times.active.any(axis=0))


def check_books(instance: Instance, state: SearchState) -> None:
    """Hold loads, slots and the longest DIMMs against the kernel and a state made anew."""
    costs, layout = costs_of(instance), Layout(state.resident, state.dimm)
    assert violations(instance, solution_of(instance, state)) == [], instance.name
    for s, table in enumerate(tables(instance, layout)):
        expected = loads_of(table, state.device[s], instance.dimms)
        found = state.loads[s] * unit_of(instance)
        # The kernel has no channels beyond the last one that some expert is read through.
        assert np.array_equal(found[: len(expected)], expected[: len(found)]), instance.name
        assert not found[len(expected) :].any(), instance.name
    again = state_of(instance, costs, layout, state.device)
    assert np.array_equal(state.free, again.free)
    assert np.array_equal(state.own_sum, again.own_sum)
    most = np.take_along_axis(state.loads, OWN + np.maximum(state.longest, 0), 1)[:, 0]
    assert np.array_equal(most, state.loads[:, OWN : OWN + instance.dimms].max(axis=1))
    value = objective(instance, solution_of(instance, state))
    assert objective_of(costs, state) * unit_of(instance) == value


def test_moves_keep_the_books() -> None:
    """After many random moves everything is what it is from scratch."""
    for instance in instances(experts=6):
        costs = costs_of(instance)
        state = state_of(instance, costs, *decision_of(trimoe_layout(instance)))
        rng = np.random.default_rng(0)
        for _ in range(40):
            kick(costs, state, experts_of(instance), rng)
        check_books(instance, state)


def test_a_move_is_worth_what_it_promises() -> None:
    """The change that `best_devices` gives is the checker's, and no other devices are better."""
    for seed, instance in enumerate(instances(experts=5)):
        rng = random.Random(seed)
        costs, unit = costs_of(instance), unit_of(instance)
        state = state_of(instance, costs, *decision_of(trimoe_layout_tuned(instance)))
        active = experts_of(instance).tolist()
        for _ in range(10):
            i, j = rng.choice(active), rng.choice([NOBODY, *active])
            if i == j:
                continue
            resident, dimm = rng.random() < 0.5, rng.randrange(-1, instance.dimms)
            if j != NOBODY:
                resident, dimm = bool(state.resident[j]), int(state.dimm[j])
            before = loads(instance, solution_of(instance, state))
            squares = _squares(costs, state)
            promised = [
                best_devices(costs, state, s, i, resident, dimm, j)
                for s in range(len(instance.scenarios))
            ]
            together = change(costs, state, i, resident, dimm, j)
            move(costs, state, i, resident, dimm, j)
            solution = solution_of(instance, state)
            spans = 0.0
            for s, after in enumerate(loads(instance, solution)):
                span = (after.makespan_ns - before[s].makespan_ns) / unit
                spans += instance.scenarios[s].weight * span
                assert promised[s][0] == span, instance.name
                assert after.makespan_ns == _best_of(instance, solution, s, (i, j))
            assert together[0] == spans
            assert together[1] == pytest.approx(_squares(costs, state) - squares, rel=1e-6, abs=1)


def test_annealing_keeps_slots_and_books() -> None:
    """However hot, no slots are exceeded, and the best state is what it is said to be."""
    improved = 0
    for seed, instance in enumerate(instances(experts=9)):
        costs, experts = costs_of(instance), experts_of(instance)
        state = state_of(instance, costs, *decision_of(trimoe_layout(instance)))
        first = objective_of(costs, state)
        of = copy_of(state)
        best = Best(of.resident, of.dimm, of.device, np.array([first]))
        draws = np.array([seed + 1], dtype=np.uint64)
        for temperature in (1.0, 0.01, 1e-4):
            anneal(costs, state, best, experts, draws, temperature * first + 1e-9, 1e-4, 300)
            check_books(instance, state)
        found = state_of(instance, costs, Layout(best.resident, best.dimm), best.device)
        check_books(instance, found)
        assert objective_of(costs, found) == best.objective[0] <= first
        improved += best.objective[0] < first
    assert improved > 30


def random_state(
    seed: int, experts: int = 7, *, channels: bool = False
) -> tuple[Instance, Costs, SearchState]:
    """Return a random layout with random devices on two or three DIMMs."""
    instance = random_instance(seed, "several scenarios", experts=experts)
    rng = np.random.default_rng(seed)
    dimms = int(rng.integers(2, 4))
    changed = {"dimms": dimms, "hbm_slots": experts, "dimm_slots": None}
    instance = Instance.model_validate(instance.model_dump() | changed)
    if channels:
        instance = with_schema_2(instance, seed, ["channels"])
    active = instance.path_times.active
    dimm = np.where(active.any(axis=0), rng.integers(0, dimms, experts), STRIPED)
    dimm[rng.random(experts) < 0.2] = STRIPED
    resident = rng.random(experts) < 0.2
    device = rng.choice([Device.GPU, Device.CPU, *[Device.NDP] * 3], size=active.shape)
    device = np.where((dimm == STRIPED) & (device == Device.NDP), Device.CPU, device)
    device = np.where(active, device, IDLE).astype(np.int64)
    costs = costs_of(instance)
    return instance, costs, state_of(instance, costs, Layout(resident, dimm), device)


def best_division(
    instance: Instance, costs: Costs, state: SearchState, d: int, e: int, slots: int
) -> float:
    """Return the least objective over all ways to divide the experts of two DIMMs.

    Those that hosts read stay where the DIMMs are on different channels.
    """
    rows = np.flatnonzero((state.dimm == d) | (state.dimm == e))
    if instance.channels is not None and instance.channels[d] != instance.channels[e]:
        on_host = (state.device == Device.CPU) | ((state.device == Device.GPU) & ~state.resident)
        rows = rows[~on_host[:, rows].any(axis=0)]
    best = objective_of(costs, state)
    for code in range(1 << len(rows)):
        side = (code >> np.arange(len(rows))) & 1
        dimm = state.dimm.copy()
        dimm[rows] = np.where(side == 1, d, e)
        if max((dimm == d).sum(), (dimm == e).sum()) <= slots:
            layout = Layout(state.resident, dimm)
            best = min(best, objective_of(costs, state_of(instance, costs, layout, state.device)))
    return best


@pytest.mark.parametrize(("slots", "channels"), [(7, False), (4, False), (7, True)])
def test_the_best_of_all_divisions(slots: int, channels: bool) -> None:
    """Forty states: the objective is that of the best division, and the books are kept."""
    gained = 0
    for seed in range(40):
        instance, costs, state = random_state(seed, channels=channels)
        state.free[1:] += slots - 7
        before = objective_of(costs, state)
        best = best_division(instance, costs, state, 1, 0, slots)
        divide(costs, state, 1, 0)
        assert objective_of(costs, state) == best, seed
        state.free[1:] -= slots - 7
        check_books(instance, state)
        gained += best < before
    assert gained > 12


def test_all_pairs() -> None:
    """No pair gains any more at the end."""
    for seed in range(10):
        instance, costs, state = random_state(seed)
        before = objective_of(costs, state)
        repartition(costs, state, lambda: False)
        after = objective_of(costs, state)
        assert after <= before
        for d in range(instance.dimms):
            for e in range(d):
                assert best_division(instance, costs, state, d, e, 7) == after


def test_more_experts_than_are_tried() -> None:
    """With 24 experts the longest are divided, the others stay, nothing gets worse."""
    for seed in range(3):
        instance, costs, state = random_state(seed, experts=24)
        before, where = objective_of(costs, state), state.dimm.copy()
        layout = Layout(state.resident, state.dimm)
        _, dram = instance.path_times.by_device(layout.resident, layout.dimm)
        of = np.take_along_axis(dram, np.maximum(state.device, 0)[None], 0)[0]
        work = np.where(state.device == IDLE, 0, of).sum(axis=0)
        divide(costs, state, 1, 0)
        moved = np.flatnonzero(state.dimm != where)
        assert objective_of(costs, state) <= before
        on_two = np.flatnonzero((where == 0) | (where == 1))
        short = on_two[np.argsort(-work[on_two], kind="stable")][two_bins.MOST_EXPERTS :]
        assert work[moved].min(initial=2**62) >= work[short].max(initial=0)


def test_stopping_leaves_a_whole_state() -> None:
    """Stopped before the first pair, nothing has changed."""
    _, costs, state = random_state(3)
    before = state.dimm.copy()
    repartition(costs, state, lambda: True)
    assert np.array_equal(state.dimm, before)


def test_dividing_ends() -> None:
    """Ties are decided by what falls on the whole; by each pair's longer sides this went round."""
    rng, experts, dimms = np.random.default_rng(22), 36, 12
    costs = Costs(np.ones(3), np.zeros((6, 3, experts)), np.zeros(6))
    costs.time[5] = rng.integers(1, 9, (experts, 3)).T
    rng = np.random.default_rng(22)
    rng.integers(1, 40, (experts, 3))
    dimm = rng.integers(0, dimms, experts)
    own = np.stack([np.bincount(dimm, of, dimms) for of in costs.time[5]])
    state = SearchState(
        np.zeros(experts, dtype=np.bool_),
        dimm,
        np.full((3, experts), int(Device.NDP), dtype=np.int64),
        np.column_stack([np.zeros((3, OWN)), own]),
        own.sum(axis=1),
        np.argsort(-own, axis=1, kind="stable")[:, :3].copy(),
        np.concatenate([[0], 36 - np.bincount(dimm, minlength=dimms)]),
    )
    asked = 0

    def stopped() -> bool:
        nonlocal asked
        asked += 1
        return asked > 20_000

    repartition(costs, state, stopped)
    assert asked < 20_000


def _squares(costs: Costs, state: SearchState) -> float:
    loads_ = state.loads.copy()
    dimms = loads_[:, 2:3] + loads_[:, OWN : OWN + len(state.free) - 1]
    every = np.column_stack([loads_[:, :2], dimms])
    return float((costs.weight * (every**2).sum(axis=1)).sum())


def _best_of(instance: Instance, solution: Solution, s: int, movable: tuple[int, int]) -> int:
    """Return the least makespan over the domains of the experts that moved, by the checker."""

    def able(expert: int) -> tuple[str | None, ...]:
        if expert == NOBODY or not instance.scenarios[s].tokens[expert]:
            return (None,)
        return DOMAINS if solution.dimm[expert] is not None else DOMAINS[:2]

    spans = []
    for first in able(movable[0]):
        for second in able(movable[1]):
            row = list(solution.assignment[s])
            row[movable[0]] = first
            if movable[1] != NOBODY:
                row[movable[1]] = second
            rows = [*solution.assignment[:s], row, *solution.assignment[s + 1 :]]
            tried = Solution.model_validate(solution.model_dump() | {"assignment": rows})
            spans.append(loads(instance, tried)[s].makespan_ns)
    return min(spans)
