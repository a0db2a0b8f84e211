"""The relaxation bounds from below whatever its multipliers; plans cost what the checker says."""

import random
from dataclasses import replace

import numpy as np
import pytest

from moeopt.problems.joint import check
from moeopt.problems.joint.bounds import objective_grid
from moeopt.problems.joint.lagrangian import Ascent, first_multipliers
from moeopt.problems.joint.lagrangian.arrays import Arrays, cost, plan_of, solution_of
from moeopt.problems.joint.lagrangian.local_search import changes
from moeopt.problems.joint.lagrangian.relaxation import (
    Multipliers,
    Relaxation,
    StepRelaxation,
    soft_flow,
    whole_flow,
)
from moeopt.solvers.run import solve
from tests.problems.joint.joint_random_instances import KINDS, random_instance, random_solution

BUDGETS = ("JT-C2", "JT-C3", "JT-C4")
SHARES = [range(10), pytest.param(range(10, 300), marks=pytest.mark.slow)]


def random_multipliers(rng: np.random.Generator, relaxation: Relaxation) -> Multipliers:
    """Return prices and flows without any sense, and prices of the budgets that there are."""
    i = relaxation.instance
    shape = (len(i.steps), i.layers, 5)
    flow = soft_flow(3000 * rng.normal(size=shape), 1000.0, True)
    price = 3000 * rng.normal(size=(len(relaxation.arrays.row), relaxation.states))
    host, loss = (
        0.0 if limit is None else 1000 * float(rng.exponential() * (rng.random() < 0.5))
        for limit in (i.host_bytes, i.max_loss)
    )
    count = 3000 * rng.normal(size=(len(flow) * i.layers, i.max_deferred + 1))
    return Multipliers(price, flow.reshape(-1, 5), 0.0, host, loss, count)


@pytest.mark.parametrize("seeds", SHARES)
def test_any_multipliers_bound_the_optimum(seeds: range) -> None:
    """Random ones, and those of some steps of the volume algorithm, in integers."""
    rng = np.random.default_rng(seeds.start)
    close = 0
    for seed in seeds:
        instance = random_instance(seed)
        best = solve(instance, "cp-sat", warm_start=False).objective
        if best is None:
            continue
        arrays = Arrays.of(instance)
        random_ones, raised = [], []
        for number in range(len(instance.contexts)):
            relaxation = Relaxation(arrays, number)
            found = relaxation.evaluate(random_multipliers(rng, relaxation))
            random_ones.append(found.proven_ns)
            assert 0 <= found.proven_ns - found.bound_ns < 1.01
            plan = plan_of(instance, random_solution(random.Random(seed), instance))
            lengths = cost(arrays, plan).lengths.astype(np.float64)
            ascent = Ascent(relaxation, first_multipliers(relaxation, lengths))
            ascent.iterate(best, 30, lambda: False)
            raised.append(ascent.best.proven_ns)
        assert min(random_ones) <= best, seed
        assert min(raised) <= best, seed
        close += min(raised) > 0.9 * best
    assert close


@pytest.mark.parametrize("size", [1e12, 1e15, 1e300])
def test_multipliers_beyond_64_bits_bound_the_optimum(size: float) -> None:
    """Steps that go astray reach any size; sums of integers must not pass beyond 64 bits."""
    rng = np.random.default_rng(1)
    for seed in range(12):
        instance = random_instance(seed)
        best = solve(instance, "cp-sat", warm_start=False).objective
        if best is None:
            continue
        arrays = Arrays.of(instance)
        for kind in (Relaxation, StepRelaxation):
            proven = []
            for number in range(len(instance.contexts)):
                relaxation = (
                    Relaxation(arrays, number)
                    if kind is Relaxation
                    else StepRelaxation(arrays, number, objective_grid(instance))
                )
                at = random_multipliers(rng, relaxation)
                astray = replace(at, price=at.price * size, count=at.count * size)
                proven.append(relaxation.evaluate(astray).proven_ns)
            if kind is Relaxation or StepRelaxation.suits(arrays):
                assert min(proven) <= best, seed


@pytest.mark.parametrize("seeds", SHARES)
def test_whole_steps_bound_the_optimum_no_worse_than_paths(seeds: range) -> None:
    """With any multipliers, and with prices of counts that make up for the flows."""
    rng = np.random.default_rng(seeds.start)
    higher = 0
    for seed in seeds:
        instance = random_instance(seed)
        arrays = Arrays.of(instance)
        best = solve(instance, "cp-sat", warm_start=False).objective
        if best is None or not StepRelaxation.suits(arrays):
            continue
        bounds = []
        for number in range(len(instance.contexts)):
            paths = Relaxation(arrays, number)
            whole = StepRelaxation(arrays, number, objective_grid(instance))
            at = random_multipliers(rng, paths)
            by_paths = paths.evaluate(at).bound_ns
            found = whole.evaluate(replace(at, count=whole.counts_of(at)))
            assert found.bound_ns >= by_paths - 1e-3
            higher += found.bound_ns > by_paths + 1
            bounds.append(max(found.proven_ns, whole.evaluate(at).proven_ns))
        assert min(bounds) <= best, seed
    assert higher


def test_whole_steps_take_as_long_as_their_plan() -> None:
    """Prices that force a plan leave its time, exactly where residents stay on the GPU."""
    rng = random.Random(4)
    for seed in range(80):
        roomy = {"host_copy": False, "gpu_bytes": 2**40, "max_loss": None, "host_bytes": None}
        instance = random_instance(seed, KINDS[seed % 4]).model_copy(update=roomy)
        arrays = Arrays.of(instance)
        plan = plan_of(instance, random_solution(rng, instance))
        relaxation = StepRelaxation(arrays, plan.context, objective_grid(instance))
        widths, most = len(instance.bits), instance.max_deferred
        own = (plan.width + widths * plan.held).ravel()[arrays.cell]
        deferred = np.tile(plan.deferred, len(instance.steps))
        force = 10.0 * instance.horizon_ns
        at = Multipliers(
            price=force * np.eye(2 * widths)[own],
            flow=np.zeros((len(deferred), 5)),
            gpu=0.0,
            host=0.0,
            loss=0.0,
            count=force * np.eye(most + 1)[deferred],
        )
        found = relaxation.evaluate(at)
        assert (found.state // 3 == own).all()
        assert (found.row_deferred == deferred).all()
        # What experts and layers pay back: nothing, unless there is no other number to take.
        alone = instance.layers if most == 0 else 1
        back = force * len(instance.steps) * alone
        paid = force * (len(own) + len(deferred))
        assert round(found.bound_ns - back + paid) == cost(arrays, plan).total_ns, seed


def test_plans_cost_what_the_checker_says() -> None:
    """Time with the best dispatch, loss and memory; never more than without swapping."""
    rng = random.Random(2)
    swapped = 0
    for seed in range(150):
        instance = random_instance(seed)
        arrays = Arrays.of(instance)
        plain = random_solution(rng, instance)
        found = cost(arrays, plan_of(instance, plain))
        plan = solution_of(arrays, plan_of(instance, plain), found)
        assert {rule for rule, _ in check.violations(instance, plan)} <= {*BUDGETS}
        assert check.objective(instance, plan) == found.total_ns
        assert found.total_ns <= check.objective(instance, plain)
        assert check.loss(instance, plan) == found.loss
        assert check.memory_bytes(instance, plan) == (found.gpu_bytes, found.host_bytes)
        swapped += len(plan.swapped)
    assert swapped


def test_changes_add_what_they_say() -> None:
    """Time and loss of single changes, where nothing is swapped and no cache is there."""
    rng = random.Random(3)
    seen = 0
    for seed in range(60):
        instance = random_instance(seed, KINDS[seed % 4])
        arrays = Arrays.of(instance)
        plan = plan_of(instance, random_solution(rng, instance))
        before = cost(arrays, plan)
        known = changes(arrays, plan, before.hit)
        for n in range(len(known.layer)):
            after = cost(arrays, known.apply(plan, np.array([n])))
            if not (before.swapped.any() or after.swapped.any()):
                assert after.total_ns - before.total_ns == known.time_ns[n]
                seen += 1
            assert after.loss - before.loss == known.loss[n]
            assert after.gpu_bytes - before.gpu_bytes == known.gpu[n]
            assert after.host_bytes - before.host_bytes == known.host[n]
    assert seen > 100


def test_flows_are_flows() -> None:
    """What goes into a clock goes out of it, one in all, also in integers."""
    rng = np.random.default_rng(0)
    flow = soft_flow(rng.normal(size=(4, 5, 5)), 0.5, True)
    for of, one in ((flow, 1.0), (whole_flow(flow, 1 << 20).astype(float), 2.0**20)):
        assert (of >= 0).all()
        into_a, into_c = of[:, :, :3].sum(axis=2), of[:, :, 3:].sum(axis=2)
        out_of_a, out_of_c = of[:, :, [0, 1, 3]].sum(axis=2), of[:, :, [2, 4]].sum(axis=2)
        assert np.allclose(out_of_a[:, 0], one)
        assert np.allclose(into_a[:, :-1], out_of_a[:, 1:])
        assert np.allclose(into_c[:, :-1], out_of_c[:, 1:])
        assert np.allclose(into_a[:, -1], one)
