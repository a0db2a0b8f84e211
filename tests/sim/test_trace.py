"""Traces: counting tokens per expert, and cutting decode steps out of a run of tokens."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt import InputError
from tests.refusals import refused
from tests.rooms.sim import Batching, Counts, Trace, all_step_tokens
from tests.rooms.sim import trace as trace_module

EXPERTS = 8
BATCHINGS: list[Batching] = ["window", "streams"]


def random_trace(tokens: int, layers: int = 3, top_k: int = 2, dtype: Any = np.int64) -> Trace:
    """Return a trace in which each token takes different experts of `EXPERTS`."""
    rng = np.random.default_rng(tokens)
    ids = np.array(
        [[rng.permutation(EXPERTS)[:top_k] for _ in range(layers)] for _ in range(tokens)]
    )
    return Trace("random", ids.astype(dtype))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, np.uint64, ">i4"])
def test_counts_are_those_of_a_plain_loop(dtype: Any) -> None:
    """Whatever integers the trace is made of, also unsigned and foreign ones."""
    trace = random_trace(40, dtype=dtype)
    tokens = np.array([0, 3, 5, 17, 39])
    for layer in range(trace.layers):
        counter: Counter[int] = Counter()
        for token in tokens.tolist():
            counter.update(trace.topk_ids[token][layer].tolist())
        counts = trace.counts(tokens, layer, EXPERTS)
        assert counts.dtype == np.int64
        assert counts.tolist() == [counter[expert] for expert in range(EXPERTS)]


def test_a_window_is_a_run_of_consecutive_tokens() -> None:
    """Eleven tokens in steps of three: three whole steps, the last two tokens unused."""
    trace = random_trace(11)
    cut = all_step_tokens(trace, 3, "window")
    assert [tokens.tolist() for tokens in cut] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


def test_streams_are_readers_side_by_side() -> None:
    """Eleven tokens, three readers: they start three apart, and each goes on by one per step."""
    trace = random_trace(11)
    cut = all_step_tokens(trace, 3, "streams")
    assert [tokens.tolist() for tokens in cut] == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]


@given(st.integers(1, 60), st.integers(1, 20), st.sampled_from(BATCHINGS))
def test_no_token_is_used_twice(tokens: int, batch: int, batching: Batching) -> None:
    """All steps together hold as many different tokens of the trace as they have places."""
    trace = Trace("blank", np.zeros((tokens, 1, 1), dtype=np.int64))
    cut = all_step_tokens(trace, batch, batching)
    assert [len(step) for step in cut] == [batch] * (tokens // batch)
    used = [token for step in cut for token in step.tolist()]
    assert len(set(used)) == len(used)
    assert all(0 <= token < tokens for token in used)


def test_a_trace_fits_the_model_it_was_made_with() -> None:
    """Exactly as many experts, layers and choices as there are is no reason to complain."""
    trace = Trace("full", np.array([[[7, 0]], [[1, 2]]]))
    trace.check_fits(experts=8, top_k=2, layers=1)
    trace.check_fits(experts=9, top_k=2, layers=5)


@pytest.mark.parametrize(
    ("shape", "says"),
    [
        ({"experts": 7, "top_k": 2, "layers": 1}, "expert 7 in a model of 7 experts"),
        ({"experts": 8, "top_k": 6, "layers": 1}, "2 per token in a top-6 model"),
        ({"experts": 8, "top_k": 2, "layers": 0}, "1 layers in a model of 0"),
    ],
)
def test_a_trace_of_another_model_is_refused(shape: dict[str, int], says: str) -> None:
    """The message names the trace, the field and both numbers."""
    trace = Trace("folder/x.npz", np.array([[[7, 0]], [[1, 2]]], dtype=np.uint64))
    assert refused(trace.check_fits, **shape) == f"folder/x.npz: topk_ids: {says}"


def padded_trace(tokens: int = 30) -> Trace:
    """Return a trace in which some places hold no expert."""
    ids = random_trace(tokens).topk_ids
    ids[::3, 1, 1] = -1
    ids[4] = -1
    return Trace("padded", ids)


def test_places_without_expert_count_nothing() -> None:
    """-1 is no expert, and not the last one either."""
    trace = padded_trace()
    for layer in range(trace.layers):
        chosen = Counter(trace.topk_ids[:, layer].ravel().tolist())
        counts = trace.counts(np.arange(30), layer, EXPERTS)
        assert counts.tolist() == [chosen[expert] for expert in range(EXPERTS)]
    assert trace.experts_seen == EXPERTS
    assert Trace("none", np.full((2, 1, 1), -1)).experts_seen == 0
    assert Trace("none", np.full((2, 1, 1), -1)).counts(np.arange(2), 0, 3).tolist() == [0, 0, 0]


def test_an_expert_that_the_model_lacks_is_not_counted_silently() -> None:
    """Neither for one step nor for all of them."""
    trace = Trace("x", np.array([[[5]], [[1]]]))
    with pytest.raises(InputError, match="x: topk_ids: expert 5 in a model of 5 experts"):
        trace.counts(np.arange(2), 0, 5)
    with pytest.raises(InputError, match="x: topk_ids: expert 5 in a model of 5 experts"):
        trace.step_counts(1, experts=5)


SEQUENCES = np.array([3, 0, 5, 2, 20])


def sequenced(dtype: Any = np.int64) -> Trace:
    """Return a trace of five sequences, one of them empty, with and without decode marks."""
    ids = random_trace(30).topk_ids.astype(dtype)
    return Trace("sequenced", ids, seq_len=SEQUENCES)


def marked() -> Trace:
    """Return the same trace, with the last tokens of its sequences generated."""
    decode = np.zeros(30, dtype=bool)
    decode[[2, 5, 6, 7, 9, *range(15, 30)]] = True
    return replace(sequenced(), decode=decode)


def side_by_side(batch: int, wanted: set[int]) -> list[list[int]]:
    """Return the steps of batching "sequences" by plain loops."""
    queues, start = [], 0
    for length in SEQUENCES.tolist():
        queues.append([token for token in range(start, start + length) if token in wanted])
        start += length
    steps_found = []
    for first in range(0, len(queues), batch):
        group = queues[first : first + batch]
        for turn in range(max(map(len, group))):
            steps_found.append([queue[turn] for queue in group if len(queue) > turn])
    return steps_found


@pytest.mark.parametrize("batch", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("trace", [sequenced(), marked()], ids=["unmarked", "marked"])
def test_sequences_are_decoded_side_by_side(trace: Trace, batch: int) -> None:
    """Step t is the t-th token of all that still run; of marked ones, only what was generated."""
    marks = np.ones(30, dtype=bool) if trace.decode is None else trace.decode
    expected = side_by_side(batch, set(np.flatnonzero(marks).tolist()))
    found = [tokens.tolist() for tokens in all_step_tokens(trace, batch, "sequences")]
    assert found == expected


def test_prompts_are_taken_whole() -> None:
    """All prompt tokens of the first two sequences, of the next two, of the last one."""
    found = [tokens.tolist() for tokens in all_step_tokens(marked(), 2, "prefill")]
    assert found == [[0, 1], [3, 4, 8], [10, 11, 12, 13, 14]]
    together = [tokens.tolist() for tokens in all_step_tokens(marked(), 5, "prefill")]
    assert together == [[0, 1, 3, 4, 8, 10, 11, 12, 13, 14]]


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, np.uint64, ">i4"])
@pytest.mark.parametrize("batching", ["window", "streams", "sequences"])
def test_counts_of_a_run_are_those_of_its_steps(batching: Batching, dtype: Any) -> None:
    """Every step and layer, whatever integers the trace is made of."""
    trace = sequenced(dtype)
    run = trace.step_counts(4, batching, EXPERTS)
    cut = all_step_tokens(trace, 4, batching)
    assert run.counts.shape == (len(cut), 3, EXPERTS)
    for step, tokens in enumerate(cut):
        for layer in range(3):
            expected = trace.counts(tokens, layer, EXPERTS)
            assert run.counts[step, layer].tolist() == expected.tolist()
    assert run.facts == {"steps": {"batch": 4, "batching": batching}}


def test_counts_of_a_run_leave_out_places_without_expert() -> None:
    """As those of one step do."""
    trace = padded_trace()
    run = trace.step_counts(10)
    for step in range(3):
        expected = trace.counts(np.arange(step * 10, step * 10 + 10), 1, EXPERTS)
        assert run.counts[step, 1].tolist() == expected.tolist()


def test_counts_that_need_too_much_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any memory is taken."""
    monkeypatch.setattr(trace_module, "MAX_COUNTS", 30 * 3 * EXPERTS - 1)
    assert random_trace(30).step_counts(2, experts=EXPERTS).steps == 15
    with pytest.raises(InputError, match="30 steps, 3 layers and 8 experts are too many"):
        random_trace(30).step_counts(1, experts=EXPERTS)


def test_what_a_batching_needs_is_asked_for() -> None:
    """Sequences, decode marks, a positive batch."""
    with pytest.raises(InputError, match="seq_len: is needed for batching 'sequences'"):
        all_step_tokens(random_trace(9), 2, "sequences")
    with pytest.raises(InputError, match="decode: is needed for batching 'prefill'"):
        all_step_tokens(sequenced(), 2, "prefill")
    with pytest.raises(InputError, match="batch: must be at least 1, not 0"):
        all_step_tokens(random_trace(9), 0, "window")


def test_counts_can_be_padded_and_summed() -> None:
    """Experts that were never chosen get a column; none is taken away."""
    counts = Counts("c", np.array([[[1, 2]], [[3, 4]]]))
    assert counts.padded(4).counts.tolist() == [[[1, 2, 0, 0]], [[3, 4, 0, 0]]]
    assert counts.total().tolist() == [[4, 6]]
    with pytest.raises(InputError, match="c: count: expert 1 in a model of 1 experts"):
        counts.padded(1)
