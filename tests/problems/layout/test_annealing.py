"""Annealing: loads as the checker counts them after any moves, and states that keep the rules."""

import numpy as np
import pytest

from tests.problems.layout.layout_random_instances import (
    KINDS,
    links_bind,
    random_instance,
    with_schema_2,
)
from tests.problems.layout.test_layout_copies import permitting
from tests.rooms.algorithms import seeded
from tests.rooms.layout import (
    DOMAINS,
    Instance,
    Moves,
    Solution,
    State,
    annealed,
    annealing,
    fields_of,
    objective,
    rules_of,
    state_of,
    trimoe_layout,
    value_of,
    violations,
)

HOT = [1e3] * 4
"""So hot that every move is taken."""

ANY = Moves(0.3, 0.6, 0.8)


def instances(experts: int) -> list[Instance]:
    """Return 3 random instances of every kind, some of schema 2 or with copies, or busy links."""
    made = [random_instance(seed, kind, experts) for kind in KINDS for seed in range(3)]
    made = [with_schema_2(of, n) if n % 3 == 1 else of for n, of in enumerate(made)]
    room = {"max_per_expert": 2, "dimm_bytes": 10 * experts}
    made = [
        permitting(of.model_dump(exclude={"copies"}), **room) if n % 5 == 2 else of
        for n, of in enumerate(made)
    ]
    return [*made, *(links_bind(seed, experts) for seed in range(8))]


def solution_of(instance: Instance, state: State) -> Solution:
    """Return a state as a solution, written from the meaning of its fields alone."""
    dimm, others = fields_of(state.lies[:, :-1])
    runs = np.where(state.run < 0, -3, state.run)
    named = [[None if n < 0 else DOMAINS[n % 3] for n in row] for row in runs.tolist()]
    source = []
    for row in (runs // 3).tolist():
        by_dimm = [place - 1 if 1 <= place <= instance.dimms else None for place in row]
        source.append([None if at == of else at for at, of in zip(by_dimm, dimm, strict=True)])
    copies = {} if instance.copies is None else {"copies": others, "source": source}
    fields = {"instance": instance.name, "resident": state.lies[:, -1].tolist(), "dimm": dimm}
    return Solution.model_validate({**fields, "assignment": named, **copies})


def test_after_any_moves_loads_are_the_checkers() -> None:
    """The best state's makespans are the checker's, and it breaks no rule; so at each start."""
    lower = 0
    for seed, instance in enumerate(instances(experts=6)):
        rules, first = rules_of(instance), trimoe_layout(instance)
        start = state_of(instance, rules, first)
        assert value_of(rules, start) == objective(instance, first), instance.name
        found = annealed(instance, rules, start, seed + 1, ANY, HOT)
        solution = solution_of(instance, found)
        assert violations(instance, solution) == [], instance.name
        assert value_of(rules, found) == objective(instance, solution) <= value_of(rules, start)
        lower += value_of(rules, found) < value_of(rules, start)
    assert lower > 20


@pytest.mark.parametrize("fixed", [True, False])
def test_books_are_kept_while_moving(fixed: bool) -> None:
    """A state moved about has the loads, the worth and the places of one made anew."""
    for seed, instance in enumerate(instances(experts=5)):
        rules = rules_of(instance)
        at = state_of(instance, rules, trimoe_layout(instance))
        striped, hot = at.held[0], 1e3 * value_of(rules, at) + 1.0
        walk, task = annealing.walk_from(at), annealing.Neighbourhood(rules, Moves(*ANY[:3], fixed))
        annealing.anneal(task, walk, seeded(seed + 7), [hot], 200)
        at = walk.at
        again = annealing.loaded(instance, rules, at.lies, at.run)
        for name, kept in at._asdict().items():
            assert np.array_equal(kept, getattr(again, name)) or (
                name == "worth" and np.allclose(kept, again.worth, rtol=1e-9)
            ), (instance.name, name)
        assert not fixed or at.held[0] == striped
