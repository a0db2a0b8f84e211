"""The context-aware CXL system: cuts, speedups, and what the paper's own table says."""

from pathlib import Path

import numpy as np
import pytest

import moeopt
from moeopt.reproduce.cxl import accuracy, statistics, sweeps
from moeopt.reproduce.cxl.figures import ndp_cut, speedup
from moeopt.reproduce.cxl.layer import HOT, WIDTHS, layer_ns
from moeopt.reproduce.cxl.widths import lost
from moeopt.sim.trace import Trace
from tests.reproduce.nearness import HARD, SOFT, error_of, figure_of, value_of, without_traces
from tests.sim.small_traces import real_trace_file

EXPERT = 3 * 4096 * 14336
"""Weights of an expert of Mixtral-8x7B."""


def test_hard_set() -> None:
    """C5 within 7 %: the cuts are those of the bytes, 16 / 3 and 16 / 2."""
    assert error_of("C5", 0) <= 0.07
    assert error_of("C5", 1) <= HARD
    assert ndp_cut(3) == pytest.approx(16 / 3, rel=1e-4)


def test_others_are_where_they_were() -> None:
    """C1 within 10 %; C2 and C3 inside the published ranges; C4 within 25 %."""
    assert error_of("C1") <= SOFT
    assert error_of("C2") == error_of("C3") == 0
    assert max(error_of("C4", 0), error_of("C4", 1)) <= 0.25
    assert figure_of("C4").ours.assumptions


def test_layer_times_by_hand() -> None:
    """Two experts, experts alone: reads at 512 GB/s of the device and 3.35 TB/s of the GPU."""
    device, gpu = EXPERT / 512, EXPERT / 3350  # ns of one byte per weight
    alone = {"fixed_us": None}

    def time(on_gpu: int, system: str = "context-aware") -> int:
        return layer_ns("mixtral-8x7b", 3.0, on_gpu, system, **alone)

    assert time(0) == pytest.approx(2 * device * 3 / 8, rel=1e-4)
    assert time(1) == pytest.approx(max(device * 3 / 8, 2 * gpu), rel=1e-4)
    assert time(2) == pytest.approx(2 * 2 * gpu, rel=1e-4)
    for on_gpu in range(3):
        assert time(on_gpu, "MoNDE") == pytest.approx(2 * 2 * device, rel=1e-4)
    assert time(1, "HOBBIT") == pytest.approx(2 * gpu + EXPERT / 2 / 32, rel=1e-4)
    with_attention = layer_ns("mixtral-8x7b", 3.0, 0)
    attention = 2 * 4096 * (32 + 8) * 128 * 2 / 3350
    assert with_attention - time(0) == pytest.approx(attention, rel=1e-3)


def test_speedups_follow_from_shares_and_times() -> None:
    """The mean over how many experts of a token are on the GPU."""
    with without_traces():
        shares = statistics.shares("mixtral-8x7b")
        mean = sum(s * layer_ns("mixtral-8x7b", 2.0, n) for n, s in enumerate(shares))
        base = layer_ns("mixtral-8x7b", 2.0, 0, "MoNDE")
        assert speedup("mixtral-8x7b", 2.0) == pytest.approx(base / mean)


def test_sweeps_have_the_figures_at_their_defaults() -> None:
    """C2 to C5; whatever is added to both sides makes the gain smaller."""
    with without_traces():
        overhead, scales = sweeps.layer_overhead(), sweeps.scale_bits()
    gains = [value_of("C2"), value_of("C3"), value_of("C4", 0), value_of("C4", 1)]
    assert dict(overhead.rows)[overhead.default] == pytest.approx(gains)
    assert (np.diff([values for _, values in overhead.rows], axis=0) < 0).all()
    cuts = [value_of("C5", 0), value_of("C5", 1)]
    assert dict(scales.rows)[scales.default] == pytest.approx(cuts)


def test_the_exact_placement_is_better() -> None:
    """Chosen by the prompt's own tokens, it also holds for the answer, at either width."""
    with without_traces():
        for model in HOT:
            for width in WIDTHS:
                assert speedup(model, width, exact=True) > speedup(model, width)


def test_placements_by_hand() -> None:
    """A prompt whose pairs are always (0, 1): both hot; one of them on either side is faster."""
    prompt = np.array([[0, 1]] * 9 + [[2, 3]] * 2 + [[4, 5]])
    held = statistics._placements(prompt)
    assert np.flatnonzero(held["mixtral-8x22b"]).tolist() == [0, 1]
    assert np.flatnonzero(held["mixtral-8x7b"]).tolist() == [0, 1, 2, 3]
    for width in WIDTHS:
        exact = held[f"mixtral-8x22b, exact at {width:g} bits"]
        assert exact.sum() == 2
        assert exact[:2].sum() == 1


def test_the_papers_table_adds_up() -> None:
    """C6 and C7, from the averages that Table 3 prints."""
    printed = {"original": 70.03, "3 bits": 69.90, "2 bits": 66.68}
    for name, mean in printed.items():
        assert np.mean(accuracy.SCORES[name]) == pytest.approx(mean, abs=0.01)
    assert figure_of("C6").ours.kind == figure_of("C7").ours.kind == "input"


def test_exact_widths_lose_less_than_the_prefix_split() -> None:
    """And equal widths lose more, on experts quantised for the purpose."""
    for bits in WIDTHS:
        assert lost("prefix-split", bits) == 1
        assert lost("dp", bits) <= lost("greedy-marginal", bits)
        assert lost("dp", bits) < 1 < lost("uniform", bits)


def test_measuring_a_small_trace(tmp_path: Path) -> None:
    """One prompt and one answer in every file; the answer repeats the prompt's pairs."""
    tokens = np.tile(np.array([[0, 1], [2, 3]]), (statistics.TOKENS, 1))[:, None]
    paths = [tmp_path / f"{number}.npz" for number in range(2)]
    for path in paths:
        moeopt.save_trace(Trace("pairs", tokens), path)
    found = statistics.measure(paths)
    # Of two equally frequent pairs all four experts are hot.
    assert found["on_gpu"]["mixtral-8x7b"] == [0, 0, 2 * statistics.TOKENS]
    assert found["on_gpu"]["mixtral-8x22b"] == [statistics.TOKENS, 0, statistics.TOKENS]
    assert found["similarity"]["32"] == pytest.approx(1)


def test_the_stored_statistic_is_what_the_traces_give() -> None:
    """Measured anew on the real traces, where they are there."""
    folder = real_trace_file(statistics.FILES[0]).parents[1]
    measured = statistics.measure([folder / name for name in statistics.FILES])
    with without_traces():
        for key, value in measured["similarity"].items():
            assert statistics.similarity(int(key)) == pytest.approx(value, abs=1e-4)
        for model in HOT:
            counts = np.array(measured["on_gpu"][model])
            assert statistics.shares(model) == pytest.approx(counts / counts.sum())
