"""TriMoE's published figures: what must come out, and within how much."""

import pytest

from moeopt.reproduce.figure import Figure
from moeopt.reproduce.published import published
from moeopt.reproduce.registry import figure_function
from moeopt.reproduce.trimoe import ablation
from moeopt.reproduce.trimoe.executed import speedup
from moeopt.reproduce.trimoe.sensitivity import CPU_SCALES, cpu_curve, knee
from moeopt.reproduce.trimoe.setting import MODELS, Setting


def reproduced(name: str) -> Figure:
    """Return a published figure and ours."""
    return Figure(published()[name], figure_function(name)())


@pytest.mark.parametrize(
    "model", [MODELS[0], *(pytest.param(m, marks=pytest.mark.slow) for m in MODELS[1:])]
)
def test_t14_the_cpu_curve_bends_at_half_of_amx(model: str) -> None:
    """Hard: exactly at the published 0.5, for every model."""
    assert knee(CPU_SCALES, cpu_curve(model, samples=2)) == 0.5


def test_the_product_of_t5_to_t7_is_within_10_percent() -> None:
    """Soft: 1.75 x 1.28 x 1.16 = 2.60; assumed are synthetic loads and an upper limit of T7.

    The split is not asserted: it hangs on a tie rule that the paper does not state.
    """
    assert ablation.total() == pytest.approx(1.75 * 1.28 * 1.16, rel=0.10)
    assert ablation.total() == pytest.approx(
        sum(speedup("monde", "trimoe", Setting(m)) for m in MODELS) / 3
    )


@pytest.mark.parametrize(
    ("name", "verdict", "kind"),
    [
        ("T1", "input", "input"),
        ("T2", "reproduces", "assumed"),
        ("T15", "reproduces", "selected"),
        ("T16", "input", "input"),
        ("T17", "reproduces", "selected"),
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
    ("name", "within", "kind"),
    [
        ("T3", 0.05, "selected"),
        ("T4", 0.25, "selected"),
        ("T5", 0.10, "selected"),
        ("T6", 0.10, "selected"),
        ("T7", 0.05, "assumed"),
        ("T13", 0.05, "selected"),
        ("T14", 0.05, "assumed"),
    ],
)
def test_slow_figures(name: str, within: float, kind: str) -> None:
    """With all samples and the optimum beside them."""
    figure = reproduced(name)
    assert figure.worst is not None
    assert figure.worst <= within
    assert figure.ours.kind == kind
    assert figure.ours.assumptions


@pytest.mark.slow
@pytest.mark.parametrize("name", ["T3", "T4", "T5", "T6", "T7", "T12"])
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
    """These miss, with a reason; if one starts to fit, the documents must say so."""
    figure = reproduced(name)
    assert figure.verdict == "no"
    assert figure.ours.note
