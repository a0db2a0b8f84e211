"""Traces: counting tokens per expert, and cutting decode steps out of a run of tokens."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt.errors import InputError
from moeopt.sim.trace import Batching, Trace, step_tokens, steps

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


def test_experts_without_tokens_count_zero() -> None:
    """There is an entry for every expert of the layer, up to the last."""
    trace = Trace("two tokens", np.array([[[1, 0]], [[1, 2]]]))
    assert trace.counts(np.array([0, 1]), 0, 5).tolist() == [1, 2, 1, 0, 0]
    assert trace.counts(np.array([1]), 0, 5).tolist() == [0, 1, 1, 0, 0]


def test_a_trace_knows_its_size() -> None:
    """Tokens and layers are the first two of the three axes."""
    trace = random_trace(7, layers=4)
    assert (trace.tokens, trace.layers) == (7, 4)


def test_a_window_is_a_run_of_consecutive_tokens() -> None:
    """Eleven tokens in steps of three: three whole steps, the last two tokens unused."""
    trace = random_trace(11)
    assert steps(trace, 3) == 3
    cut = [step_tokens(trace, 3, step, "window").tolist() for step in range(3)]
    assert cut == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


def test_streams_are_readers_side_by_side() -> None:
    """Eleven tokens, three readers: they start three apart, and each goes on by one per step."""
    trace = random_trace(11)
    cut = [step_tokens(trace, 3, step, "streams").tolist() for step in range(3)]
    assert cut == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]


@given(st.integers(1, 60), st.integers(1, 20), st.sampled_from(BATCHINGS))
def test_no_token_is_used_twice(tokens: int, batch: int, batching: Batching) -> None:
    """All steps together hold as many different tokens of the trace as they have places."""
    trace = Trace("blank", np.zeros((tokens, 1, 1), dtype=np.int64))
    count = steps(trace, batch)
    assert count == tokens // batch
    used = [t for step in range(count) for t in step_tokens(trace, batch, step, batching).tolist()]
    assert len(set(used)) == len(used) == count * batch
    assert all(0 <= token < tokens for token in used)


@given(st.integers(2, 60), st.integers(1, 20))
def test_every_reader_of_streams_moves_on_by_one_token(tokens: int, batch: int) -> None:
    """Step t + 1 is step t with every position one higher."""
    trace = Trace("blank", np.zeros((tokens, 1, 1), dtype=np.int64))
    for step in range(steps(trace, batch) - 1):
        now, then = (step_tokens(trace, batch, at, "streams") for at in (step, step + 1))
        assert (then - now == 1).all()


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
    with pytest.raises(InputError) as caught:
        trace.check_fits(**shape)
    assert str(caught.value) == f"folder/x.npz: topk_ids: {says}"
