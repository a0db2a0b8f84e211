"""SGLang's recorder: what real files say, how ranks come together, what is refused."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moeopt import load_counts, load_trace
from tests.interop.refusals import refusal
from tests.interop.torch_files import saved
from tests.rooms.sim import read_torch

DATA = Path(__file__).parent / "data"
SLOTS = [[0, 1, 2, 3, 0, 2], [3, 2, 1, 0, 0, 3], [0, 1, 2, 3, 1, 1]]
"""Slot -> expert, for each layer, as in make_recordings.py."""


def test_counts_of_mode_stat_are_read() -> None:
    """Steps apart; the dense layer, whose counts are all 0, is left out and said."""
    counts = load_counts(DATA / "stat.pt")
    assert counts.counts.tolist() == np.arange(16).reshape(2, 2, 4).tolist()
    assert (counts.steps, counts.layers, counts.experts) == (2, 2, 4)
    assert counts.total().tolist() == [[8, 10, 12, 14], [16, 18, 20, 22]]
    assert counts.facts["layers"] == [1, 2]
    assert counts.name == "data/stat.pt"


def expected_tokens() -> list[list[list[int]]]:
    """Return the experts of both ranks' tokens by plain loops over the recordings."""
    files = [read_torch(DATA / "per_token" / f"recording_{rank}.pt") for rank in (0, 1)]
    tokens = []
    for number in (0, 1):
        for file in files:
            ids = file["records"][number]["topk_ids_of_layer"]
            for token in range(ids.shape[1]):
                tokens.append(
                    [[SLOTS[la][slot] for slot in ids[la][token][:2].tolist()] for la in (1, 2)]
                )
    return tokens


def test_tokens_of_all_ranks_come_pass_by_pass() -> None:
    """Slots become experts, unused places and dense layers go, decode marks come from the mode."""
    trace = load_trace(DATA / "per_token")
    assert trace.topk_ids.tolist() == expected_tokens()
    assert trace.decode.tolist() == [False] * 6 + [True] * 4
    assert trace.seq_len is None
    assert trace.facts["layers"] == [1, 2]


def test_one_rank_alone_is_a_trace_as_well() -> None:
    """Its own tokens."""
    trace = load_trace(DATA / "per_token" / "recording_1.pt")
    every = expected_tokens()
    assert trace.topk_ids.tolist() == every[3:6] + every[8:10]


def test_counts_of_the_ranks_are_summed() -> None:
    """The counts that the recorder kept are those of the tokens that it kept, slot for slot."""
    counts = load_counts(DATA / "per_token")
    assert counts.steps == 3
    trace = load_trace(DATA / "per_token")
    for step, tokens in enumerate((range(6), range(6, 10), range(0))):
        for layer in (0, 1):
            own = trace.counts(np.array(tokens, dtype=np.int64), layer, 4)
            assert counts.counts[step, layer].tolist() == own.tolist()


def test_a_mixed_pass_is_taken_apart() -> None:
    """The sequence of one token that is not its first is the generated one."""
    trace = load_trace(DATA / "mixed.pt")
    assert trace.decode.tolist() == [False, False, False, True]


def recorded(**changes: Any) -> dict[str, Any]:
    """Return a recording of one pass of two tokens, with changes in its record."""
    record = {
        "forward_pass_id": 0,
        "rank": 0,
        "global_physical_count": np.array([[1, 1, 2]], dtype=np.int32),
        "topk_ids_of_layer": np.array([[[0, 2], [1, 2]]], dtype=np.int32),
        "forward_mode": 2,
    }
    kept = {key: value for key, value in (record | changes).items() if value is not ...}
    return {"records": [kept], "last_physical_to_logical_map": np.array([[2, 0, 1]])}


def test_the_recording_that_is_broken_below_is_good(tmp_path: Path) -> None:
    """So each refusal has its own reason."""
    path = saved(tmp_path / "x.pt", recorded())
    assert load_trace(path).topk_ids.tolist() == [[[2, 1]], [[0, 1]]]
    assert load_counts(path).counts.tolist() == [[[1, 2, 1]]]


def int32(value: Any) -> Any:
    return np.array(value, dtype=np.int32)


BAD_RECORDS: dict[str, tuple[dict[str, Any], str]] = {
    "a slot that is none": ({"topk_ids_of_layer": int32([[[0, 3], [1, 2]]])}, "must be from -1 to"),
    "below -1": ({"topk_ids_of_layer": int32([[[0, -2], [1, 2]]])}, "must be from -1 to 2"),
    "layers that the map lacks": (
        {"topk_ids_of_layer": int32(np.zeros((2, 1, 2)))},
        "topk_ids_of_layer: 2 layers, the map has 1",
    ),
    "ids in two axes": (
        {"topk_ids_of_layer": int32([[0, 2]])},
        "topk_ids_of_layer: must be a tens",
    ),
    "ids in a list": ({"topk_ids_of_layer": [[[0, 2]]]}, "topk_ids_of_layer: must be a tensor"),
    "a pass in words": ({"forward_pass_id": "0"}, "forward_pass_id: must be an integer"),
    "no rank": ({"rank": ...}, "rank: must be an integer in every record"),
    "no tokens": ({"topk_ids_of_layer": int32(np.zeros((1, 0, 2)))}, "records: hold no tokens"),
    "lengths that do not add up": (
        {"forward_mode": 3, "extend_seq_lens": [3, 1], "positions": [0, 1]},
        "extend_seq_lens: does not sum to 2 tokens",
    ),
    "positions in words": (
        {"forward_mode": 3, "extend_seq_lens": [1, 1], "positions": ["0", 1]},
        "positions: must be 2 integers",
    ),
}


@pytest.mark.parametrize(("changes", "says"), BAD_RECORDS.values(), ids=BAD_RECORDS)
def test_a_bad_record_is_named(changes: dict[str, Any], says: str, tmp_path: Path) -> None:
    """Field and reason."""
    assert says in refusal(saved(tmp_path / "x.pt", recorded(**changes)))


def test_a_bad_map_is_named(tmp_path: Path) -> None:
    """Missing, negative, beyond reason."""
    for slots in (..., int32([[0, -1, 1]]), int32([[0, 70000, 1]]), np.zeros((1, 0), dtype=int)):
        data = recorded() | {"last_physical_to_logical_map": slots}
        if slots is ...:
            del data["last_physical_to_logical_map"]
        message = refusal(saved(tmp_path / "x.pt", data))
        assert message.startswith("last_physical_to_logical_map: ")


def test_counts_of_another_shape_or_below_zero_are_named(tmp_path: Path) -> None:
    """Counts per slot must be as many as slots, and counts."""
    for counts, says in (
        ([[1, 2]], "global_physical_count: shape is not that of the map"),
        ([[1, -2, 2]], "count: must not be negative, not -2"),
        ([[0, 0, 0]], "count: is zero for every expert"),
    ):
        path = saved(tmp_path / "x.pt", recorded(global_physical_count=int32(counts)))
        assert refusal(path, load_counts) == says


def test_unknown_modes_leave_the_marks_unknown(tmp_path: Path) -> None:
    """A pass of speculative decoding is neither prompt nor plain generation."""
    assert load_trace(saved(tmp_path / "x.pt", recorded(forward_mode=5))).decode is None


def test_a_rank_given_twice_is_refused(tmp_path: Path) -> None:
    """Its tokens would count double."""
    for number in (0, 1):
        shutil.copy(DATA / "mixed.pt", tmp_path / f"copy{number}.pt")
    assert "pass 5 of rank 0 again" in refusal(tmp_path)


def test_ranks_of_different_maps_are_refused(tmp_path: Path) -> None:
    """They are not of one recording."""
    saved(tmp_path / "a.pt", recorded())
    saved(
        tmp_path / "b.pt", recorded(rank=1) | {"last_physical_to_logical_map": int32([[0, 1, 2]])}
    )
    assert "last_physical_to_logical_map: differs between ranks" in refusal(tmp_path)


@pytest.mark.parametrize("value", [[1], "text", 7, np.zeros(3, dtype=np.int32), {}, {"records": 1}])
def test_other_things_that_torch_saved_are_refused(value: Any, tmp_path: Path) -> None:
    """Neither a trace nor counts."""
    path = saved(tmp_path / "x.pt", value)
    assert refusal(path)
    assert refusal(path, load_counts)


def test_counts_alone_are_no_trace() -> None:
    """Tokens cannot be recovered."""
    assert refusal(DATA / "stat.pt").startswith("topk_ids_of_layer: is missing: the file holds cou")
