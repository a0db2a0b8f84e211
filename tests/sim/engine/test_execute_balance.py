"""Engine and checker agree on balance: slices one by one against sums and Johnson's rule."""

import random
from pathlib import Path

import pytest

import moeopt
from moeopt.core.json_files import read_object
from moeopt.problems.balance import check
from moeopt.problems.balance.heuristics import HEURISTICS
from moeopt.problems.balance.instance import Instance, Solution
from moeopt.problems.balance.view import lanes
from moeopt.problems.execute import compare, execute
from tests.problems.balance.balance_random_instances import KINDS, random_instance

LIBRARY = Path(__file__).parents[3] / "instances" / "balance"
FAMILIES = sorted({path.parent.name for path in LIBRARY.glob("*/*.json")})


@pytest.mark.parametrize(
    "share", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 6))]
)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_library_runs_as_checked(family: str, share: int) -> None:
    """Best-known solutions and all heuristics' on every instance of the library, in sixths."""
    entries = read_object(LIBRARY / "best_known.json")
    mine = {file: entry for file, entry in entries.items() if file.startswith(f"{family}/")}
    assert mine
    for file, entry in list(mine.items())[share::6]:
        instance = moeopt.load(LIBRARY / file)
        assert isinstance(instance, Instance)
        best = moeopt.load_solution(LIBRARY / entry["solution"])
        compared = compare(instance, best)
        assert compared.measured == compared.judged == entry["objective"], file
        if instance.slices_per_unit <= 16:
            for name, heuristic in HEURISTICS.items():
                assert compare(instance, heuristic(instance)).agree, (file, name)


@pytest.mark.parametrize("kind", KINDS)
def test_random_counts_run_as_checked(kind: str) -> None:
    """Hundreds of random instances, each with a random valid solution; the picture ends there."""
    for seed in range(60):
        instance, rng = random_instance(seed, kind), random.Random(seed)
        most = instance.slices_per_unit
        rows = [
            [rng.choice([0, most, rng.randint(0, most)]) for _ in range(instance.ndp_units)]
            for _ in instance.experts
        ]
        solution = Solution(instance=instance.name, gpu_slices=rows)
        timeline = execute(instance, solution).timeline
        assert timeline.makespan_ns == check.objective(instance, solution)
        both = check.sides(instance, solution)
        busy = {used.resource: used.busy_ns for used in timeline.usage()}
        assert [busy[f"NDP {u}"] for u in range(instance.ndp_units)] == list(both.units_ns)
        assert max(lane.end_ns for lane in lanes(instance, solution)) == timeline.makespan_ns


def test_a_wrong_checker_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison can fail."""
    instance = random_instance(3)
    solution = HEURISTICS["all-ndp"](instance)
    assert compare(instance, solution).agree
    monkeypatch.setattr(check, "objective", lambda instance, solution: 7)
    assert not compare(instance, solution).agree
