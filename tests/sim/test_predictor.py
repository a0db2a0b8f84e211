"""TriMoE's load predictor (Eq. 8) by hand, and its accuracy on real routing."""

import numpy as np
import pytest

from benchmarks.papers.trimoe.prediction import decision_accuracy
from moeopt import InputError, load_trace
from tests.real_traces import real_trace_file
from tests.rooms.sim import Trace, load_classes, predict_run


def test_the_average_moves_three_tenths_of_the_way() -> None:
    """10, then 20: 0.3 x 20 + 0.7 x 10 = 13; then 0: 9.1; another expert stays at 5.

    The first step counts in full even if it is empty: after no tokens and then 10 it is 3, not 10.
    """
    counts = [[[10, 5, 0]], [[20, 5, 10]], [[0, 5, 10]], [[99, 99, 99]]]
    assert predict_run(counts)[:, 0] == pytest.approx(
        np.array([[10, 5, 0], [13, 5, 3], [9.1, 5, 5.1]])
    )
    assert predict_run(counts, alpha=1.0).tolist() == counts[:-1]


def test_classes_are_by_rank_and_ties_by_the_lower_id() -> None:
    """Of 20 experts one is hot and five are warm; of equals the first is hotter."""
    loads = np.arange(20)
    assert load_classes(loads).tolist() == [2] * 14 + [1] * 5 + [0]
    assert load_classes(np.zeros(20)).tolist() == [0] + [1] * 5 + [2] * 14
    assert load_classes([[1, 2, 3, 4], [4, 3, 2, 1]], hot=0.25, warm=0.5).tolist() == [
        [2, 1, 1, 0],
        [0, 1, 1, 2],
    ]


def test_accuracy_is_the_share_of_experts_in_the_predicted_class() -> None:
    """Two of four experts change places once: 2 of 4 right there, all of 4 elsewhere."""
    counts = np.array([[[9, 5, 1, 0]], [[9, 5, 1, 0]], [[5, 9, 1, 0]]])
    # step 1 as predicted; step 2 has expert 1 hot and expert 0 warm instead
    shares = {"hot": 0.25, "warm": 0.25}
    assert decision_accuracy(counts, **shares) == pytest.approx((4 + 2) / 8)
    assert decision_accuracy(counts, warm_up=1, **shares) == pytest.approx(2 / 4)


def test_constant_loads_are_predicted_without_error() -> None:
    """Whatever the loads, if they repeat every class is right."""
    step = np.random.default_rng(0).integers(0, 99, size=(1, 4, 64))
    assert decision_accuracy(np.repeat(step, 5, axis=0)) == 1.0


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: predict_run(np.zeros((2, 1, 1)), alpha=0), "alpha: must be above 0 and at most 1"),
        (lambda: predict_run(np.zeros((2, 0, 1))), "counts: must have shape"),
        (lambda: predict_run(np.zeros((1, 2, 3))), r"at least 2 steps, layers, experts\), not"),
        (lambda: predict_run(np.full((2, 1, 1), np.nan)), "counts: must be finite"),
        (lambda: load_classes([1], hot=0.8, warm=0.3), "hot, warm: must be shares"),
    ],
)
def test_what_cannot_be_predicted_is_refused(call: object, says: str) -> None:
    """Shapes, signs and shares, each with what would be right."""
    with pytest.raises(InputError, match=says):
        call()  # type: ignore[operator]


def real_trace(task: str) -> Trace:
    """Return an ESFT trace of DeepSeek-V2-Lite, or skip."""
    return load_trace(real_trace_file(f"esft_deepseek_v2_lite/{task}.npz"))


def test_accuracy_on_real_routing_is_near_trimoes() -> None:
    """TriMoE 4.3 reports more than 78 %; DeepSeek-V2-Lite's intent trace gives 0.80 +- 0.05.

    Step t holds the t-th token of every sequence that is long enough.
    """
    trace = real_trace("intent")
    counts = trace.step_counts(len(trace.seq_len), "sequences", 64).counts
    assert counts.sum() == 8222 * 26 * 6
    assert decision_accuracy(counts) == pytest.approx(0.80, abs=0.05)
    # the template at the head of the prompts is unlike what follows: without it 0.80
    assert decision_accuracy(counts, warm_up=20) == pytest.approx(0.80, abs=0.01)


@pytest.mark.parametrize("task", ["intent", "law", "summary"])
def test_the_average_beats_the_last_step_alone(task: str) -> None:
    """In steps of 256 tokens smoothing helps: alpha 0.3 against 1, which is the step before."""
    counts = real_trace(task).step_counts(256, experts=64).counts
    assert decision_accuracy(counts) > decision_accuracy(counts, alpha=1.0) + 0.01
