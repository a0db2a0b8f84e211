"""The decomposition by striped reads, mostly by the arrival model alone, against all sums."""

from typing import cast

import pytest

from moeopt import generate, solve
from tests.problems.relayout.by_arrays import optimum
from tests.problems.relayout.relayout_random_instances import (
    KINDS,
    NEWER_KINDS,
    random_instance,
)
from tests.rooms.core import Feasibility, Search
from tests.rooms.relayout import (
    FIRST_PASS,
    Dimm,
    Instance,
    Modes,
    PlanModel,
    Subproblem,
    objective,
    objective_grid,
    violations,
)
from tests.rooms.relayout import solve as evacuation
from tests.rooms.relayout import striped_reads as decomposition
from tests.shares import first

SHARES = [range(2), pytest.param(range(2, 45), marks=pytest.mark.slow)]
LIMIT_S = 600.0
"""Far more than any of these instances takes, also on a busy machine."""


def run(instance: Instance, limit_s: float = LIMIT_S) -> Search:
    """Run the search, and let the checker confirm its solution and its bracket."""
    search = Search(limit_s=limit_s)
    evacuation(instance, search)
    assert violations(instance, search.solution, search.objective) == []
    assert objective(instance, search.solution) == search.objective
    assert search.bound <= search.objective
    return search


@pytest.fixture
def from_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take bounds and plans away, so that the arrival model alone must prove the optimum."""
    monkeypatch.setattr(decomposition, "lower_bound", lambda instance: 0)
    without_plans(monkeypatch)


def without_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave every subproblem to the arrival model."""
    monkeypatch.setattr(PlanModel, "applies", lambda modes: False)


@pytest.mark.parametrize("seeds", SHARES)
@pytest.mark.parametrize("kind", [*KINDS, *NEWER_KINDS])
def test_the_optimum_is_found_and_proven(kind: str, seeds: range, from_nothing: None) -> None:
    """Value and bound are the optimum, with channels, PCIe and own links in the subproblems."""
    for seed in seeds:
        instance = random_instance(seed, kind)
        search = run(instance)
        assert (search.objective, search.bound) == (optimum(instance),) * 2, seed


LARGER = dict.fromkeys(NEWER_KINDS[:-1], 7)
LARGER |= dict.fromkeys(["mixed", "dimms bind", "idle and resident experts"], 5)


@pytest.mark.parametrize("seeds", [range(1, 3), pytest.param(range(3, 16), marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", LARGER)
def test_more_experts_than_brute_force_can_take(
    kind: str, seeds: range, from_nothing: None
) -> None:
    """Five experts and seven, several on one DIMM, against the textbook model."""
    for seed in seeds:
        instance = random_instance(seed, kind, experts=LARGER[kind])
        search = run(instance)
        best = solve(instance, "cp-sat", warm_start=False).objective
        assert (search.objective, search.bound) == (best, best), seed


def test_an_enough_gap_leaves_no_more_than_it(from_nothing: None) -> None:
    """Bound and solution enclose the optimum, at most so far apart; some gaps are left open."""
    open_ = 0
    for seed in range(6):
        instance = random_instance(seed, "mixed")
        search = Search(limit_s=LIMIT_S, enough_gap=0.3)
        evacuation(instance, search)
        assert violations(instance, search.solution, search.objective) == []
        bound, best = cast(int, search.bound), cast(int, search.objective)
        assert bound <= optimum(instance) <= best <= bound + 0.3 * best, seed
        assert search.enough == (bound < best), seed
        open_ += search.enough
    assert open_


def test_every_makespan_and_every_number_of_reads() -> None:
    """Some number of reads can reach exactly the makespans from the optimum on."""
    for seed in range(12):
        instance = random_instance(seed, "mixed", experts=3)
        modes = Modes(instance)
        dimms = [Dimm(modes, dimm) for dimm in range(modes.dimms)]
        best = optimum(instance) // objective_grid(instance)
        for makespan in (best - 1, best, best + 1):
            found = [
                Subproblem(modes, dimms, makespan, reads).solve(Search(), 10)
                for reads in modes.reads
                if makespan >= reads * modes.striped_read
            ]
            assert (Feasibility.FEASIBLE in found) == (makespan >= best), seed


def test_a_large_instance_ends_with_a_bracket(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too large for subproblems is left to CP-SAT, with the bracket of the cheap bounds."""
    monkeypatch.setattr(decomposition, "MAX_SIZE", 0)
    instance = next(i for i in map(random_instance, range(99)) if not run(i).closed)
    search = run(instance)
    assert search.note == "TOO_LARGE"
    assert search.bound <= optimum(instance) <= search.objective
    result = solve(instance, "evacuation")
    assert (result.status, result.objective) == ("optimal", optimum(instance))


@pytest.mark.slow
def test_an_undecided_subproblem_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """With hardly any time per subproblem the bracket stays open, and holds the optimum."""
    instance = _paper_scale(batch=256, model="qwen3-235b-a22b")
    proven = run(instance)
    assert proven.closed
    without_plans(monkeypatch)
    monkeypatch.setitem(FIRST_PASS, "max_deterministic_time", 1e-5)
    monkeypatch.setattr(decomposition, "EFFORTS", ((0, 1e-5),))
    search = run(instance)
    assert not search.closed
    assert search.note == "STOPPED"
    assert search.bound < proven.objective < search.objective


def test_it_stops_when_told() -> None:
    """Stopped before it begins, it has the heuristic's solution and the cheap bound."""
    instance = _paper_scale(batch=512)
    search = Search()
    search.stop()
    evacuation(instance, search)
    assert not search.closed
    assert violations(instance, search.solution, search.objective) == []


def test_it_stops_in_time() -> None:
    """A short limit leaves a valid bracket."""
    search = run(_paper_scale(batch=768), limit_s=0.5)
    assert search.note in ("STOPPED", "CLOSED")


@pytest.mark.parametrize("batch", first(1, [128, 256]))
def test_paper_scale_is_proven(batch: int) -> None:
    """160 experts on 16 DIMMs; the textbook model needs minutes."""
    instance = _paper_scale(batch)
    result = solve(instance, "evacuation", time_limit_s=LIMIT_S)
    assert result.status == "optimal"


def _paper_scale(batch: int, model: str = "deepseek-v2") -> Instance:
    """Return an instance of the family paper-scale."""
    source = {"machine": "trimoe", "model": model, "workload": "trimoe-skew", "batch": batch}
    layout = {"cold_cut": "experts 0.7", "layout_from": "earlier steps", "dimm_choice": "in turn"}
    instance = generate("relayout", **source, **layout, windows="two")
    assert isinstance(instance, Instance)
    return instance
