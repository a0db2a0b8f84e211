"""The forecast of loads: what it is in special cases, and whether it says what comes."""

from dataclasses import replace

import numpy as np
import pytest

from moeopt import InputError, get_machine
from tests.rooms.sim import (
    CostCurve,
    Dynamics,
    fit,
    forecast,
    get_model,
    predict_run,
    step_costs,
)

EXPERTS, TOKENS = 32, 1536


def windows(rng: np.random.Generator, number: int, spread: float, moves: float) -> np.ndarray:
    """Return loads: Dirichlet-multinomial around popularity that does a random walk."""
    popularity = rng.normal(0, 0.7, EXPERTS)
    rows = []
    for _ in range(number):
        popularity = popularity + rng.normal(0, moves, EXPERTS)
        share = np.exp(popularity) / np.exp(popularity).sum()
        rows.append(rng.multinomial(TOKENS, rng.dirichlet(share * spread)))
    return np.array(rows)


def test_without_discount_and_shrinkage_the_mean_is_the_plain_mean() -> None:
    """And with a discount it is the moving average of TriMoE's Eq. 8, but for how it starts."""
    loads = windows(np.random.default_rng(0), 60, 500, 0.05)
    plain = forecast(loads, Dynamics(1e-9, 1.0, 1.5, 0.02))
    np.testing.assert_allclose(plain.mean, loads.mean(axis=0), rtol=1e-6)
    moving = forecast(loads, Dynamics(1e-9, 0.7, 1.5, 0.02))
    average = predict_run(np.append(loads, loads[:1], axis=0)[:, None], alpha=0.3)[-1, 0]
    np.testing.assert_allclose(moving.mean, average, rtol=1e-6)


@pytest.mark.parametrize(("spread", "moves"), [(1e6, 0.0), (800, 0.0), (800, 0.1)])
def test_intervals_cover_what_comes(spread: float, moves: float) -> None:
    """Of independent, overdispersed and drifting windows, the next ones are inside as promised."""
    rng = np.random.default_rng(3)
    inside = []
    for _ in range(9):
        loads = windows(rng, 16, spread, moves)
        found = fit(loads[:8])
        below, up_to = found.cdf(loads[8:] - 1), found.cdf(loads[8:])
        place = below + (up_to - below) * rng.random(below.shape)
        inside.append(((place > 0.1) & (place < 0.9)).mean())
    assert 0.75 <= np.mean(inside) <= 0.85


def test_fits_what_the_windows_are_like() -> None:
    """Independent draws are told from overdispersed ones, lasting popularity from a moving one."""
    rng = np.random.default_rng(5)
    calm, rough = fit(windows(rng, 12, 1e6, 0.0)), fit(windows(rng, 12, 400, 0.0))
    assert calm.dynamics.dispersion < 1.3
    assert (rough.variance / rough.mean).mean() > 2 * (calm.variance / calm.mean).mean()
    assert fit(windows(rng, 12, 1e6, 0.3)).dynamics.discount < 0.8 < calm.dynamics.discount


def test_samples_are_of_the_distribution_that_is_stated() -> None:
    """Means, variances and totals; the same generator gives the same windows."""
    loads = windows(np.random.default_rng(1), 8, 500, 0.05)
    found = fit(loads)
    drawn = found.sample(4000, np.random.default_rng(2))
    assert (drawn.sum(axis=1) == TOKENS).all()
    assert drawn.min() >= 0
    np.testing.assert_allclose(drawn.mean(axis=0), found.mean, rtol=0.05, atol=0.1)
    ratio = drawn.var(axis=0) / found.variance
    assert ratio.min() > 0.75
    assert ratio.max() < 1.15
    low, high = found.intervals(0.8)
    assert 0.75 < ((drawn >= low) & (drawn <= high)).mean() < 0.92
    assert (
        found.sample(5, np.random.default_rng(7)) == found.sample(5, np.random.default_rng(7))
    ).all()


def test_likelihood_is_that_of_a_distribution_and_prefers_what_comes() -> None:
    """The chances of all counts add up to one; the fitted mean beats equal shares."""
    loads = windows(np.random.default_rng(4), 9, 500, 0.02)
    found = fit(loads[:8])
    counts = np.arange(TOKENS)
    for expert in (int(found.mean.argmin()), int(found.mean.argmax())):
        alone = replace(found, mean=found.mean[[expert]], variance=found.variance[[expert]])
        chances = np.exp([alone.log_likelihood([[count]]) for count in counts])
        assert abs(chances.sum() - 1) < 1e-3
    flat = forecast(loads[:8], Dynamics(1e3, 1.0, 1.5, 0.02))
    assert found.log_likelihood(loads[8:]) > flat.log_likelihood(loads[8:])


def test_one_window_is_enough_and_an_unused_expert_may_come() -> None:
    """What is not seen is unlikely, not impossible."""
    found = fit(np.array([[900, 500, 100, 0]]))
    assert 0 < found.mean[3] < 5
    assert found.sample(200, np.random.default_rng(0))[:, 3].max() > 0


def test_thousands_of_tokens_take_no_more_time_or_room() -> None:
    """Counts of large batches are evaluated on a coarser grid."""
    rng = np.random.default_rng(6)
    loads = rng.multinomial(400 * TOKENS, rng.dirichlet(np.full(EXPERTS, 30.0), size=6))
    found = fit(loads)
    drawn = found.sample(2000, rng)
    np.testing.assert_allclose(drawn.mean(axis=0), found.mean, rtol=0.1)


@pytest.mark.parametrize(
    ("loads", "reason"),
    [
        (np.zeros((2, 3), int), "nor 0 for all"),
        (np.array([[1, -1]]), "must not be negative"),
        (np.array([1, 2]), "shape"),
        (np.array([[0.5]]), "integers"),
    ],
)
def test_what_is_no_load_is_an_error(loads: np.ndarray, reason: str) -> None:
    """One line that says what is wrong."""
    with pytest.raises(InputError, match=reason):
        fit(loads)


def test_exact_where_known_and_near_elsewhere() -> None:
    """On TriMoE's machine a curve through some counts is within 10 % of the rest, beyond too."""
    machine, model = get_machine("trimoe"), get_model("deepseek-v2")
    known = np.unique(np.random.default_rng(0).integers(1, 130, 60))
    for path in ("gpu_hit_ns", "cpu_striped_ns", "ndp_ns"):
        curve = CostCurve.of(
            known[None], getattr(step_costs(machine, model).experts(known, 1000), path)[None], 1000
        )
        assert (
            curve(known) == getattr(step_costs(machine, model).experts(known, 1000), path)
        ).all()
        more = np.arange(1, 195)
        true = getattr(step_costs(machine, model).experts(more, 1000), path)
        got = np.array([CostCurve(curve.tokens, curve.ns, np.ones(1), 1000)([n])[0] for n in more])
        assert np.abs(got / true - 1).max() < 0.1, path
        assert (np.diff(got) >= 0).all()


def test_no_tokens_cost_nothing_and_one_count_is_a_constant() -> None:
    """The two ends of what an instance can say."""
    curve = CostCurve.of([[4, 0]], [[80, 999]])
    assert curve([[0, 7], [1, 0]]).tolist() == [[0, 80], [80, 0]]


def test_experts_of_their_own_cost_keep_it() -> None:
    """Where equal counts cost different times, each expert's ratio to the others stays."""
    tokens = np.array([[10, 10], [20, 20]])
    curve = CostCurve.of(tokens, [[100, 300], [200, 600]])
    assert curve([[10, 10], [20, 20], [30, 15]]).tolist() == [[100, 300], [200, 600], [300, 450]]
