"""Method robust: against brute force over enumerated futures, and layouts against the checker."""

import random
from itertools import product

import numpy as np
import pytest

import moeopt
from moeopt import Futures
from tests.problems.relayout.relayout_random_instances import (
    KINDS,
    NEWER_KINDS,
    random_instance,
)
from tests.rooms.core import Search
from tests.rooms.relayout import (
    DOMAINS,
    IN_MEMORY,
    Instance,
    Layouts,
    Migration,
    Solution,
    candidates,
    decide,
    later,
    objective,
    violations,
)
from tests.rooms.tri_domain import STRIPED

COSTS = (
    *("gpu_hit_ns", "gpu_miss_striped_ns", "gpu_miss_localized_ns"),
    *("cpu_striped_ns", "cpu_localized_ns", "ndp_ns"),
)
ORACLE = [("mixed", 0), ("dimms bind", 3)]
SLOW = [(kind, seed) for kind in KINDS for seed in range(4)]


def futures_of(instance: Instance, number: int, seed: int) -> tuple[Instance, ...]:
    """Return the instance with other loads: costs change places, some experts lose their tokens."""
    rng = random.Random(seed)
    made = []
    for n in range(number):
        rows = list(instance.experts)
        order = rng.sample(range(len(rows)), len(rows))
        experts = []
        for row, of in zip(rows, order, strict=True):
            change = {name: getattr(rows[of], name) for name in COSTS} | {"tokens": 3}
            change |= {"gpu_calc_ns": rows[of].gpu_calc_ns}
            change |= {name: getattr(rows[of], name) for name in ("pcie_striped_ns",)}
            change |= {"pcie_localized_ns": rows[of].pcie_localized_ns}
            experts.append(row.model_copy(update=change))
        idle = rng.randrange(len(rows))
        if len(rows) > 1:
            experts[idle] = experts[idle].model_copy(update={"tokens": 0} | dict.fromkeys(COSTS, 0))
        made.append(instance.model_copy(update={"name": f"future-{n}", "experts": tuple(experts)}))
    return tuple(made)


def best_ns(future: Instance, migrations: tuple[Migration, ...]) -> int:
    """Return the least makespan after migrations, by brute force with the checker's sums."""
    domains = [DOMAINS if expert.tokens else (None,) for expert in future.experts]
    active = {expert.expert for expert in future.experts if expert.tokens}
    kept = tuple(m for m in migrations if m.expert in active)
    spans = []
    for assignment in product(*domains):
        solution = Solution(instance=future.name, migrations=kept, assignment=assignment)
        if not [rule for rule, _ in violations(future, solution) if rule in ("RE-C1", "RE-C2")]:
            spans.append(objective(future, solution))
    return min(spans)


def stochastic_optimum(instance: Instance, futures: tuple[Instance, ...], of: Futures) -> int:
    """Return the least value over all valid sets of migrations."""
    tried = {solution.migrations for solution in candidates(instance)}
    nothing = (None,) * len(instance.experts)
    plans = [
        plan
        for plan in tried
        if not {
            rule
            for rule, _ in violations(
                instance,
                Solution(instance=instance.name, migrations=plan, assignment=nothing),
            )
        }
        - {"RE-C1"}
    ]
    return min(of.value([best_ns(future, plan) for future in futures]) for plan in plans)


@pytest.mark.parametrize(
    ("kind", "seed"),
    [*ORACLE, *(pytest.param(kind, seed, marks=pytest.mark.slow) for kind, seed in SLOW)],
)
@pytest.mark.parametrize("quantile", [None, 0.5])
def test_equals_the_stochastic_optimum(kind: str, seed: int, quantile: float | None) -> None:
    """With the true futures as the sample, no migrations are better than those decided."""
    instance = random_instance(seed, kind, experts=3)
    futures = futures_of(instance, 3, seed)
    of = Futures(samples=3, quantile=quantile)
    search = Search(limit_s=60.0)
    decide(instance, lambda number, stream: futures[:number], search, of)
    assert search.objective == stochastic_optimum(instance, futures, of)
    spans = [best_ns(future, search.solution.migrations) for future in futures]
    assert search.objective == of.value(spans)


def test_local_search_is_no_worse_than_brute_force_where_it_is_made_to_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the way out for few plans the descent finds the same optimum here."""
    monkeypatch.setattr(later, "FEW", 0)
    instance = random_instance(3, "dimms bind", experts=3)
    futures = futures_of(instance, 3, 3)
    of = Futures(samples=3)
    search = Search(limit_s=60.0)
    decide(instance, lambda number, stream: futures[:number], search, of)
    assert search.objective == stochastic_optimum(instance, futures, of)
    assert search.solution.migrations


@pytest.mark.parametrize("kind", [*KINDS[::6], NEWER_KINDS[5]])
def test_layouts_cost_what_the_checker_says(kind: str) -> None:
    """After any migrations the best schedules have the checker's makespan, none is shorter."""
    for seed in range(3):
        instance = random_instance(seed, kind, experts=3)
        futures = futures_of(instance, 2, seed)
        layouts, c = Layouts(futures), instance.columns
        for row, to in ((0, IN_MEMORY), (1, STRIPED), (2, instance.dimms - 1)):
            resident, dimm = c.resident.copy(), c.dimm.copy()
            kind_of = {IN_MEMORY: "prefetch", STRIPED: "stripe"}.get(to, "localize")
            move = Migration(
                expert=instance.experts[row].expert,
                kind=kind_of,
                dimm=to if to >= 0 else None,
            )
            if to == IN_MEMORY:
                resident[row] = True
            else:
                dimm[row] = to
            spans = layouts.best_ns(resident, dimm).tolist()
            least = [best_ns(future, (move,)) for future in futures]
            if instance.schema_version == 1:
                moved = [
                    any(e.tokens and e.expert == move.expert for e in f.experts) for f in futures
                ]
                assert [s for s, at in zip(spans, moved, strict=True) if at] == [
                    s for s, at in zip(least, moved, strict=True) if at
                ]
                at = np.array([row]), np.array([to]), np.arange(2)
                quick = layouts.quick_ns(c.resident, c.dimm, *at)[0]
                assert (quick >= spans).all()
            else:
                assert all(a >= b for a, b in zip(spans, least, strict=True))


def test_solve_decides_from_observed_steps() -> None:
    """Method robust is deterministic, its migrations fit and its status names the futures."""
    instance = moeopt.generate(
        "relayout",
        machine="trimoe",
        model="deepseek-v2-lite",
        workload="trimoe-skew",
        batch=64,
        observed=True,
        dimms=4,
    )
    futures = moeopt.Futures(samples=8)
    results = [moeopt.solve(instance, "robust", futures=futures, seed=1) for _ in range(2)]
    assert results[0].solution == results[1].solution
    assert results[0].solution.migrations
    assert results[0].status == "feasible"
    assert "futures" in results[0].raw_status
