"""What theory says about deferral: deletion, periods, large numbers, and the paper's anchor."""

import random
from fractions import Fraction
from itertools import product

import pytest

from benchmarks.papers.ktransformers.cycle import cycle_ns
from moeopt import solve
from tests.problems.agreement import assert_missed
from tests.problems.deferral.random_schedules import KINDS, random_instance
from tests.rooms.core import Search
from tests.rooms.deferral import (
    CONSTRAINTS,
    TIMES,
    Instance,
    bounds,
    front,
    objective,
    period_ns,
    saturate,
    schedule,
    uniform,
    violations,
)

# The experts of layer 0 take long: D[0] runs beside the long attention of layer 2 if DE-C3 lets it.
HELD = Instance(
    name="deferred experts hold attention",
    layers=3,
    top_k=2,
    min_immediate=1,
    attention_ns=[1, 1, 50],
    shared_ns=0,
    sync_ns=0,
    expert_cpu_ns=[20, 1, 1],
    penalty=[0, 1],
)

SPEAKING = {
    "DE-C1": ("one or two layers",),
    "DE-C4": ("mixed layers",),
    "DE-C7": ("with a penalty limit",),
    "DE-C8": ("one or two layers",),
}
"""Kinds in which a rule says something that it does not in `HELD`."""

ANCHOR = Instance(
    name="DeepSeek-V3 BF16, one layer = 10 ms",
    layers=58,
    top_k=8,
    min_immediate=2,
    attention_ns=2_300_000,
    shared_ns=500_000,
    sync_ns=150_000,
    expert_cpu_ns=925_000,
    penalty=list(range(7)),
)


def varied(layers: int, seed: int, **changes: object) -> Instance:
    """Return the anchor with times that vary by a third, at 1 ns."""
    rng = random.Random(seed)
    times = {
        name: [round(getattr(ANCHOR, name)[0] * rng.uniform(0.5, 1.5)) for _ in range(layers)]
        for name in TIMES
    }
    data = ANCHOR.model_dump() | {"layers": layers, "name": f"varied-{layers}-{seed}"}
    return Instance(**(data | times | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("more", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("rule", CONSTRAINTS)
def test_a_deleted_constraint_is_missed(rule: str, more: bool) -> None:
    """See `assert_missed`."""
    kinds = KINDS if more else SPEAKING.get(rule, ())
    drawn = [
        random_instance(seed, kind, layers=3)
        for seed, kind in product(range(3 if more else 1), kinds)
    ]
    assert_missed(rule, [*drawn, HELD], lambda of: solve(of, "dp").objective)


def test_the_papers_anchor() -> None:
    """K1-K3: 19 % less at two, 26 % at three, nothing more at four; K6: the rule picks three.

    Per layer of an endless pipeline 18.5 and 26 %; over 58 layers, of which the last defers
    nothing, 18.2 and 25.6 %.
    """
    ends = [objective(ANCHOR, uniform(ANCHOR, d))[0] for d in range(5)]
    assert ends[0] == 58 * 10_000_000 - 150_000  # nothing is handed over at the end
    cuts = [1 - end / ends[0] for end in ends]
    assert 0.18 <= cuts[2] <= 0.20
    assert 0.25 <= cuts[3] <= 0.27
    assert ends[4] == ends[3]
    periods = [cycle_ns(ANCHOR, [d] * 58) / 58 for d in range(5)]
    assert periods == [10_000_000, 9_075_000, 8_150_000, 7_400_000, 7_400_000]
    chosen = saturate(ANCHOR)
    assert chosen is not None
    assert set(chosen.deferred[:-1]) == {3}
    assert solve(ANCHOR, "dp").objective == (ends[3], 57 * 3)


def test_the_cycle_time_is_the_period_of_equal_layers() -> None:
    """KTransformers' period max(k te, A + 2 sync + (k - d) te, A + S), for random equal layers."""
    for seed in range(60):
        instance = random_instance(seed, "equal layers")
        for d in range(instance.max_deferred + 1):
            cycle = cycle_ns(instance, [d] * instance.layers)
            assert cycle == period_ns(instance, d), instance.name


def test_the_cycle_time_is_what_repeated_layers_tend_to() -> None:
    """The makespan of 40 passes less that of 20, over 20: within a twentieth."""
    for seed in range(12):
        instance = random_instance(seed, "hand-overs differ", layers=3)
        rng = random.Random(seed)
        counts = [rng.randint(0, instance.max_deferred) for _ in range(3)]

        def repeated(times: int, instance: Instance = instance, counts: list[int] = counts) -> int:
            data = instance.model_dump() | {"layers": 3 * times, "max_total_penalty": None}
            data |= {name: data[name] * times for name in TIMES}
            many = Instance(**data)
            return objective(many, schedule(many, [*(counts * times)[:-1], 0]))[0]

        measured = Fraction(repeated(40) - repeated(20), 20)
        cycle = cycle_ns(instance, counts)
        assert abs(measured - cycle) <= cycle / 20, instance.name


@pytest.mark.parametrize(
    ("times", "counts", "cycle"),
    [
        # Two clocks take turns: neither the GPU's chain nor the CPU's work alone has this mean.
        (((0, 5), (4, 0), (9, 1), (3, 9)), (2, 2), Fraction(57, 2)),
        # Layers without work on the CPU, whose hand-overs nothing waits for.
        (((0, 2, 0), (1, 0, 1), (0, 0, 2), (0, 7, 0)), (1, 1, 2), Fraction(17)),
    ],
)
def test_cycle_times_that_formulas_miss(
    times: tuple[tuple[int, ...], ...], counts: tuple[int, ...], cycle: Fraction
) -> None:
    """Measured on starts of attention 20 and 40 passes into the repeated layers, exactly."""

    def passes(number: int) -> Instance:
        repeated = {name: list(t) * number for name, t in zip(TIMES, times, strict=True)}
        data = {"layers": len(counts) * number, "top_k": 2, "min_immediate": 0}
        return Instance(name="cycle", penalty=[0, 0, 0], **data, **repeated)  # type: ignore[arg-type]

    starts = [
        schedule(passes(n), [*(counts * n)[:-1], 0]).start_ns.attention[-len(counts)]
        for n in (20, 40)
    ]
    assert cycle_ns(passes(1), counts) == cycle == Fraction(starts[1] - starts[0], 20)


@pytest.mark.parametrize("seed", range(6))
def test_dp_on_many_layers_is_valid_and_meets_its_bound(seed: int) -> None:
    """61 layers at 1 ns: proven, checked, no uniform count better, and first on the front."""
    instance = varied(61, seed)
    result = solve(instance, "dp")
    assert result.status == "optimal"
    assert result.objective is not None
    assert bounds.lower_bound(instance) <= result.objective
    for d in range(7):
        assert objective(instance, uniform(instance, d)) >= result.objective
    assert result.objective[0] == objective(instance, uniform(instance, 6))[0]


def test_the_box_drops_nothing_that_counts() -> None:
    """With makespans limited to T* or not at all, the best schedule at T* costs the same."""
    for seed in range(10):
        instance = varied(14, seed)
        points = front(instance)
        assert points is not None
        assert points[0].objective == solve(instance, "dp").objective
        wide = bounds.finished(instance, 10 * instance.horizon_ns, None, lambda: False)
        assert sorted((f.makespan_ns, f.penalty) for f in wide) == [p.objective for p in points]


def test_a_limit_picks_a_point_of_the_front() -> None:
    """With max_total_penalty the optimum is the front's first point within it."""
    for seed in range(6):
        instance = varied(12, seed)
        points = [point.objective for point in front(instance) or []]
        for limit in range(0, points[0][1] + 2, 7):
            limited = varied(12, seed, max_total_penalty=limit)
            result = solve(limited, "dp")
            assert result.status == "optimal"
            assert result.objective == next(p for p in points if p[1] <= limit)


def test_the_search_stops_when_told() -> None:
    """Stopped at once it claims nothing that is not so; the front says that it has none."""
    instance = varied(61, 0, max_total_penalty=60)
    search = Search()
    search.stop()
    from tests.rooms.deferral import solve as dp

    dp(instance, search)
    assert not search.closed
    assert front(instance, lambda: True) is None
    if search.solution is not None:
        assert violations(instance, search.solution) == []


def large(seed: int) -> Instance:
    """Return an instance whose packed objective has many digits, for most seeds beyond 2**53."""
    rng = random.Random(f"large {seed}")
    layers, top_k = rng.randint(2, 4), rng.randint(2, 4)
    longest = 2 ** rng.randint(32, 37)
    times = {name: [rng.randint(0, longest) for _ in range(layers)] for name in TIMES}
    penalty = sorted(rng.randint(0, 2**16) for _ in range(top_k + 1))
    given = {"layers": layers, "top_k": top_k, "min_immediate": 0, "penalty": penalty}
    return Instance(name=f"large-{seed}", **given, **times)


def test_objectives_beyond_exact_doubles() -> None:
    """From 2**53 to 2**60 CP-SAT's answers are exact, and solvers of floats claim nothing false."""
    tried = 0
    for seed in range(16):
        instance = large(seed)
        size = (instance.horizon_ns + 1) * bounds.second_key_radix(instance)
        if not 2**53 < size <= 2**60:
            continue
        tried += 1
        optimum = solve(instance, "dp").objective
        result = solve(instance, "cp-sat", warm_start=False)
        assert (result.status, result.objective, result.bound) == ("optimal", optimum, optimum)
        result = solve(instance, "milp")
        assert result.violations == []
        assert optimum <= result.objective  # type: ignore[operator]
        assert result.bound is None or result.bound <= optimum  # type: ignore[operator]
    assert tried > 5


def test_milp_at_real_times_proves_nothing_false() -> None:
    """In floats the second key is out of reach at 1 ns; its bound stays below the optimum."""
    for seed in range(3):
        instance = varied(3, seed)
        optimum = solve(instance, "dp").objective
        result = solve(instance, "milp", warm_start=False, time_limit_s=30)
        assert result.objective is not None
        assert result.objective >= optimum
        assert result.bound is None or result.bound <= optimum
        assert (result.status == "optimal") == (result.bound == result.objective)
        assert result.objective[0] <= optimum[0] * (1 + 1e-4)  # type: ignore[index]


GPU_BOUND = {"attention_ns": 9_000_000, "expert_cpu_ns": 50_000}
"""The CPU has 0.4 ms of work beside 9.5 ms of the GPU: 4 deferred reach that, none fills it."""


def test_saturation_by_hand() -> None:
    """3 fill the CPU of the anchor; where nothing does, 4 reach the least period."""
    never = ANCHOR.model_copy(
        update={name: (ns,) * ANCHOR.layers for name, ns in GPU_BOUND.items()}
    )
    for instance, count in ((ANCHOR, 3), (never, 4)):
        solution = saturate(instance)
        assert solution is not None
        assert solution.deferred == (count,) * 57 + (0,)
