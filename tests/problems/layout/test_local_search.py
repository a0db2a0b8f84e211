"""The move engine: loads as kernel and checker count them, moves worth what they promise."""

import random

import numpy as np
import pytest

from moeopt.core.device_loads import OWN, loads_of
from moeopt.problems.layout.check import loads, objective, violations
from moeopt.problems.layout.heuristics import trimoe_layout, trimoe_layout_tuned
from moeopt.problems.layout.instance import DOMAINS, Instance, Solution
from moeopt.problems.layout.local_search.descent import kick
from moeopt.problems.layout.local_search.moves import best_devices, change, move
from moeopt.problems.layout.local_search.state import (
    NOBODY,
    Costs,
    SearchState,
    costs_of,
    decision_of,
    objective_of,
    solution_of,
    state_of,
    unit_of,
)
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
