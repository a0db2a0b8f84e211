"""Text that a trace reads twice: found as by brute force, removed with all that goes along."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import moeopt
from moeopt import InputError, dedupe_trace, find_repeats
from tests.real_traces import real_trace_file
from tests.rooms.sim import MAX_SLIP, Repeat, Trace, files, hold_out, repeats
from tests.sim.small_traces import trace_of


def text(tokens: int, seed: int = 0, layers: int = 3) -> Any:
    """Return the routing of tokens that are all different, top-2 of 16 experts."""
    ids = np.random.default_rng(seed).permuted(np.tile(np.arange(16), (tokens, layers, 1)), axis=2)
    ids = ids[:, :, :2].copy()
    assert len({token.tobytes() for token in np.sort(ids, axis=2)}) == tokens
    return ids


def by_brute_force(trace: Trace, min_run: int) -> list[bool]:
    """Return which tokens lie in repeats, by the definition."""
    token = [tuple(tuple(sorted(layer)) for layer in one) for one in trace.topk_ids.tolist()]
    windows = [tuple(token[i : i + min_run]) for i in range(len(token) - min_run + 1)]
    first: dict[Any, int] = {}
    seeds = {i: i - first[w] for i, w in enumerate(windows) if first.setdefault(w, i) != i}
    sure = {i + n for i in seeds for n in range(min_run)}
    marked = set(sure)
    for i, shift in seeds.items():
        for at, way in ((i - 1, -1), (i + min_run, 1)):
            passed: list[int] = []
            slips = 0
            while shift <= at < len(token) and slips <= MAX_SLIP:
                passed.append(at)
                slips = 0 if token[at] == token[at - shift] else slips + 1
                if slips == 0:
                    marked.update(passed)
                    if at in sure:
                        break
                at += way
    return [i in marked for i in range(len(token))]


@st.composite
def planted(draw: st.DrawFn) -> Trace:
    """Return a trace of few kinds of tokens into which parts of it were copied, with slips."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kinds = draw(st.sampled_from([2, 5, 50]))
    ids = list(rng.integers(kinds, size=draw(st.integers(1, 25))))
    for _ in range(draw(st.integers(0, 4))):
        at = int(rng.integers(len(ids)))
        ids += ids[at : at + int(rng.integers(1, 12))] + list(rng.integers(kinds, size=2))
    for at in rng.integers(len(ids), size=draw(st.integers(0, 5))):
        ids[at] = kinds
    return trace_of(np.array(ids)[:, None])


@settings(max_examples=60)
@given(planted(), st.integers(1, 9))
def test_repeats_are_those_of_brute_force(trace: Trace, min_run: int) -> None:
    """Every token's mark; and every run is what it says."""
    found = find_repeats(trace, min_run)
    assert found.repeated.tolist() == by_brute_force(trace, min_run)
    ids = trace.topk_ids.ravel().tolist()
    runs = np.zeros(trace.tokens, dtype=bool)
    for start, length, first in found.runs:
        assert 0 <= first < start
        runs[start : start + length] = True
        equal = [ids[start + i] == ids[first + i] for i in range(length)]
        assert equal[0]
        assert equal[-1]
        words = "".join("=" if one else "x" for one in equal)
        assert "=" * min_run in words
        assert "x" * (MAX_SLIP + 1) not in words
    assert runs.tolist() == found.repeated.tolist()
    assert find_repeats(dedupe_trace(trace, min_run), min_run).runs == ()


def test_a_second_turn_reads_the_first_again() -> None:
    """One run, from its first token to its last, whatever the order of a token's experts."""
    ids = text(100)
    again = np.concatenate([ids, text(5, seed=1), ids[10:70, :, ::-1]])
    found = find_repeats(trace_of(again))
    assert found.runs == (Repeat(start=105, length=60, first=10),)
    assert (found.tokens, found.share) == (60, 60 / 165)
    assert find_repeats(trace_of(again), min_run=61).runs == ()


def test_every_layer_counts() -> None:
    """Runs that are equal in all layers but one are none."""
    ids = text(40)
    other = ids.copy()
    other[:, 2] = (other[:, 2] + 1) % 16
    assert find_repeats(trace_of(np.concatenate([ids, other]))).runs == ()
    assert find_repeats(trace_of(np.concatenate([ids, other])[:, :2])).tokens == 40


@pytest.mark.parametrize(("slip", "covered"), [(MAX_SLIP, 60), (MAX_SLIP + 1, 30)])
def test_a_repeat_goes_on_over_a_few_tokens_that_differ(slip: int, covered: int) -> None:
    """Near-ties fall either way; here the second half alone has no run of 20."""
    ids = text(60)
    again = ids.copy()
    again[30 : 30 + slip] = text(60, seed=1)[:slip]
    again[50] = text(60, seed=2)[0]
    found = find_repeats(trace_of(np.concatenate([ids, again])))
    assert found.tokens == covered


def test_equal_hashes_are_not_equal_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """With hashes that are sums of expert numbers 0 + 9 would be 1 + 8; in parts of a token."""
    monkeypatch.setattr(repeats, "CHUNK_IDS", 2)
    apart = trace_of([[i, 90 + i] for i in range(25)] + [[1 + i, 89 + i] for i in range(25)])
    assert find_repeats(apart).tokens == 0
    sums = SimpleNamespace(integers=lambda _, size, dtype: np.zeros(size, dtype))
    monkeypatch.setattr(np.random, "default_rng", lambda _: sums)
    assert find_repeats(apart).tokens == 0


def test_dedupe_takes_everything_along() -> None:
    """Weights, marks and lengths of what is kept; a sequence that is all repeat is gone."""
    ids = np.concatenate([text(50), text(30, seed=1), text(50)[:40], text(50)[10:40]])
    marks = np.arange(150) % 3 == 0
    lengths = np.array([50, 60, 0, 10, 30], dtype=np.int32)
    whole = Trace("conversation", ids, ids / 32, lengths, {"a": 1}, marks)
    left = dedupe_trace(whole)
    assert np.array_equal(left.topk_ids, ids[:80])
    assert np.array_equal(left.topk_weights, ids[:80] / 32)
    assert left.decode.tolist() == marks[:80].tolist()
    assert left.seq_len.tolist() == [50, 30]
    fact = {"min_run": 20, "runs": 2, "removed": 70, "of": 150}
    assert left.facts == {"a": 1, "deduped": fact}
    assert dedupe_trace(left) is left


def test_remainders_that_form_a_run_side_by_side_go_too() -> None:
    """12 and 12 tokens of the first 24, parted by a repeat of something else."""
    ids, other = text(24), text(30, seed=1)
    whole = trace_of(np.concatenate([ids, other, ids[:12], other[:25], ids[12:]]))
    assert find_repeats(whole).tokens == 25
    assert np.array_equal(dedupe_trace(whole).topk_ids, whole.topk_ids[:54])


def test_short_and_odd_traces() -> None:
    """Nothing to find is no error; a wrong length is."""
    for tokens in (0, 1, 19):
        empty = trace_of(np.zeros((tokens, 1, 2), dtype=int))
        assert find_repeats(empty).share == 0
    assert dedupe_trace(trace_of(np.zeros((50, 1, 2), dtype=int))).tokens == 1
    with pytest.raises(InputError, match="min_run: must be at least 1, not 0"):
        find_repeats(trace_of(text(3)), 0)
    with pytest.raises(InputError, match="trace: must be a trace, not list"):
        dedupe_trace([1])  # type: ignore[arg-type]


def test_reading_warns(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of repeats that matter, in traces that are not too large."""
    path = tmp_path / "x.npz"
    ids = text(2500, layers=4)
    np.savez(path, topk_ids=np.concatenate([ids, ids[:24]]))
    moeopt.load_trace(path)
    np.savez(path, topk_ids=np.concatenate([ids, ids[:30]]))
    with pytest.warns(moeopt.MoeoptWarning, match="x.npz: 1.2% of the tokens lie in runs"):
        moeopt.load_trace(path)
    monkeypatch.setattr(files, "MAX_IDS_SEARCHED", 1000)
    moeopt.load_trace(path)


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [("hdmoe_mixtral_8x7b/stem.npz", 0.60, 0.61), ("esft_deepseek_v2_lite/law.npz", 0, 0)],
)
def test_real_traces(name: str, least: float, most: float) -> None:
    """Conversations read their first turn again; separate texts do not.

    Of what is left of a conversation, hardly a held-out token equals one that was decided on.
    """
    trace = moeopt.load_trace(real_trace_file(name))
    assert least <= find_repeats(trace).share <= most
    kept, later = hold_out(trace)
    seen = {token.tobytes() for token in np.sort(kept.topk_ids, axis=2)}
    known = [token.tobytes() in seen for token in np.sort(later.topk_ids, axis=2)]
    assert np.mean(known) < 0.05
