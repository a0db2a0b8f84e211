"""Instances whose numbers are as large as files may hold them: solved right, or refused."""

import random
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import moeopt
from moeopt import InputError
from tests.problems.every_problem import RANDOM
from tests.problems.layout.layout_random_instances import copies_matter
from tests.problems.numbers_at_the_limit import GROUPS, raised
from tests.rooms.core import LARGEST_SUM, MAX_NUMBER
from tests.rooms.layout import lower_bound
from tests.rooms.problems import PROBLEMS, get_problem
from tests.rooms.solvers import problem_methods

OTHERS = ("cp-sat", "milp", "brute-force")

EVERY_GROUP = [(problem, fields) for problem, groups in GROUPS.items() for fields in groups]


def at_the_limit(problem: str, fields: tuple[str, ...], seeds: int = 1) -> Iterator[Any]:
    """Yield instances that could hardly state more; none if the random ones lack the fields."""
    makers = [*RANDOM[problem], *([copies_matter] if problem == "layout" else [])]
    for make in makers:
        for seed in range(seeds):
            small = make(seed)
            if (large := raised(small, fields, seed)) is not small:
                yield large


@pytest.mark.parametrize(
    ("problem", "fields"),
    [
        # Trying all of layout's solutions takes ten seconds a group.
        pytest.param(*each, marks=pytest.mark.slow) if each[0] == "layout" else each
        for each in EVERY_GROUP
    ],
)
def test_own_methods_are_right_at_the_limit(problem: str, fields: tuple[str, ...]) -> None:
    """No sum of theirs leaves 64 bits: they say what trying all solutions says."""
    own = [
        method.name
        for method in problem_methods(get_problem(problem)).values()
        if method.kind == "exact" and method.name not in OTHERS
    ]
    for instance in at_the_limit(problem, fields):
        truth = moeopt.solve(instance, "brute-force", work_limit=0.2)
        if truth.status not in ("optimal", "infeasible"):
            continue
        for method in own:
            found = moeopt.solve(instance, method, verify=False, work_limit=0.05)
            if truth.status == "infeasible":
                assert found.status in ("infeasible", "unknown"), (instance.name, method)
                continue
            assert found.status != "infeasible", (instance.name, method)
            if found.status == "optimal":
                assert found.objective == truth.objective, (instance.name, method)
            assert found.bound is None or found.bound <= truth.objective, (instance.name, method)


@pytest.mark.slow
@pytest.mark.parametrize(("problem", "fields"), EVERY_GROUP)
def test_every_method_answers_at_the_limit(problem: str, fields: tuple[str, ...]) -> None:
    """Heuristics give what the checker accepts, models solve, or a line says why not."""
    for instance in at_the_limit(problem, fields, seeds=4):
        for method in problem_methods(get_problem(problem)).values():
            if method.name in ("brute-force", "milp"):
                continue
            try:
                found = moeopt.solve(instance, method.name, work_limit=1)
            except InputError:  # deferral's pairs, where they leave 64 bits
                continue
            if found.solution is not None:
                assert moeopt.check(instance, found.solution).objective == found.objective


SUMS = [(problem, each) for problem in PROBLEMS for each in get_problem(problem).Instance().SUMS]


@pytest.mark.parametrize(("problem", "each"), SUMS, ids=lambda value: getattr(value, "name", value))
def test_a_sum_beyond_its_limit_is_refused(problem: str, each: Any) -> None:
    """In one line with the field, and what is just within is not: the sum is looked at last."""
    instance = RANDOM[problem][0](3)
    total = getattr(instance, each.name)
    within = type(each)(each.field, each.what, each.name, total)
    within.check(instance)
    with pytest.raises(ValueError, match=re.escape(f"could sum to {total}; {total - 1} is")):
        type(each)(each.field, each.what, each.name, total - 1).check(instance)


def layout_of(weight: int, ns: int, windows: int = 8, experts: int = 40) -> Any:
    """Return a layout of equal windows in which all costs are the same."""
    costs = ("gpu_hit", "gpu_miss_striped", "gpu_miss_localized", "cpu_striped", "cpu_localized")
    rng = random.Random(1)
    table = [[ns - rng.randrange(ns // 2) for _ in range(experts)] for _ in range(windows)]
    return moeopt.layout.Instance.from_arrays(
        tokens=[[1] * experts] * windows,
        **{f"{name}_ns": table for name in (*costs, "ndp")},
        weight=[weight] * windows,
        **{"dimms": 4, "hbm_slots": 2, "dram_striped_ns": ns // 3, "dram_localized_ns": ns // 3},
    )


def test_weights_times_costs_beyond_64_bits_are_refused() -> None:
    """The largest weight with the largest costs: 6.7e18 in one line, where it was a traceback."""
    with pytest.raises(InputError, match=r"^scenarios: .* could sum to \d+; \d+ is the most$"):
        layout_of(2**16, MAX_NUMBER)


def test_several_windows_of_the_largest_sum_are_bounded() -> None:
    """By what each takes by itself, with the largest costs that the weight allows."""
    large = layout_of(2**8, 2**42)
    assert LARGEST_SUM / 8 < large.largest <= LARGEST_SUM
    assert moeopt.solve(large, "bound-and-pack", work_limit=0.5).bound >= lower_bound(large)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_number_has_limits_that_are_stated(problem: str, root: Path) -> None:
    """The table of the documents has them, and only scales of losses are without a largest one."""
    limits_of = runpy.run_path(str(root / "docs" / "limits.py"))["limits_of"]
    found = limits_of(get_problem(problem).Instance())
    for limit in found:
        assert limit.least is not None, limit.field
        assert limit.most is not None or limit.field.endswith("loss_scale"), limit.field
        assert limit.most is None or limit.most <= MAX_NUMBER, limit.field
    assert len({limit.field for limit in found}) == len(found)
