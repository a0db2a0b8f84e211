"""TriMoE's published figures: what must come out, and within how much."""

from itertools import pairwise
from math import prod

import pytest

from benchmarks.papers.figure import Figure
from benchmarks.papers.published import published
from benchmarks.papers.registry import figure_function
from benchmarks.papers.trimoe import ablation
from benchmarks.papers.trimoe.charts import roofline
from benchmarks.papers.trimoe.executed import speedup
from benchmarks.papers.trimoe.sensitivity import CPU_SCALES, cpu_curve, knee
from benchmarks.papers.trimoe.setting import MODELS, Setting


def reproduced(name: str) -> Figure:
    """Return a published figure and ours."""
    return Figure(published()[name], figure_function(name)())


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", [MODELS[0], *(pytest.param(m, marks=pytest.mark.slow) for m in MODELS[1:])]
)
def test_t14_the_cpu_curve_bends_at_half_of_amx(model: str) -> None:
    """Hard: exactly at the published 0.5, for every model."""
    assert knee(CPU_SCALES, cpu_curve(model, 0)) == 0.5


def test_parts_multiply_to_the_product() -> None:
    """T5 x T6 x T7 of one model is what its whole system gains, whatever the split."""
    setting = Setting(MODELS[0], samples=1)
    parts = [speedup(slow, fast, setting) for slow, fast in pairwise(ablation.STAGES)]
    assert prod(parts) == pytest.approx(speedup("monde", "trimoe", setting))
    other = setting.on(tie_order="gpu")
    split = [speedup(slow, fast, other) for slow, fast in pairwise(ablation.STAGES)]
    assert split[0] > 1.1 * parts[0]
    assert prod(split) == pytest.approx(prod(parts), rel=0.15)


@pytest.mark.parametrize(
    ("name", "verdict", "kind"),
    [
        ("T1", "input", "input"),
        ("T2", "within 25 %", "assumed"),
        ("T15", "reproduces", "selected"),
        ("T16", "input", "input"),
        ("T17", "reproduces", "selected"),
        pytest.param("T19", "reproduces", "assumed", marks=pytest.mark.slow),
        pytest.param("T20", "no", "assumed", marks=pytest.mark.slow),
        ("T21", "not computable", "assumed"),
        ("T23", "reproduces", "selected"),
    ],
)
def test_quick_figures(name: str, verdict: str, kind: str) -> None:
    """Verdict and kind of those that take no schedule."""
    figure = reproduced(name)
    assert (figure.verdict, figure.ours.kind) == (verdict, kind)


def test_t16_is_calibrated_and_says_so() -> None:
    """The coldest 70 % of the experts take some 8 % of the tokens."""
    assert reproduced("T16").ours.values == pytest.approx((0.70, 0.08), abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "verdict", "kind"),
    [
        ("T18", "no", "assumed"),
        ("T22", "reproduces", "assumed"),
        ("T3", "within 25 %", "selected"),
        ("T3e", "no", "assumed"),
        ("T4", "no", "selected"),
        ("T4e", "no", "assumed"),
        ("T5", "reproduces", "assumed"),
        ("T6", "within 10 %", "assumed"),
        ("T7", "within 25 %", "selected"),
        ("T7u", "upper limit", "limit"),
        ("T5xT6xT7", "within 25 %", "selected"),
        ("T13", "no", "assumed"),
        ("T14", "reproduces", "assumed"),
    ],
)
def test_slow_figures(name: str, verdict: str, kind: str) -> None:
    """Over six seeds, with their intervals, and the optimum beside them."""
    figure = reproduced(name)
    assert (figure.verdict, figure.ours.kind) == (verdict, kind)
    assert figure.ours.assumptions
    assert figure.ours.seeds == 6
    for value, around in zip(figure.ours.values, figure.ours.intervals, strict=True):
        assert value is not None
        assert around is not None
        assert around.low <= value <= around.high


@pytest.mark.slow
@pytest.mark.parametrize("name", ["T3", "T4", "T5", "T6", "T7", "T5xT6xT7", "T12"])
def test_the_optimum_is_at_least_as_fast(name: str) -> None:
    """A speedup with the exact decision is no smaller."""
    figure = reproduced(name)
    for ours, best in zip(figure.ours.values, figure.ours.optimum, strict=True):
        assert ours is not None
        assert best is not None
        assert best >= ours


@pytest.mark.slow
@pytest.mark.parametrize("name", ["T8", "T9", "T10", "T11", "T12"])
def test_what_does_not_come_out_is_reported_as_it_is(name: str) -> None:
    """These miss, or cannot be computed, with a reason; if one starts to fit, documents say so."""
    figure = reproduced(name)
    assert figure.verdict == ("no" if name == "T12" else "not computable")
    assert figure.ours.note


def test_rates_of_the_three_devices_cross() -> None:
    """Fig. 5(b): uploads are worth it with many tokens alone, and a unit never gains by them."""
    series = roofline().series
    first, last = ({name: of[at] for name, of in series.items()} for at in (0, -1))
    assert sorted(first, key=first.__getitem__) == [
        "GPU, fetched",
        "NDP unit",
        "CPU, striped",
        "GPU, resident",
    ]
    assert sorted(last, key=last.__getitem__) == [
        "NDP unit",
        "CPU, striped",
        "GPU, fetched",
        "GPU, resident",
    ]
