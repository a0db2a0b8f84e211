"""Requests on a trace: which token each reads at a step, prompts, and what is left as a profile."""

import numpy as np
import pytest

from moeopt import InputError
from tests.rooms.sim import Trace, get_model
from tests.rooms.systems import Readers

TOKENS = 60
MODEL = get_model("deepseek-v2-lite")
IDS = np.argsort(
    np.random.default_rng(5).random((TOKENS, len(MODEL.moe_layers), MODEL.routed_experts)), axis=2
)[:, :, : MODEL.top_k].astype(np.int16)
TRACE = Trace("made", IDS)


def counted(positions: list[int]) -> list[list[int]]:
    """Count tokens by layer and expert, one after the other."""
    found = [[0] * MODEL.routed_experts for _ in MODEL.moe_layers]
    for position in positions:
        for layer, row in enumerate(IDS[position]):
            for expert in row:
                found[layer][expert] += 1
    return found


def test_streams_are_one_token_of_each_reader() -> None:
    """Four readers start at equal distances; the prompt of each stands before its start."""
    readers = Readers.of(TRACE, MODEL, batch=4, prompt=3, steps=5)
    assert readers.positions(2).tolist() == [2, 17, 32, 47]
    assert readers.prompts.reshape(4, 3).tolist()[:2] == [[57, 58, 59], [12, 13, 14]]
    assert readers.step_counts(2).tolist() == counted([2, 17, 32, 47])
    assert readers.chunk_counts(2, 3).tolist() == counted([59, 12, 13])
    assert readers.step_ids(2).tolist() == IDS[[2, 17, 32, 47]].tolist()
    assert readers.wrapped == 0


def test_a_window_is_consecutive_tokens() -> None:
    readers = Readers.of(TRACE, MODEL, batch=4, prompt=3, steps=5, batching="window")
    assert readers.positions(0).tolist() == [3, 4, 5, 6]
    assert readers.positions(1).tolist() == [7, 8, 9, 10]
    assert len(readers.prompts) == 12


def test_a_profile_has_no_token_that_is_executed() -> None:
    """Together they are the trace; where every token is executed, all are the profile."""
    readers = Readers.of(TRACE, MODEL, batch=4, prompt=3, steps=5)
    executed = sum(readers.step_counts(step) for step in range(5))
    assert (readers.profile + executed).tolist() == counted(list(range(TOKENS)))
    assert not readers.profile_is_executed
    all_of_it = Readers.of(TRACE, MODEL, batch=4, prompt=0, steps=15)
    assert all_of_it.profile_is_executed
    assert all_of_it.profile.tolist() == counted(list(range(TOKENS)))


def test_what_wraps_is_counted() -> None:
    """20 steps of four readers on 60 tokens read 20 tokens twice."""
    assert Readers.of(TRACE, MODEL, batch=4, prompt=0, steps=20).wrapped == 20


def test_a_step_needs_as_many_tokens_as_readers() -> None:
    with pytest.raises(InputError, match="has 60 tokens, fewer than one step of 61 readers"):
        Readers.of(TRACE, MODEL, batch=61, prompt=0, steps=1)
    with pytest.raises(InputError, match="must be streams or window, not rows"):
        Readers.of(TRACE, MODEL, 4, 0, 1, "rows")  # type: ignore[arg-type]
