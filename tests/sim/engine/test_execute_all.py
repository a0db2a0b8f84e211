"""The engine and the checker agree on every problem: tasks and queues against sums."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import moeopt
from tests.problems.every_problem import RANDOM
from tests.rooms.core import read_object
from tests.rooms.placement import for_other_steps
from tests.rooms.problems import PROBLEMS, compare, get_problem

LIBRARY = Path(__file__).parents[3] / "instances"


@pytest.mark.parametrize("problem", PROBLEMS)
def test_no_problem_is_refused(problem: str) -> None:
    """The smallest instance of each problem's library, with its best-known solution."""
    home = LIBRARY / problem
    entries = read_object(home / "best_known.json")
    file = min(sorted(entries), key=lambda name: (home / name).stat().st_size)
    instance = moeopt.load(home / file)
    compared = compare(instance, moeopt.load_solution(home / entries[file]["solution"]))
    assert compared.agree
    assert compared.timeline.makespan_ns > 0


PART = {"cache": ("accesses", 12), "placement": ("steps", 3)}
"""What of an instance is run, where all of it takes long."""

CHEAP = {"relayout": ("benefit-greedy", "rebalance-only", "none"), "layout": ("lpt",)}
"""Rules that are run, where others take long."""


def runs(problem: str, every: int) -> Iterator[tuple[str, Any, Any]]:
    """Yield each so many-th instance of a library with its best-known and rules' solutions."""
    home = LIBRARY / problem
    for file, entry in list(read_object(home / "best_known.json").items())[::every]:
        instance: Any = moeopt.load(home / file)
        best: Any = moeopt.load_solution(home / entry["solution"])
        if problem in PART:
            field, most = PART[problem]
            instance = instance.model_copy(update={field: getattr(instance, field)[:most]})
            best = for_other_steps(instance, best) if problem == "placement" else best
        yield file, instance, best
        rules = get_problem(problem).functions()
        if problem not in PART and len(instance.model_dump_json()) < 100_000:
            for name in CHEAP.get(problem, tuple(rules)):
                if (solution := rules[name](instance)) is not None:
                    yield f"{file}, {name}", instance, solution


@pytest.mark.parametrize("every", [24, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_library_runs_as_checked(problem: str, every: int) -> None:
    """Best-known solutions and those of rules take as long as the checker says."""
    for name, instance, solution in runs(problem, every):
        assert compare(instance, solution).agree, name


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_wrong_checker_would_be_seen(problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison can fail."""
    home = get_problem(problem)
    made = ((of, home.start(of)) for of in map(RANDOM[problem][0], range(99)))
    instance, solution = next(pair for pair in made if pair[1] is not None)
    assert compare(instance, solution).agree
    monkeypatch.setattr(home.module("check"), "objective", lambda *_: 7)
    assert not compare(instance, solution).agree
