"""Dividing two DIMMs anew: as good as trying every division, within the slots, never worse."""

import numpy as np
import pytest

from moeopt.problems.layout.instance import Instance
from moeopt.problems.layout.multi_scenario import resplit as module
from moeopt.problems.layout.multi_scenario.plan import (
    DIMM,
    DIMMS,
    DOMAIN,
    RESIDENT,
    WEIGHT,
    Plan,
    load,
    new_plan,
    objective,
)
from moeopt.problems.layout.multi_scenario.resplit import resplit, resplit_pairs
from moeopt.problems.layout.multi_scenario.rows import CPU, GPU, IDLE, NDP, NDP_COST, STRIPED, Rows
from tests.problems.layout.layout_random_instances import random_instance


def random_plan(seed: int, experts: int = 7) -> tuple[Instance, Plan]:
    """Return a random layout with random domains on two or three DIMMs."""
    instance = random_instance(seed, "several scenarios", experts=experts)
    rng = np.random.default_rng(seed)
    rows, dimms = Rows.of(instance), int(rng.integers(2, 4))
    count = len(rows.experts)
    dimm = rng.integers(0, dimms, count)
    dimm[rng.random(count) < 0.2] = STRIPED
    resident = (rng.random(count) < 0.2).astype(np.int64)
    domain = rng.choice([GPU, CPU, NDP, NDP, NDP], size=rows.active.shape)
    domain = np.where((dimm == STRIPED)[:, None] & (domain == NDP), CPU, domain)
    domain = np.where(rows.active, domain, IDLE)
    choice = np.ascontiguousarray(np.column_stack([dimm, resident, domain]), dtype=np.int64)
    reads = (instance.dram_striped_ns, instance.dram_localized_ns)
    plan = new_plan(rows, reads, dimms, choice)
    load(plan, 0)
    return instance, plan


def best_division(plan: Plan, d: int, e: int, slots: int) -> float:
    """Return the least objective over all ways to divide the rows of two DIMMs."""
    kept = plan.choice.copy()
    rows = np.flatnonzero((kept[:, DIMM] == d) | (kept[:, DIMM] == e))
    best = np.inf
    for code in range(1 << len(rows)):
        side = (code >> np.arange(len(rows))) & 1
        if max(side.sum(), len(rows) - side.sum()) > slots and code != _code(kept[rows, DIMM], d):
            continue
        plan.choice[rows, DIMM] = np.where(side == 1, d, e)
        load(plan, 0)
        best = min(best, objective(plan.state))
    plan.choice[:] = kept
    load(plan, 0)
    return best


def _code(dimm: np.ndarray, d: int) -> int:
    return sum(1 << k for k, at in enumerate(dimm.tolist()) if at == d)


@pytest.mark.parametrize("slots", [7, 4])
def test_the_best_of_all_divisions(slots: int) -> None:
    """Sixty plans: the objective is that of the best division, and the loads are kept up."""
    gained = 0
    for seed in range(60):
        _, plan = random_plan(seed)
        before, best = objective(plan.state), best_division(plan, 1, 0, slots)
        resplit(plan, 1, 0, slots)
        assert objective(plan.state) == best, seed
        own = plan.state[DIMMS::3].copy()
        load(plan, 0)
        assert (plan.state[DIMMS::3] == own).all()
        gained += best < before
    assert gained > 20


def test_all_pairs() -> None:
    """No pair gains any more at the end."""
    for seed in range(20):
        _, plan = random_plan(seed)
        before = objective(plan.state)
        resplit_pairs(plan, 7, lambda: False)
        after = objective(plan.state)
        assert after <= before
        assert all(
            best_division(plan, d, e, 7) == after
            for d in range((len(plan.state) - DIMMS) // 3)
            for e in range(d)
        )


def test_more_rows_than_are_tried() -> None:
    """With 24 rows on two DIMMs the longest are divided, the others stay, nothing gets worse."""
    for seed in range(5):
        _, plan = random_plan(seed, experts=24)
        before, where = objective(plan.state), plan.choice[:, DIMM].copy()
        work = plan.part[:, 3].sum(axis=1)
        resplit(plan, 1, 0, 24)
        moved = np.flatnonzero(plan.choice[:, DIMM] != where)
        assert objective(plan.state) <= before
        on_two = np.flatnonzero((where == 0) | (where == 1))
        short = on_two[np.argsort(-work[on_two], kind="stable")][module.MOST_ROWS :]
        assert work[moved].min(initial=np.inf) >= work[short].max(initial=0)


def test_stopping_leaves_a_whole_plan() -> None:
    """Stopped before the first pair, nothing has changed."""
    _, plan = random_plan(3)
    before = plan.choice.copy()
    resplit_pairs(plan, 7, lambda: True)
    assert (plan.choice == before).all()


def tied_plan() -> Plan:
    """Return 36 localized rows of small works on twelve DIMMs: many plans are equally good."""
    rows, dimms, scenarios, rng = 36, 12, 3, np.random.default_rng(22)
    cost = np.zeros((8, rows, scenarios))
    cost[NDP_COST] = rng.integers(1, 9, cost[NDP_COST].shape)
    rng = np.random.default_rng(22)
    rng.integers(1, 40, (rows, scenarios))
    choice = np.full((rows, DOMAIN + scenarios), NDP, dtype=np.int64)
    choice[:, DIMM], choice[:, RESIDENT] = rng.integers(0, dimms, rows), 0
    state = np.zeros((DIMMS + 3 * dimms, scenarios))
    state[WEIGHT] = 1
    return Plan(cost, choice, np.zeros((rows, 4, scenarios)), state)


def test_dividing_ends() -> None:
    """Ties are decided by what falls on the whole; by each pair's longer sides this went round."""
    asked = 0

    def stopped() -> bool:
        nonlocal asked
        asked += 1
        return asked > 20_000

    resplit_pairs(tied_plan(), 36, stopped)
    assert asked < 20_000
