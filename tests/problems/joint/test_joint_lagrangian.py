"""The relaxation bounds from below whatever its multipliers; plans cost what the checker says."""

import random
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from moeopt import solve
from tests.problems.joint.joint_random_instances import KINDS, random_instance, random_solution
from tests.problems.joint.test_joint_oracle import small
from tests.rooms.algorithms import Volume
from tests.rooms.joint import (
    PACE,
    Arrays,
    Decisions,
    Floats,
    Ints,
    Multipliers,
    Prices,
    Relaxation,
    Relaxed,
    StepRelaxation,
    cache_hits,
    cached_layers,
    changes,
    check,
    cost,
    first_multipliers,
    least_within,
    objective_grid,
    plan_of,
    soft_flow,
    solution_of,
    whole_flow,
)
from tests.shares import shares

BUDGETS = ("JT-C2", "JT-C3", "JT-C4")
SHARES = [range(5), pytest.param(range(5, 300), marks=pytest.mark.slow)]


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
    hit = 3000 * rng.exponential(size=len(price) + len(count)) * (rng.random() < 0.5)
    return Multipliers(price, flow.reshape(-1, 5), 0.0, host, loss, count, hit)


def ascent_of(relaxation: Relaxation, lengths: Floats) -> Volume[Multipliers, Relaxed]:
    """Return the volume algorithm at the multipliers of a plan's lengths."""
    first = relaxation.evaluate(first_multipliers(relaxation, lengths))
    return Volume(Prices(relaxation), first, PACE)


@pytest.mark.parametrize("chosen", [[[[0]]], [[[0, 1]]]])
def test_arrays_are_of_one_kind(chosen: list[list[list[int]]]) -> None:
    """Of one entry or more: for arrays that are not writable Numba compiles all kernels anew."""
    steps = Arrays.of(small(chosen, 1)).steps
    assert all(of.flags.c_contiguous and of.flags.writeable for of in steps)


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
            at = random_multipliers(rng, relaxation)
            found = relaxation.evaluate(at)
            exact = relaxation.evaluate(at, exact=True).proven_ns
            assert exact >= found.proven_ns
            random_ones.append(exact)
            assert 0 <= found.proven_ns - found.bound < 1.01
            plan = plan_of(instance, random_solution(random.Random(seed), instance))
            lengths = cost(arrays, plan).lengths.astype(np.float64)
            ascent = ascent_of(relaxation, lengths)
            ascent.iterate(best, 30, lambda: False)
            raised.append(relaxation.evaluate(ascent.best.at, exact=True).proven_ns)
        assert min(random_ones) <= best, seed
        assert min(raised) <= best, seed
        close += min(raised) > 0.9 * best
    assert close


CACHES = [range(3), pytest.param(range(3, 200), marks=pytest.mark.slow)]


@pytest.mark.parametrize("seeds", CACHES)
def test_caches_of_two_ways_are_bounded(seeds: range) -> None:
    """With few experts, of which all sets are tried as residents, and with many."""
    rng = np.random.default_rng(seeds.start)
    close = 0
    for seed in seeds:
        instance = random_instance(seed, ("caches", "caches and deferral")[seed % 2])
        few = seed % 3 > 0
        update: dict[str, object] = {"max_ways": 2, "experts": instance.experts if few else 9}
        if not few and instance.width_loss is not None:
            update["width_loss"] = None
        instance = instance.model_copy(update=update)
        best = solve(instance, "cp-sat", warm_start=False).objective
        if best is None:
            continue
        arrays = Arrays.of(instance)
        kinds = [Relaxation(arrays, 0)]
        if StepRelaxation.suits(arrays):
            kinds.append(StepRelaxation(arrays, 0, objective_grid(instance)))
        for relaxation in kinds:
            assert relaxation.evaluate(random_multipliers(rng, relaxation)).proven_ns <= best, seed
            plan = plan_of(instance, random_solution(random.Random(seed), instance))
            lengths = cost(arrays, plan).lengths.astype(np.float64)
            ascent = ascent_of(relaxation, lengths)
            ascent.iterate(best, 60, lambda: False)
            assert ascent.best.proven_ns <= best, seed
            close += ascent.best.proven_ns > 0.9 * best
    assert close


def test_layers_with_caches_cost_least_of_all_plans() -> None:
    """Against every plan of a layer, with the hits of its execution, and all ways to share room."""
    rng = np.random.default_rng(7)
    for seed in range(12):
        kind = ("caches", "caches and deferral")[seed % 2]
        instance = random_instance(seed, kind).model_copy(update={"max_ways": 2})
        arrays, (layers, experts) = Arrays.of(instance), (instance.layers, instance.experts)
        size, room = rng.integers(1, 5, size=2), int(rng.integers(0, 20))
        prices = rng.integers(-50, 50, size=(layers, experts, 4))
        rows = layers * len(instance.steps)
        paid = rng.integers(0, 30, size=len(arrays.row) + rows)
        least, most = np.zeros((layers + 1, room + 1), np.int64), np.array([2, room])
        chosen = np.zeros((layers, experts + 2), np.int64)
        cached_layers(arrays.steps, prices, size, paid, most, least, chosen)
        own = np.full((layers, room + 1), 10**6)
        for states, ways in product(product(range(4), repeat=experts), range(3)):
            taken, costs = _layers_cost(arrays, prices, size, paid, states, ways)
            own[:, taken:] = np.minimum(own[:, taken:], costs[:, None])
        for r in range(room + 1):
            shares = product(range(r + 1), repeat=layers)
            best = min(own[range(layers), parts].sum() for parts in shares if sum(parts) <= r)
            assert least[-1, r] == best, seed
        plans = [_layers_cost(arrays, prices, size, paid, row[:-2], row[-1]) for row in chosen]
        assert sum(taken for taken, _ in plans) <= room
        assert sum(costs[layer] for layer, (_, costs) in enumerate(plans)) == least[-1, room]


def _layers_cost(
    arrays: Arrays, prices: Ints, size: Ints, paid: Ints, states: Ints, ways: int
) -> tuple[int, Ints]:
    """Return the units that a layer takes with these states and ways, and what each layer costs."""
    layers = len(prices)
    held, width = (np.array([row] * layers) for row in np.divmod(states, 2))
    none, hit = np.zeros(layers, dtype=np.int64), np.zeros(len(arrays.row), dtype=np.bool_)
    plan = Decisions(held > 0, width, none + ways, none, hit)
    steps = arrays.steps._replace(copy_ns=np.tile(arrays.steps.copy_ns, 2))  # of two widths
    for layer in range(layers):
        cache_hits(steps, plan, layer, np.zeros(len(held[0]), dtype=np.int64))
    widest = size[width[0]][held[0] == 0].max(initial=0)
    taken = int(size[width[0]][held[0] > 0].sum() + ways * widest)
    costs = prices[:, range(len(held[0])), states].sum(1)
    np.subtract.at(costs, arrays.row[hit] % layers, paid[: len(hit)][hit])
    there = hit | (held[arrays.row % layers, arrays.steps.expert] > 0)
    alone = np.bincount(arrays.row[there], minlength=len(paid) - len(hit)) == 0
    np.add.at(costs, np.flatnonzero(alone) % layers, paid[len(hit) :][alone])
    return taken, costs


def test_nothing_is_proven_where_caches_are_left_out() -> None:
    """A relaxation without them is there for its prices and plans."""
    instance = random_instance(0, "caches")
    relaxation = Relaxation(Arrays.of(instance), 0)
    relaxation.caches = False
    at = random_multipliers(np.random.default_rng(0), relaxation)
    assert relaxation.evaluate(at, exact=True).proven_ns == 0


@pytest.mark.parametrize("seeds", [range(6), pytest.param(range(20), marks=pytest.mark.slow)])
def test_what_fits_at_least_cost(seeds: range) -> None:
    """The dynamic program over the GPU's memory against all choices of four experts."""
    rng = np.random.default_rng(5)
    for _ in seeds:
        cost_of, size = rng.integers(-20, 20, size=(4, 4)), np.array([0, 0, *rng.integers(1, 4, 2)])
        for room in range(8):
            choices = product(range(4), repeat=4)
            fitting = [c for c in choices if size[list(c)].sum() <= room]
            least = min(cost_of[range(4), c].sum() for c in fitting)
            assert least_within(cost_of, size, room) == least


@pytest.mark.parametrize("size", [1e12, 1e15, 1e300])
@pytest.mark.parametrize("seeds", shares(4, 12))
def test_multipliers_beyond_64_bits_bound_the_optimum(size: float, seeds: range) -> None:
    """Steps that go astray reach any size; sums of integers must not pass beyond 64 bits."""
    rng = np.random.default_rng(1)
    for seed in seeds:
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
            by_paths = paths.evaluate(at).bound
            hit = np.append(at.hit[: len(at.price)], np.zeros(len(at.count)))  # paths have no other
            found = whole.evaluate(replace(at, count=whole.counts_of(at), hit=hit))
            assert found.bound >= by_paths - 1e-3
            higher += found.bound > by_paths + 1
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
            hit=np.zeros(len(own) + len(deferred)),
        )
        found = relaxation.evaluate(at)
        assert (found.state // 3 == own).all()
        assert (found.row_deferred == deferred).all()
        # What experts and layers pay back: nothing, unless there is no other number to take.
        alone = instance.layers if most == 0 else 1
        back = force * len(instance.steps) * alone
        paid = force * (len(own) + len(deferred))
        assert round(found.bound - back + paid) == cost(arrays, plan).total_ns, seed


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


def test_updateadd_what_they_say() -> None:
    """Single changes, of caches too: time where nothing is swapped, and all that has a budget."""
    rng = random.Random(3)
    seen = cached = 0
    for seed in range(60):
        instance = random_instance(seed, KINDS[seed % 6])
        instance = instance.model_copy(update={"max_ways": 2 * instance.max_ways})
        arrays = Arrays.of(instance)
        plan = plan_of(instance, random_solution(rng, instance))
        before = cost(arrays, plan)
        known = changes(arrays, plan)
        for n in range(len(known.layer)):
            after = cost(arrays, known.apply(plan, np.array([n])))
            slow = max(of.copies_ns - of.total_ns for of in (before, after))
            if not (before.swapped.any() or after.swapped.any() or slow == 0):
                assert after.total_ns - before.total_ns == known.time_ns[n]
                seen += 1
                cached += bool(known.expert[n] == -2)
            assert [
                getattr(after, name) - getattr(before, name)
                for name in ("gpu_bytes", "host_bytes", "loss", "copies_ns")
            ] == known.used[:, n].tolist()
    assert seen > 100
    assert cached > 100


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
