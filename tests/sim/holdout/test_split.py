"""Splitting traces: nothing lost, nothing twice, no sequence and no step cut in two."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt import InputError
from tests.rooms.sim import Trace, all_step_tokens, hold_out

LENGTHS = np.array([4, 1, 7, 3, 5])


def numbered(tokens: int, seq_len: np.ndarray | None = None) -> Trace:
    """Return a trace in which every token's expert is its own position."""
    ids = np.arange(tokens).reshape(tokens, 1, 1)
    return Trace("numbered", ids, ids / 2, seq_len, {"a": 1}, np.arange(tokens) % 3 == 0)


def positions(trace: Trace) -> list[int]:
    return trace.topk_ids.ravel().tolist()


@pytest.mark.parametrize("seed", [None, 0, 1, 2])
@pytest.mark.parametrize("share", [0.01, 0.3, 0.5, 0.99])
def test_sequences_are_kept_whole(share: float, seed: int | None) -> None:
    """Every sequence is in one part, in order, with its weights and marks."""
    whole = numbered(20, LENGTHS)
    parts = hold_out(whole, share, seed=seed)
    starts = np.cumsum(LENGTHS) - LENGTHS
    for part in parts:
        assert part.seq_len is not None
        expected: list[int] = []
        for length, first in zip(part.seq_len, np.cumsum(part.seq_len) - part.seq_len, strict=True):
            start = positions(part)[first]
            assert start in starts
            expected += range(start, start + length)
        assert positions(part) == expected
        assert part.topk_weights is not None
        assert (part.topk_weights * 2).ravel().tolist() == expected
        assert part.decode.tolist() == [position % 3 == 0 for position in expected]
    assert sorted(positions(parts[0]) + positions(parts[1])) == list(range(20))
    held_out = min(max(round(share * 5), 1), 4)
    assert len(parts[1].seq_len) == held_out  # type: ignore[arg-type]


def test_without_a_seed_the_last_sequences_are_held_out() -> None:
    """As when a plan made on Monday is used on Tuesday."""
    kept, later = hold_out(numbered(20, LENGTHS), 0.4)
    assert positions(kept) == list(range(12))
    assert positions(later) == list(range(12, 20))
    assert later.facts == {
        "a": 1,
        "split": {"by": "sequence", "held_out": 2, "of": 5, "seed": None, "part": "held out"},
    }


def test_a_seed_draws_and_draws_again_the_same() -> None:
    """Reproducible, and not always the same sequences."""
    drawn = {tuple(positions(hold_out(numbered(20, LENGTHS), 0.4, seed=s)[1])) for s in range(9)}
    assert len(drawn) > 1
    again = [positions(hold_out(numbered(20, LENGTHS), 0.4, seed=4)[1]) for _ in range(2)]
    assert again[0] == again[1]


@given(st.integers(2, 60), st.integers(1, 9), st.floats(0.01, 0.99))
def test_a_split_at_a_position_cuts_no_step(tokens: int, batch: int, share: float) -> None:
    """The windows of both parts are those of the whole."""
    whole = numbered(tokens)
    if tokens // batch < 2:
        with pytest.raises(InputError, match="are not two steps of"):
            hold_out(whole, share, batch)
        return
    parts = hold_out(whole, share, batch)
    windows = [
        part.topk_ids[cut].ravel().tolist()
        for part in parts
        for cut in all_step_tokens(part, batch, "window")
    ]
    assert windows == [cut.tolist() for cut in all_step_tokens(whole, batch, "window")]
    assert all(part.tokens >= batch for part in parts)


def test_one_sequence_is_split_at_a_position() -> None:
    """Each part then is a sequence of its own."""
    parts = hold_out(numbered(10, np.array([10])), 0.3, batch=2)
    assert [part.seq_len.tolist() for part in parts] == [[6], [4]]  # type: ignore[union-attr]


def test_no_held_out_token_was_decided_on() -> None:
    """What is read twice is removed before the split, unless asked for; both parts say so."""
    ids = np.concatenate([np.arange(60), np.arange(40), np.arange(60, 70)]).reshape(-1, 1, 1)
    twice = Trace("two turns", ids)
    kept, later = hold_out(twice, 0.5)
    assert positions(kept) + positions(later) == list(range(70))
    for part in (kept, later):
        assert part.facts["deduped"] == {"min_run": 20, "runs": 1, "removed": 40, "of": 110}
    parts = hold_out(twice, 0.5, min_run=None)
    assert [part.tokens for part in parts] == [55, 55]
    assert set(positions(parts[0])) & set(positions(parts[1]))
    assert hold_out(twice, 0.5, min_run=41)[0].tokens == 55


def test_nothing_left_to_hold_out() -> None:
    """One step again and again: the message says where the tokens went."""
    again = Trace("again", np.zeros((50, 1, 1), dtype=int))
    message = "again: 1 tokens left of 50 without repeats are not two steps of 1"
    with pytest.raises(InputError, match=message):
        hold_out(again)
    assert hold_out(again, min_run=None)[1].tokens == 25


def test_shares_and_batches_out_of_range_are_refused() -> None:
    """Nothing and everything are no parts."""
    for share in (0, 1, -0.1, 1.5, float("nan")):
        with pytest.raises(InputError, match="share: must lie between 0 and 1"):
            hold_out(numbered(10), share)
    with pytest.raises(InputError, match="batch: must be at least 1"):
        hold_out(numbered(10), 0.5, batch=0)
