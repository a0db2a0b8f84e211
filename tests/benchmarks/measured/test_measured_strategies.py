"""ktransformers' strategies: whether the model ranks them as they were measured."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.measured.points import STRATEGY, read_points
from benchmarks.measured.strategies import AtRatio, compare_strategies, popularity
from benchmarks.studies.measured_popularity import EXPERTS, FILES, PERCENT, read_sequences, shares
from moeopt import InputError
from tests.real_traces import real_trace_file

KNOWN = ("random", "uniform", "front-loading", "frequency", "dynamic-expert-update")


def test_pairs_and_tau_by_hand() -> None:
    """One of three pairs is the other way; a tie of the model is neither."""
    at = AtRatio(50, {"a": 1.0, "b": 2.0, "c": 3.0}, {"a": 1.0, "b": 3.0, "c": 2.0})
    assert at.pairs() == (2, 1, 0)
    assert at.kendall_tau == pytest.approx(1 / 3)
    tied = AtRatio(50, {"a": 1.0, "b": 2.0, "c": 2.1}, {"a": 1.0, "b": 3.0, "c": 3.0})
    assert tied.pairs() == (2, 0, 1)
    assert tied.pairs(apart=0.06) == (2, 0, 0)
    assert tied.kendall_tau == pytest.approx(2 / np.sqrt(3 * 2))
    reverse = AtRatio(50, {"a": 1.0, "b": 2.0}, {"a": 2.0, "b": 1.0})
    assert reverse.kendall_tau == -1.0


def test_the_strategies_are_ranked_as_measured() -> None:
    """Nine pairs in ten; every one where half the experts are on the GPU."""
    found = compare_strategies(read_points())
    assert found is not None
    assert [at.percent for at in found.ratios] == list(range(10, 100, 10))
    assert all(tuple(at.measured) == KNOWN for at in found.ratios)
    alike, opposed, tied = found.pairs()
    assert (alike + opposed, tied) == (81, 9)
    assert alike >= 0.9 * (alike + opposed)
    half = found.ratios[4]
    assert half.pairs() == (9, 0, 1)
    clear = found.pairs(found.noise)
    assert clear[0] / sum(clear[:2]) > alike / 81
    assert found.error < 0.05
    assert 0.02 < found.noise < 0.04


def test_what_the_page_claims_of_the_strategies() -> None:
    """67 of 70 clear pairs; frequency over uniform within 7 points but at 80 and 90 %."""
    found = compare_strategies(read_points())
    assert found is not None
    alike, opposed, _ = found.pairs(found.noise)
    assert (alike, alike + opposed) == (67, 70)
    near, far = found.gains(0.1)
    assert (len(near), list(far)) == (7, [80, 90])
    assert max(round(abs(measured - ours), 2) for measured, ours in near.values()) == 0.07
    for measured, ours in far.values():
        assert 0.1 < ours < measured
    for percent in far:
        asked, other_model = found.implied[percent]
        assert other_model < asked < 1.0


@pytest.mark.slow
def test_two_points_give_the_level() -> None:
    """Twice as fast at both ends, and everything is predicted faster: not so from one point."""
    own = [p for p in read_points() if p.knob.startswith(STRATEGY)]
    ends = {f"{STRATEGY}front-loading": ("0", "100")}
    twice = [
        replace(p, tokens_per_s=2 * p.tokens_per_s) if p.value in ends.get(p.knob, ()) else p
        for p in own
    ]
    before, after = compare_strategies(read_points()), compare_strategies(twice)
    assert before is not None
    assert after is not None
    for one, other in zip(before.ratios, after.ratios, strict=True):
        for name in KNOWN:
            assert 1.6 < other.predicted[name] / one.predicted[name] < 2.1


def test_without_both_ends_there_is_no_ranking() -> None:
    """Nor without strategies; one that nobody knows is refused by name."""
    points = [p for p in read_points() if p.knob.startswith(STRATEGY)]
    assert compare_strategies([p for p in points if p.value != "100"]) is None
    assert compare_strategies([]) is None
    odd = replace(points[3], knob=f"{STRATEGY}astrology")
    with pytest.raises(InputError, match="'astrology' is not known"):
        compare_strategies([*points, odd])


def test_shares_by_hand() -> None:
    """One layer; profile, then a sequence whose first half says what its second half calls."""
    ids = np.array([[0], [0], [0], [1], [2], [2], [2], [0]])[:, :, None]
    found = shares([ids[:4], ids[4:]])
    of = dict(zip(PERCENT, zip(*found.values(), strict=True), strict=True))
    assert round(0.1 * EXPERTS) == 6
    assert of[0] == (0.0, 0.0)
    assert of[100] == (1.0, 1.0)
    assert of[10] == (1.0, 1.0)  # the first six experts: 2 is the profile's next by number
    crowded = np.array([[e] for e in range(8) for _ in range(2)])[:, :, None]
    late = np.array([[20], [20], [20], [0]])[:, :, None]
    assert shares([crowded, late])["frequency"][1] == 0.5
    assert shares([crowded, late])["dynamic-expert-update"][1] == 1.0


def test_the_stored_shares_rise() -> None:
    """From nothing to all; popularity helps, a sequence's own more."""
    table = popularity()
    assert table["experts_on_gpu_percent"] == list(PERCENT)
    frequency, dynamic = (table["share"][name] for name in KNOWN[3:])
    for found in (frequency, dynamic):
        assert (found[0], found[-1]) == (0.0, 1.0)
        assert found == sorted(found)
    for percent, one, other in zip(PERCENT[1:-1], frequency[1:], dynamic[1:], strict=False):
        assert percent / 100 < one < other


def test_the_stored_shares_are_those_of_the_traces() -> None:
    """Made anew from the real traces, where they are."""
    folder = {real_trace_file(f"esft_deepseek_v2_lite/{name}").parent for name in FILES}
    assert shares(read_sequences(folder.pop())) == popularity()["share"]
