"""Decisions of any problem that sees loads, run on the same or on other loads."""

import warnings
from importlib import import_module
from inspect import signature

import pytest

import moeopt
from moeopt import InputError, MoeoptWarning, run_on
from tests.problems.balance.balance_random_instances import random_instance as balance
from tests.rooms.core import entries
from tests.rooms.layout import execute_layout
from tests.rooms.problems import PROBLEMS, get_problem
from tests.rooms.relayout import execute
from tests.rooms.tri_domain import Instance as Layer
from tests.rooms.tri_domain import Solution as Assignment
from tests.rooms.tri_domain import threshold, trimoe
from tests.sim.holdout.test_layout import all_on_cpu


def random_instance(problem: str, seed: int) -> object:
    """Return a small random instance of any of the problems."""
    module = import_module(f"tests.problems.{problem}.{problem}_random_instances")
    return module.random_instance(seed)


def best(layer: Layer) -> Assignment:
    """Return an optimal schedule."""
    return moeopt.solve(layer, "threshold").solution


@pytest.mark.parametrize("seeds", [range(5), pytest.param(range(5, 25), marks=pytest.mark.slow)])
@pytest.mark.parametrize("problem", [name for name in PROBLEMS if get_problem(name).holdout])
def test_an_optimum_on_its_own_loads_is_the_optimum(problem: str, seeds: range) -> None:
    """Also where the schedule is made anew; no heuristic's decision falls below it."""
    seen = 0
    for seed in seeds:
        instance = random_instance(problem, seed)
        result = moeopt.solve(instance, "milp")
        if result.status != "optimal":
            continue
        seen += 1
        assert run_on(instance, result.solution) == result.objective
        assert run_on(instance, result.solution, best) == result.objective
        by_rule = run_on(instance, result.solution, "trimoe")
        assert by_rule == run_on(instance, result.solution, trimoe)
        assert entries(by_rule) >= entries(result.objective)
        assert get_problem(problem).schedulers or by_rule == result.objective
    assert seen > 1


def test_what_cannot_be_run_is_refused() -> None:
    """A decision of another problem, and one that does not outlast its loads."""
    instance = balance(0)
    solution = moeopt.solve(instance, "milp").solution
    with pytest.raises(InputError, match="made anew"):
        run_on(instance, solution)
    other = random_instance("cache", 0)
    with pytest.raises(InputError, match="must be for cache, not balance"):
        run_on(other, solution)


def test_the_exact_schedule_is_the_default_everywhere() -> None:
    """What tables report is what functions give without being asked."""
    for function in (run_on, execute_layout, execute):
        assert signature(function).parameters["schedule"].default == "exact", function


def test_a_scheduler_that_is_none_is_refused() -> None:
    """In one line: another word, a schedule that breaks a rule, something else than a schedule."""
    instance = random_instance("layout", 0)
    decision = moeopt.solve(instance, "lpt").solution
    with pytest.raises(InputError, match='schedule: must be exact, trimoe or a function, not "me"'):
        run_on(instance, decision, "me")
    with pytest.raises(InputError, match="schedule: wrong: TD-C2"):
        run_on(instance, decision, wrong)
    with pytest.raises(InputError, match="schedule: <lambda> gave no solution of tri_domain"):
        run_on(instance, decision, lambda layer: None)


def wrong(layer: Layer) -> Assignment:
    """Return a schedule that runs everything on NDP, also what is striped."""
    return Assignment(instance=layer.name, assignment=("ndp",) * len(layer.experts))


def test_an_open_proof_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The schedule is then at least no later than TriMoE's."""
    instance = random_instance("layout", 1)
    decision = moeopt.solve(instance, "lpt").solution
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        proven = run_on(instance, decision)
    assert execute_layout(instance, decision).unproven == 0

    def give_up(layer: Layer, search: object) -> None:
        search.offer(all_on_cpu(layer), 10**9)

    monkeypatch.setattr(threshold, "solve", give_up)
    with pytest.warns(MoeoptWarning, match="of its exact schedules not proven the best"):
        reached = run_on(instance, decision)
    assert proven <= reached <= run_on(instance, decision, "trimoe")
    assert execute_layout(instance, decision).unproven == len(instance.scenarios)
    assert execute_layout(instance, decision, "trimoe").unproven == 0
