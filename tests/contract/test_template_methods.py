"""The template's own methods agree: what people copy is right, not only complete."""

import random

import pytest

import moeopt
from formulations.TEMPLATE.problem.instance import Instance


def random_knapsack(seed: int) -> Instance:
    """Return 1 to 7 experts; every third instance or so keeps too few."""
    rng = random.Random(seed)
    rows = [
        {"size_bytes": rng.randint(0, 9), "miss_ns": rng.randint(0, 3000)}
        for _ in range(rng.randint(1, 7))
    ]
    least, room = rng.randint(0, len(rows)), rng.randint(0, 30)
    return Instance(name=f"{seed}", capacity_bytes=room, min_kept=least, experts=rows)


@pytest.mark.usefixtures("template_problem")
def test_every_method_agrees_with_brute_force() -> None:
    """Statuses, optima and bounds, also where the objective has a constant part."""
    seen = set()
    for seed in range(40):
        instance = random_knapsack(seed)
        truth = moeopt.solve(instance, "brute-force")
        seen.add(truth.status)
        for method in ("dp", "cp-sat", "milp", "mathprog"):
            for warm_start in (False, True):
                found = moeopt.solve(instance, method, warm_start=warm_start)
                assert (found.status, found.objective) == (truth.status, truth.objective), instance
    assert seen == {"optimal", "infeasible"}


@pytest.mark.usefixtures("template_problem")
@pytest.mark.parametrize("engine", ["cbc", "scip"])
def test_other_engines_agree(engine: str) -> None:
    """The constant part is not lost by any engine."""
    for seed in range(6):
        instance = random_knapsack(seed)
        truth = moeopt.solve(instance, "brute-force")
        found = moeopt.solve(instance, "milp", engine=engine, warm_start=False)
        assert (found.status, found.objective) == (truth.status, truth.objective), instance
