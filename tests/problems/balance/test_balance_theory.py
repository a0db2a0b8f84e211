"""What theory says about balance: deletion, what dp closes, large numbers, the two sides."""

import random
from itertools import product
from typing import Any

import pytest
from ortools.sat.python.cp_model import OPTIMAL, CpSolver

from moeopt import InputError, solve
from tests.problems.agreement import assert_missed, changed
from tests.problems.balance.balance_random_instances import KINDS, random_instance
from tests.problems.balance.intervals import Intervals
from tests.rooms.balance import (
    CONSTRAINTS,
    HEURISTICS,
    Instance,
    Solution,
    bounds,
    gpu_relaxation,
    johnson_ns,
    link_relaxation,
    lower_bound,
    objective,
    sides,
    take,
    taken_slices,
    violations,
)
from tests.rooms.balance import solve as dp
from tests.rooms.core import Feasibility, Search

SPEAKING = {"BA-C1": ("prefill", 1), "BA-C2": ("prefill", 0), "BA-C3": ("fast GPU", 0)}
"""An instance for each rule on which every model without it breaks it."""


def layer(
    seed: int, slow: str, experts: int = 24, slices: int = 8, residents: float = 0
) -> Instance:
    """Return a prompt's layer on four units; `slow` is the link, the GPU, or neither for all."""
    rng = random.Random(f"{slow} {seed}")
    transfer, rows = 4096, []
    for number in range(experts):
        tokens = 1 + int(rng.expovariate(1 / 40))
        share = {"link": rng.uniform(0.05, 1), "GPU": rng.uniform(1, 3)}.get(slow, tokens / 40)
        rows.append(
            {
                "expert": number,
                "tokens": tokens,
                "resident": rng.random() < residents,
                "slice_gpu_ns": int(transfer * share),
                "slice_ndp_ns": 700 * tokens,
            }
        )
    return Instance(
        name=f"{slow}-{seed}",
        stage="prefill",
        ndp_units=4,
        slices_per_unit=slices,
        seq_len=160,
        activation_ns=700,
        slice_transfer_ns=transfer,
        experts=rows,
    )


def with_times(instance: Instance, factor: int, **changes: Any) -> Instance:
    """Return the instance with the times of slices multiplied."""
    rows = [
        row | {name: factor * row[name] for name in ("slice_gpu_ns", "slice_ndp_ns")}
        for row in instance.model_dump()["experts"]
    ]
    transfer = factor * instance.slice_transfer_ns
    return changed(instance, experts=rows, slice_transfer_ns=transfer, **changes)


def optimum(instance: Instance) -> int:
    """Return the optimum, proven by dp."""
    result = solve(instance, "dp")
    assert result.status == "optimal"
    assert isinstance(result.objective, int)
    return result.objective


@pytest.mark.parametrize("rule", CONSTRAINTS)
@pytest.mark.parametrize("more", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_deleted_constraint_is_missed(rule: str, more: bool) -> None:
    """See `assert_missed`."""
    chosen = product(KINDS, range(3)) if more else [SPEAKING[rule]]
    assert_missed(rule, [random_instance(seed, kind) for kind, seed in chosen], optimum)


@pytest.mark.parametrize(("slow", "residents"), [("link", 0), ("GPU", 0), ("GPU", 1), ("link", 1)])
def test_dp_alone_closes_what_it_is_exact_for(slow: str, residents: float) -> None:
    """A link slower, or faster, than every computation; or all experts resident."""
    for seed, slices in product(range(4), (1, 3, 8)):
        instance = layer(seed, slow, slices=slices, residents=residents)
        search = Search()
        dp(instance, search)
        assert search.closed
        assert objective(instance, search.solution) == search.objective
        assert search.bound is not None
        assert lower_bound(instance) <= search.bound


def test_dp_alone_closes_alike_experts() -> None:
    """Whatever is slower, and however many are resident."""
    for seed in range(300):
        rng = random.Random(seed)
        first = layer(seed, "neither", experts=rng.randint(1, 9), residents=0.3)
        times = {"slice_gpu_ns": rng.randint(0, 8000), "slice_ndp_ns": rng.randint(0, 20000)}
        rows = [row | times for row in first.model_dump()["experts"]]
        search = Search()
        dp(changed(first, experts=rows), search)
        assert search.closed, first


@pytest.mark.parametrize("slow", ["link", "GPU", "neither"])
def test_dp_agrees_with_cp_sat_on_whole_layers(slow: str) -> None:
    """8 experts, with and without residents: the same optimum from dp and from CP-SAT."""
    for seed, residents in product(range(3), (0, 0.3)):
        instance = layer(seed, slow, experts=8, slices=2, residents=residents)
        result = solve(instance, "cp-sat", time_limit_s=60)
        assert result.status == "optimal"
        assert optimum(instance) == result.objective, instance
        search = Search()
        dp(instance, search)
        assert isinstance(search.bound, int)
        assert isinstance(search.objective, int)
        assert search.bound <= result.objective <= search.objective
        assert search.objective - search.bound <= 0.05 * search.bound


def test_intervals_need_no_closed_form() -> None:
    """Slices on link and GPU one after another, in any order: the optimum is the closed form's."""
    for seed in range(40):
        instance = random_instance(seed)
        oracle = Intervals(instance)
        oracle.post()
        solver = CpSolver()
        assert solver.solve(oracle.model) == OPTIMAL
        assert round(solver.objective_value) * oracle.objective_unit == optimum(instance), seed


def test_the_links_plan_costs_what_it_says() -> None:
    """Where the link is the slower one, the plan's makespan is the checker's, exchange or not."""
    exchanged = 0
    for seed in range(60):
        instance = layer(seed, "link", experts=6, slices=2)
        plan = link_relaxation(instance)
        rows = taken_slices(instance, plan)
        solution = Solution(instance=instance.name, gpu_slices=rows)
        assert violations(instance, solution) == []
        assert objective(instance, solution) <= plan.makespan_ns
        if sides(instance, solution).ndp_overhead_ns:
            assert objective(instance, solution) == plan.makespan_ns
        exchanged += plan.exchanged >= 0
    assert exchanged


def test_states_that_are_too_many_are_an_end_not_a_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then dp leaves its bracket to CP-SAT; a search that is stopped ends the same way."""
    monkeypatch.setattr(bounds, "MAX_STATES", 3)
    instance = layer(0, "GPU")
    answer = gpu_relaxation(instance, objective(instance, take(instance, 0)), Search())
    assert (answer.feasibility, answer.note) == (Feasibility.UNKNOWN, "too many states")
    search = Search()
    dp(instance, search)
    assert search.note == "too many states"
    assert not search.closed
    stopped = Search()
    stopped.stop()
    dp(instance, stopped)
    assert stopped.note == "stopped"
    assert not stopped.closed


def test_numbers_beyond_int64_are_refused() -> None:
    """An hour per slice in 4,096 slices of 4,096 experts: in one line with the field."""
    huge = changed(layer(0, "link", slices=4096), ndp_units=500)
    with pytest.raises(InputError, match=r"^experts: .* could sum to \d+; \d+ is the most$"):
        with_times(huge, 2 * 10**7)


def test_one_side_alone_is_what_it_says() -> None:
    """All on the GPU is the flow shop, all on the units is their work and the activations."""
    for kind, seed in product(KINDS, range(10)):
        instance = random_instance(seed, kind)
        everything = johnson_ns(instance, [instance.slices] * len(instance.experts))
        assert objective(instance, HEURISTICS["all-gpu"](instance)) == everything
        work = sum(e.slice_ndp_ns for e in instance.experts) * instance.slices_per_unit
        kept = max(instance.gpu_overhead_ns, work + instance.ndp_overhead_ns)
        assert objective(instance, HEURISTICS["all-ndp"](instance)) == kept


def test_slices_are_taken_evenly_and_in_order() -> None:
    """Residents first, then by falling tokens, then by number; from one unit after the other."""
    rows = [(3, 5, False), (1, 2, True), (2, 5, False), (0, 9, False)]
    experts = [
        {"expert": e, "tokens": t, "resident": at, "slice_gpu_ns": 1, "slice_ndp_ns": 1}
        for e, t, at in rows
    ]
    instance = changed(layer(0, "link"), ndp_units=3, slices_per_unit=2, experts=experts)
    taken = take(instance, 6 + 6 + 4).gpu_slices
    assert taken == ((0, 0, 0), (2, 2, 2), (2, 1, 1), (2, 2, 2))
