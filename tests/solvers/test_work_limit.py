"""Under a work limit the clock on the wall decides nothing."""

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import moeopt
from tests.exporters import placements
from tests.problems.every_problem import RANDOM
from tests.problems.instances_to_break import MAKERS
from tests.rooms.core import clock
from tests.rooms.exporters import by_load
from tests.rooms.problems import PROBLEMS
from tests.rooms.solvers import Limits

WORK = 0.02


@pytest.fixture
def leap(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[float], None]]:
    """Let each look at the clock take so many seconds."""

    def by(seconds: float) -> None:
        ticks = itertools.count(0.0, seconds)
        monkeypatch.setattr(clock, "perf_counter", lambda: next(ticks))

    yield by
    monkeypatch.undo()


def answer(result: Any) -> tuple[Any, ...]:
    """Return what is to be the same."""
    limits = (result.termination, result.work)
    return result.status, result.objective, result.bound, result.solution, result.proof, *limits


@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_method_answers_alike(problem: str, leap: Callable[[float], None]) -> None:
    """Each look at the clock takes a minute the second time."""
    instance = RANDOM[problem][-1](3)
    for method in moeopt.methods(problem):
        found = []
        for seconds in (1e-6, 60.0):
            leap(seconds)
            found.append(answer(moeopt.solve(instance, method, work_limit=WORK)))
        assert found[0] == found[1], method


def test_so_do_explain_and_maps(leap: Callable[[float], None]) -> None:
    """They share a limit out over several solves."""
    instance = RANDOM["tri_domain"][0](3)
    found = []
    for seconds in (1e-6, 60.0):
        leap(seconds)
        slots = by_load(range(1, 17), 4, 6, Limits(work=WORK))
        found.append((moeopt.explain(instance, work_limit=WORK), slots))
    assert found[0] == found[1]


def test_a_map_is_the_same_everywhere(leap: Callable[[float], None]) -> None:
    """From the same plan, on a fast machine and on one that hangs."""
    given = placements.instance(
        experts=24, gpu_slots=24, layers=1, gpu_expert_ns=[0, 2], offload_expert_ns=[0, 9],
        steps=[[[(e, 1 + 97 * (e * e % 23)) for e in range(24)]]],
    )  # fmt: skip
    plan, model = placements.plan(given, [range(24)]), placements.shape((), 24, 1)
    options = {"ep_size": 4, "redundant_experts": 8}
    found = []
    for seconds in (1e-6, 60.0):
        leap(seconds)
        text = moeopt.export(plan, given, to="sglang", model=model, options=options).text
        [row] = re.findall(r"[0-9]+(?:, ?[0-9]+){31}", text)
        found.append(row.replace(" ", ""))
    assert len(set(found)) == 1


def test_a_time_limit_beside_holds_too(root: Path, leap: Callable[[float], None]) -> None:
    """What comes first ends it, and is told; the instance is open, so that nothing completes."""
    instance = moeopt.load(root / "instances/replication/esft-moves/esft-law-moves4.json")
    leap(60.0)
    ended = moeopt.solve(instance, "anneal-and-refute", work_limit=2.0, time_limit_s=0.2)
    assert ended.termination == "time_limit"


SOLVE = """
import sys, moeopt
for file in sys.argv[1:]:
    instance = moeopt.load(file)
    for method in moeopt.methods(instance.problem):
        if method != "brute-force":
            of = moeopt.solve(instance, method, work_limit=0.3)
            print(file, method, of.status, of.objective, of.bound, round(of.work, 9))
"""


@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS)
def test_hashes_of_text_decide_nothing(problem: str, root: Path) -> None:
    """Every method on library instances: the same answer and work, however sets are ordered."""
    files = sorted((root / "instances" / problem).glob("[!s]*/*.json*"))
    files = [str(file) for file in files if file.parent.name != "certificates"]
    some = files[:: 1 + len(files) // 4]
    found = [
        subprocess.run(
            [sys.executable, "-c", SOLVE, *some],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for seed in ("1", "2")
    ]
    assert len(found[0]) >= len(some)
    assert found[0] == found[1]


def test_a_bound_of_what_is_better_stays_below_what_is_known() -> None:
    """Within an effort so small that CP-SAT has a bound, and no answer, of an empty model."""
    instance = MAKERS["split"]["numbers: powers"](301083)
    result = moeopt.solve(instance, work_limit=0.00021112835703078966)
    assert result.bound is not None
    assert result.bound <= 1_099_511_627_778
    assert not result.evidence.refuted
