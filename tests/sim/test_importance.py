"""Importance S = a P~ + (1 - a) W~ by hand, and which tokens are prompt."""

import numpy as np
import pytest

from moeopt import InputError
from tests.rooms.sim import Trace, decode_tokens, importance, prefill_tokens, usage

IDS = np.array([[[0, 1]], [[0, 2]], [[1, 2]], [[0, -1]]])
WEIGHTS = np.array([[[0.9, 0.1]], [[0.5, 0.5]], [[0.2, 0.8]], [[1.0, 0.0]]])


def trace(**changes: object) -> Trace:
    """Return four tokens of one layer with four experts."""
    return Trace("t", IDS, **({"topk_weights": WEIGHTS} | changes))  # type: ignore[arg-type]


def test_counts_and_scores_by_hand() -> None:
    """First three tokens: P = 2, 2, 2, 0 of 6; W = 1.4, 0.3, 1.3, 0 of 3."""
    first = np.array([True, True, True, False])
    counts = np.array([[2, 2, 2, 0]]) / 6
    scores = np.array([[1.4, 0.3, 1.3, 0]]) / 3
    assert np.allclose(importance(trace(), first, 4, 1.0), counts)
    assert np.allclose(importance(trace(), first, 4, 0.0), scores)
    assert np.allclose(importance(trace(), first, 4, 0.25), 0.25 * counts + 0.75 * scores)


def test_usage_with_a_prior_by_hand() -> None:
    """First three tokens: P = 2, 2, 2, 0 of 6, with one choice more each 3, 3, 3, 1 of 10."""
    first = np.array([True, True, True, False])
    assert np.allclose(usage(trace(), first, 4), np.array([[2, 2, 2, 0]]) / 6)
    assert np.allclose(usage(trace(), first, 4, 1.0), [[0.3, 0.3, 0.3, 0.1]])


def test_without_weights_scores_are_counts() -> None:
    """HD-MoE's traces have none."""
    tokens = np.ones(4, dtype=bool)
    found = importance(trace(topk_weights=None), tokens, 4, 0.0)
    assert np.allclose(found, np.array([[3, 2, 2, 0]]) / 7)


def test_no_tokens_give_equal_shares() -> None:
    """Nothing to divide by."""
    assert np.allclose(importance(trace(), np.zeros(4, dtype=bool), 4), 0.25)


def test_the_prompt_is_the_first_share_of_each_sequence() -> None:
    """Of sequences of 3 and 1 tokens: 0.5 x 3 is rounded to even, 2, and 0.5 x 1 to 0."""
    split = trace(seq_len=np.array([3, 1]))
    assert prefill_tokens(split).tolist() == [True, True, False, False]
    assert decode_tokens(split).tolist() == [False, False, True, True]
    assert prefill_tokens(split, sequence=1).tolist() == [False] * 4
    assert decode_tokens(split, sequence=1).tolist() == [False, False, False, True]
    assert prefill_tokens(trace(), share=0.25).tolist() == [True, False, False, False]


def test_marks_of_the_trace_come_first() -> None:
    """A share is for traces that do not say."""
    marked = trace(decode=np.array([False, True, False, True]))
    assert prefill_tokens(marked, share=0.9).tolist() == [True, False, True, False]
    assert decode_tokens(marked).tolist() == [False, True, False, True]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"alpha": 1.5, "experts": 4}, "alpha: must be from 0 to 1, not 1.5"),
        ({"experts": 2}, "expert 2 in a model of 2 experts"),
    ],
)
def test_what_does_not_fit_is_named(arguments: dict[str, float], says: str) -> None:
    """A share out of range; a model that is too small."""
    with pytest.raises(InputError, match=says):
        importance(trace(), np.ones(4, dtype=bool), **arguments)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="sequence: must be below 1, not 3"):
        prefill_tokens(trace(), sequence=3)
