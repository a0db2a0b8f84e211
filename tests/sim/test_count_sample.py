"""Steps drawn from counts: every expert as often as counted, and else nothing in them."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt import InputError
from tests.rooms.sim import SAMPLED, Counts, check_layer, counts_of_model, get_model, sample_trace

MODEL = get_model("deepseek-v2-lite")


def counts_of(*layers: list[int], **facts: object) -> Counts:
    """Return counts of one step."""
    return Counts("c.csv", np.array([layers], dtype=np.int64), dict(facts))


@st.composite
def possible(draw: st.DrawFn) -> tuple[list[int], int]:
    """Return one layer's counts and the top-k of tokens that can have them."""
    top_k = draw(st.integers(1, 4))
    most = draw(st.integers(1, 2**40))
    row = [most, *draw(st.lists(st.integers(0, most), min_size=top_k, max_size=9))]
    return row + [most] * max(0, -(-(most * top_k - sum(row)) // most)), top_k


@given(possible(), st.integers(1, 40), st.integers(0, 5))
def test_every_expert_is_used_as_often_as_counted(
    made: tuple[list[int], int], tokens: int, seed: int
) -> None:
    """To within one token; no token has an expert twice; the counts may be huge."""
    row, top_k = made
    trace = sample_trace(counts_of(row, row), top_k, tokens, seed)
    assert trace.topk_ids.shape == (tokens, 2, top_k)
    assert (np.diff(trace.topk_ids, axis=2) > 0).all()
    for layer in (0, 1):
        uses = np.bincount(trace.topk_ids[:, layer].ravel(), minlength=len(row))
        for used, count in zip(uses.tolist(), row, strict=True):
            assert abs(used * sum(row) - count * tokens * top_k) < sum(row)


@pytest.mark.slow
def test_all_matrices_with_the_same_sums_are_as_likely() -> None:
    """Three tokens, top-2, uses 2 2 1 1: by enumeration 15 ways, 750 draws, chi-square."""
    found = Counter(
        tuple(map(tuple, sample_trace(counts_of([2, 2, 1, 1]), 2, 3, seed).topk_ids[:, 0].tolist()))
        for seed in range(750)
    )
    assert len(found) == 15
    assert sum((count - 50) ** 2 / 50 for count in found.values()) < 36.1  # 14 degrees, 0.1 %


def test_rare_experts_are_drawn_now_and_then() -> None:
    """An expert of 0.3 expected uses occurs in three of ten samples, not in all or in none."""
    row = [3] * 100  # ten tokens, top-3: 0.3 uses of each expert
    found = np.zeros(100)
    for seed in range(200):
        found[np.unique(sample_trace(counts_of(row), 3, 10, seed).topk_ids)] += 1
    assert 40 < found.min() <= found.max() < 85
    one, other = (sample_trace(counts_of(row), 3, 10, seed).topk_ids for seed in (0, 1))
    assert len(np.intersect1d(one, other)) < 20


def test_a_seed_gives_the_same_tokens_and_they_are_marked() -> None:
    """And another seed others."""
    row = [5, 4, 3, 2, 1, 0]
    one, same, other = (sample_trace(counts_of(row), 2, 50, seed) for seed in (1, 1, 2))
    assert (one.topk_ids == same.topk_ids).all()
    assert (one.topk_ids != other.topk_ids).any()
    assert (one.facts[SAMPLED]["seed"], one.facts[SAMPLED]["tokens"]) == (1, 50)
    assert one.topk_weights is one.seq_len is one.decode is None


def test_steps_are_counted_together_and_experts_that_were_never_used_are_there() -> None:
    """SGLang's recorder has a step for each forward pass; a CSV leaves experts out."""
    steps = np.ones((3, 26, 60), dtype=np.int64)
    found = counts_of_model(Counts("s.csv", steps), MODEL)
    assert found.counts.shape == (1, 26, 64)
    assert found.total()[0].tolist() == [3] * 60 + [0] * 4


def test_layers_may_be_the_models_numbers_or_count_from_0() -> None:
    """Layer 0 of DeepSeek-V2-Lite has no experts."""
    rows = [[1] * 64] * 26
    for facts in ({}, {"layers": list(range(1, 27))}):
        assert counts_of_model(counts_of(*rows, **facts), MODEL).layers == 26


@pytest.mark.parametrize(
    ("counts", "reason"),
    [
        (counts_of(*[[1] * 64] * 3), "3 layers, 0 to 2; deepseek-v2-lite has 26 with experts, 1"),
        (counts_of(*[[1] * 64] * 26, layers=list(range(2, 28))), "26 layers, 2 to 27; deepseek"),
        (counts_of(*[[1] * 65] * 26), "expert 64 in a model of 64 experts"),
        (counts_of(*[[1] * 60] * 26, format="imatrix-gguf"), "60 experts in a model of 64 experts"),
        (counts_of(*[[0] * 64] * 26), "layer 0: is zero for every expert"),
        (counts_of(*[[9] + [1] * 40] * 26), "0 is used 9 times, but .* are 8.17 tokens"),
        (counts_of(*[[2**45] * 64] * 26), "are more than 2[*][*]48"),
    ],
)
def test_counts_of_another_model_are_refused(counts: Counts, reason: str) -> None:
    """In one line that names file, layer and what does not fit."""
    with pytest.raises(InputError, match=f"^c.csv: count: .*{reason}"):
        counts_of_model(counts, MODEL)


def test_sizes_are_bounded() -> None:
    """Before anything is drawn."""
    with pytest.raises(InputError, match="tokens: must be at least 1"):
        sample_trace(counts_of([1, 1]), 1, 0, 0)
    with pytest.raises(InputError, match="are too many to draw"):
        sample_trace(counts_of([1, 1]), 1, 2**40, 0)
    check_layer("here", np.array([3, 3]), 2)
