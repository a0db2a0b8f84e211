"""What the oracle tests of every problem hold to the truth: methods, rules, bounds and grid."""

import random
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from moeopt import Result
from tests.mathprog.solve import MATHPROG, Answer, solve
from tests.rooms.problems import compare, get_problem
from tests.rooms.solvers import REFUTED, problem_methods

ORACLE = "brute-force"


def exact(problem: str) -> dict[str, bool]:
    """Return a problem's exact methods but the oracle, and which take a starting solution.

    GLPK's answer to the algebraic model is one of them, and starts from nothing.
    """
    found = problem_methods(get_problem(problem)).values()
    own = {m.name: m.warm_starts for m in found if m.kind == "exact" and m.name != ORACLE}
    return own | {MATHPROG: False}


ENOUGH_S = 600.0
"""Tiny instances are closed in a moment: so long that a busy machine does not decide."""


def models(problem: str) -> list[str]:
    """Return the exact methods of a problem that can leave a rule out."""
    return [name for name, starts in exact(problem).items() if starts or name == MATHPROG]


def from_nothing(instance: Any, method: str, starts: bool) -> Result | Answer:
    """Return what a method finds without a starting solution."""
    return unrefuted(instance, method, **({"warm_start": False} if starts else {}))


def unrefuted(instance: Any, method: str, **options: Any) -> Result | Answer:
    """Return a method's result, which is not CP-SAT's in place of a false claim: that hides models.

    HiGHS was seen to be wrong on a right model, once in thousands of instances: SCIP is asked then,
    for which a wrong model would be as wrong.
    """
    options = {"time_limit_s": ENOUGH_S} | options
    result: Result | Answer = solve(instance, method, **options)
    if REFUTED in result.raw_status and method == "milp":
        result = solve(instance, method, engine="scip", **options)
    assert REFUTED not in result.raw_status, (instance.name, method, result.raw_status)
    return result


def answer(instance: Any, method: str) -> tuple[str, Any]:
    """Return status and objective by a method that starts from nothing; the bound is as proven."""
    result = from_nothing(instance, method, exact(instance.problem).get(method, False))
    assert result.status != "optimal" or result.bound == result.objective, (instance.name, method)
    return result.status, result.objective


def changed(instance: Any, **update: object) -> Any:
    """Return a copy with other fields, validated again."""
    return type(instance).model_validate(instance.model_dump() | update)


def proven(instance: Any) -> int:
    """Return the optimum that CP-SAT proves, found once for each instance."""
    return _proven(type(instance), instance.model_dump_json())


@cache
def _proven(kind: Any, text: str) -> int:
    result = solve(kind.model_validate_json(text), "cp-sat")
    assert result.status == "optimal"
    assert isinstance(result.objective, int)
    return result.objective


def assert_anchors(anchors: Mapping[str, tuple[Any, Any]]) -> None:
    """Every exact method, and the oracle, gives what was computed by hand; None: infeasible."""
    for name, (instance, optimum) in anchors.items():
        truth = ("infeasible" if optimum is None else "optimal", optimum)
        for method in (ORACLE, *exact(instance.problem)):
            assert answer(instance, method) == truth, (name, method)


def assert_agreement(
    instance: Any,
    optimum: Any = ORACLE,
    bounds: Iterable[Callable[[Any], Any]] = (),
    *,
    run: bool = False,
) -> str:
    """Every exact method gives the truth from scratch, no rule is below it, no bound above it.

    The truth is the oracle's where no optimum is given. All rules' solutions are valid, and every
    objective lies on the grid. With `run` the engine takes as long as the checker adds up. Returns
    the status.
    """
    problem = get_problem(instance.problem)
    truth = answer(instance, ORACLE) if optimum is ORACLE else ("optimal", optimum)
    for method in exact(instance.problem):
        assert answer(instance, method) == truth, (instance.name, method)
    status, least = truth
    found = [least] if status == "optimal" else []
    rules = {**problem.functions(), "start": problem.start}
    for name, rule in rules.items():
        if (solution := rule(instance)) is not None:
            assert status == "optimal", (instance.name, name)
            assert problem.violations(instance, solution) == [], (instance.name, name)
            found.append(problem.objective(instance, solution))
            assert found[-1] >= least, (instance.name, name)
            assert not run or compare(instance, solution).agree, (instance.name, name)
    if status == "optimal":
        for bound in (problem.bound, *bounds):
            assert bound(instance) <= least, (instance.name, bound)
        grid = problem.grid(instance) or 1
        assert isinstance(least, tuple) or not any(of % grid for of in found), instance.name
    return status


def assert_starts_help(instances: Iterable[Any], truth: str = ORACLE) -> None:
    """With the problem's starting solution and bound every model has the same answer."""
    for instance in instances:
        expected = answer(instance, truth)
        for method, starts in exact(instance.problem).items():
            if starts:
                result = unrefuted(instance, method)
                assert (result.status, result.objective) == expected, (instance.name, method)


def assert_missed(
    rule: str, instances: Iterable[Any], optimum: Callable[[Any], Any], *, names: bool = True
) -> None:
    """Without a rule some optimum falls, and the checker names that rule and no other.

    And the models mean the same by the rule: without it they still have one optimum. With `names`
    each of them finds a solution that breaks it.
    """
    fell, named = 0, dict[str, int]()
    for instance in instances:
        whole, optima = optimum(instance), set()
        for model in models(instance.problem):
            relaxed = solve(instance, model, without={rule}, warm_start=False)
            found = {name for name, _ in relaxed.violations}
            assert found <= {rule}, (instance.name, model, relaxed.violations)
            assert found or relaxed.objective == whole, (instance.name, model)
            named[model] = named.get(model, 0) + (rule in found)
            optima.add(relaxed.objective)
        assert len(optima) == 1, (instance.name, optima)
        [without] = optima
        assert whole is None or (without is not None and without <= whole), instance.name
        fell += without != whole
    assert fell
    assert not names or all(named.values()), named


def odd_choice(rng: random.Random, *, bad: bool) -> Callable[..., Any]:
    """Return a function that gives its first argument, in bad solutions now and then another."""
    return lambda usual, *others: (
        rng.choice([usual, *others]) if bad and rng.random() < 0.15 else usual
    )


def assert_checkers_agree(
    pairs: Iterable[tuple[Any, Any]], judged: Callable[[Any, Any], Any], least_share: float
) -> None:
    """Of instances and solutions both checkers say the same: valid or not, and what it costs.

    At least a share of them is valid, and as large a one is not.
    """
    valid: list[bool] = []
    for instance, solution in pairs:
        check = get_problem(instance.problem)
        value, found = judged(instance, solution), check.violations(instance, solution)
        assert (value is None) == bool(found), (instance.name, found)
        if value is not None:
            assert value == check.objective(instance, solution), instance.name
            assert check.violations(instance, solution, value) == [], instance.name
            assert value == 0 or check.violations(instance, solution, value - 1), instance.name
        valid.append(value is not None)
    assert least_share < sum(valid) / len(valid) < 1 - least_share


def assert_found(instance: Any, value: int) -> None:
    """Every exact method finds the optimum, those in integers prove it, and no rule is below it."""
    problem = get_problem(instance.problem)
    for method, starts in exact(instance.problem).items():
        result = from_nothing(instance, method, starts)
        assert (result.objective, result.bound <= value) == (value, True), (instance.name, method)
        if method != "milp":
            assert (result.status, result.bound) == ("optimal", value), (instance.name, method)
    for name, rule in problem.functions().items():
        solution = rule(instance)
        assert problem.violations(instance, solution) == [], (instance.name, name)
        assert problem.objective(instance, solution) >= value, (instance.name, name)
