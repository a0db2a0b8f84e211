"""What a plan is worth: faster, even or slower than the best default on steps not decided on."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from moeopt import InputError, Plan
from tests.planner.small_plans import planned, planned_for
from tests.rooms.planner import (
    Comparison,
    Default,
    Predicted,
    Verdict,
    gain,
    hand_over,
    page,
    verdict,
)


def comparison(name: str, step_ms: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Comparison:
    """Return a plan by name, a default unless it is called "plan", with held-out latencies."""
    step_ns = np.rint(step_ms * 1e6).astype(np.int64)
    mean = float(step_ms.mean())
    held_out = Predicted(len(step_ns), mean, mean, mean, 1000 / mean, mean, step_ns=step_ns)
    plan = Plan(name=name)
    default = None
    if name != "plan":
        runtime, strategy = name.replace(",", "").split()[:2]
        default = Default(plan, runtime, f"--flags-of {name}", strategy)
    return Comparison(plan, planned().comparisons[0].kept, held_out, default=default)


def noise(
    sigma: float, seed: int, steps: int = 200
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return noise of mean 0."""
    drawn = np.random.default_rng(seed).normal(0, sigma, steps)
    return np.asarray(drawn - drawn.mean())


def worth(plan_ms: float, default_ms: float, sigma: float = 0.1) -> Verdict:
    """Return the verdict on such means, with noise of their own."""
    mine = comparison("plan", plan_ms + noise(sigma, 1))
    found = verdict([mine, comparison("llama.cpp --cpu-moe", default_ms + noise(sigma, 2))])
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("plan_ms", "default_ms", "sigma", "word"),
    [
        (10.0, 11.0, 0.1, "faster"),
        (11.0, 10.0, 0.1, "slower"),
        (10.0, 10.0, 0.1, "even"),
        (10.0, 10.04, 0.001, "even"),  # half a percent is not worth it, however certain
        (10.04, 10.0, 0.001, "even"),
        (10.0, 10.2, 5.0, "even"),  # two percent in such noise are nothing
        (10.2, 10.0, 5.0, "even"),
    ],
)
def test_words(plan_ms: float, default_ms: float, sigma: float, word: str) -> None:
    """By mean and interval."""
    assert worth(plan_ms, default_ms, sigma).word == word


def test_the_interval_holds_the_gain_of_the_law_19_times_of_20() -> None:
    """Steps of 10 and 10.5 ms, 300 draws: the interval misses 5 % in 2 to 9 % of them."""
    missed = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        steps = 200 if seed % 2 else 12
        mine, theirs = rng.normal(10, 1, steps), rng.normal(10.5, 1, steps)
        found = gain(comparison("plan", mine), comparison("x y", theirs))
        assert found.low is not None
        assert found.high is not None
        missed += not found.low <= 0.05 <= found.high
    assert 6 <= missed <= 27


def test_few_steps_have_no_interval() -> None:
    """Then the mean alone decides; from five steps on there is one."""
    mine = comparison("plan", 10 + noise(0.1, 1, steps=4))
    found = gain(mine, comparison("x y", 12 + noise(0.1, 2, steps=4)))
    assert (found.low, found.high, found.word) == (None, None, "faster")
    mine = comparison("plan", 10 + noise(1, 1, steps=5))
    assert gain(mine, comparison("x y", 10.1 + noise(1, 2, steps=5))).word == "even"


def test_what_counting_brings() -> None:
    """Frequency against the best default that does not count, and the plan against frequency."""
    flat = np.zeros(100)
    named = {
        "plan": 9.0,
        "llama.cpp --cpu-moe": 20.0,
        "ktransformers uniform, 3 per layer": 12.0,
        "ktransformers frequency, 9 experts": 10.0,
    }
    found = verdict([comparison(name, flat + ms) for name, ms in named.items()])
    assert found is not None
    assert found.counting is not None
    assert found.deciding is not None
    assert found.best.plan.name == "ktransformers frequency, 9 experts"
    assert found.counting.mean == pytest.approx(0.2)
    assert found.deciding.mean == pytest.approx(1 / 9)


@pytest.mark.parametrize(
    ("default_ms", "said"),
    [
        (8.0, "plan: slower than llama.cpp --cpu-moe on steps held out: take that"),
        (10.0, "plan: even with llama.cpp --cpu-moe on steps held out: take that"),
        (12.0, "plan: faster than every default on steps held out"),
    ],
)
def test_the_page_and_the_files_offer_the_default(
    default_ms: float, said: str, tmp_path: Path
) -> None:
    """A plan that is not faster stands beside the default, with its flags and its plan file."""
    flat = np.zeros(100)
    both = (comparison("plan", flat + 10), comparison("llama.cpp --cpu-moe", flat + default_ms))
    made = replace(planned(), comparisons=both)
    text = page(made)
    assert said in text
    offered = "  llama.cpp: --flags-of llama.cpp --cpu-moe"
    hand_over(made, tmp_path)
    assert (offered in text.splitlines()) == (default_ms <= 10)
    assert (tmp_path / "default.json").exists() == (default_ms <= 10)
    assert ("--flags-of" in (tmp_path / "flags.txt").read_text()) == (default_ms <= 10)
    data = made.to_dict()["verdict"]
    assert data["plan_is"] == {8.0: "slower", 10.0: "even", 12.0: "faster"}[default_ms]


@pytest.mark.parametrize(
    "runtime", ["llama.cpp", pytest.param("ktransformers", marks=pytest.mark.slow)]
)
def test_a_plan_is_what_the_named_runtime_can_run(runtime: str) -> None:
    """Whole layers, or single experts; no caches; what the other brings is by its own times."""
    most = 0 if runtime == "llama.cpp" else 2
    made = planned_for(runtime=runtime, max_deferred=most, reserved_gib=2.5)
    plan, model = made.chosen.plan, made.request.model
    sizes = {len(row) for row in plan.resident or ()}
    assert (sizes <= {0, model.routed_experts}) == (runtime == "llama.cpp")
    assert not any(plan.cache_ways)
    assert len(set(plan.deferred)) <= 1
    found = made.verdict
    assert found is not None
    assert found.best.default is not None
    assert found.best.default.runtime == runtime
    assert found.elsewhere is not None
    assert f"another runtime, by the times of {found.elsewhere.plan.name.split()[0]}" in page(made)
    other = planned_for(runtime=found.elsewhere.plan.name.split()[0], reserved_gib=2.5)
    [theirs] = [one for one in other.comparisons if one.plan.name == found.elsewhere.plan.name]
    assert theirs.later.tokens_per_s == found.elsewhere.later.tokens_per_s


def test_a_runtime_that_defers_nothing_is_not_asked_to() -> None:
    """One line, and who does."""
    with pytest.raises(InputError, match="defers nothing; --runtime ktransformers does"):
        planned_for(runtime="llama.cpp", max_deferred=2)
