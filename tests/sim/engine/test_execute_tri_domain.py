"""The engine and the checker agree on tri_domain: tasks and queues against sums."""

import random
from pathlib import Path
from typing import Any

import pytest

import moeopt
from moeopt.core.errors import InputError
from moeopt.core.json_files import read_object
from moeopt.problems.execute import compare, execute
from moeopt.problems.tri_domain import check
from moeopt.problems.tri_domain.heuristics import HEURISTICS
from moeopt.problems.tri_domain.instance import Instance, Solution
from tests.problems.tri_domain.random_instances import KINDS, random_instance

LIBRARY = Path(__file__).parents[3] / "instances" / "tri_domain"
FAMILIES = sorted({path.parent.name for path in LIBRARY.glob("*/*.json")})


def stored(family: str) -> dict[str, Any]:
    """Return the best-known entries of a family."""
    entries = read_object(LIBRARY / "best_known.json")
    return {file: entry for file, entry in entries.items() if file.startswith(f"{family}/")}


@pytest.mark.parametrize(
    "share", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 6))]
)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_library_runs_as_checked(family: str, share: int) -> None:
    """Best-known solutions and all heuristics' on every instance of the library, in sixths."""
    entries = stored(family)
    assert entries
    for file, entry in list(entries.items())[share::6]:
        instance = moeopt.load(LIBRARY / file)
        assert isinstance(instance, Instance)
        best = moeopt.load_solution(LIBRARY / entry["solution"])
        compared = compare(instance, best)
        assert compared.measured == compared.judged == entry["objective"], file
        for name, heuristic in HEURISTICS.items():
            assert compare(instance, heuristic(instance)).agree, (file, name)


@pytest.mark.parametrize("kind", KINDS)
def test_random_assignments_run_as_checked(kind: str) -> None:
    """Hundreds of random instances, each with a random valid assignment."""
    for seed in range(60):
        instance, rng = random_instance(seed, kind), random.Random(seed)
        able = [
            ("gpu", "cpu") if e.dimm is None else ("gpu", "cpu", "ndp") for e in instance.experts
        ]
        chosen = tuple(rng.choice(domains) for domains in able)
        solution = Solution(instance=instance.name, assignment=chosen)
        timeline = execute(instance, solution).timeline
        load = check.loads(instance, solution)
        assert timeline.makespan_ns == load.makespan_ns
        busy = [used.busy_ns for used in timeline.usage()]
        assert busy == [load.gpu_ns, load.cpu_ns, *load.dimm_ns]


def test_a_wrong_checker_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison can fail."""
    instance = random_instance(3)
    solution = HEURISTICS["greedy"](instance)
    assert compare(instance, solution).agree
    monkeypatch.setattr(check, "objective", lambda instance, solution: 7)
    assert not compare(instance, solution).agree


@pytest.mark.usefixtures("template_problem")
def test_what_cannot_run_is_refused() -> None:
    """Another instance's solution, an invalid one, a problem without an executor."""
    instance = random_instance(0)
    other = Solution(instance="else", assignment=())
    with pytest.raises(InputError, match="instance: the solution is for 'else'"):
        compare(instance, other)
    nowhere = Solution(instance=instance.name, assignment=(None,) * len(instance.experts))
    with pytest.raises(InputError, match=r"TD-C1: assignment\[0\]: expert \d+ runs nowhere"):
        compare(instance, nowhere)
    foreign = instance.model_copy(update={"problem": "TEMPLATE"})
    with pytest.raises(InputError, match="TEMPLATE cannot be executed: the objective is a sum"):
        execute(foreign, other)
