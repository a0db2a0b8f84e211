"""Saving traces as npz: what comes back, the same bytes each time, whole or not at all."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moeopt import InputError, load_trace, save_trace
from tests.interop.refusals import refusal
from tests.rooms.sim import Trace, topk_npz

IDS = np.array([[[3, 1]], [[0, 2]], [[2, -1]]])
FULL = Trace(
    "folder/file.pt",
    IDS,
    np.array([[[0.5, 0.25]], [[0.5, 0.25]], [[0.5, 0.0]]], dtype=np.float32),
    np.array([1, 2]),
    {"format": "sglang-pt", "layers": [3]},
    np.array([False, False, True]),
)


@pytest.mark.parametrize("trace", [FULL, Trace("bare", IDS)], ids=["all arrays", "ids alone"])
def test_a_saved_trace_comes_back(trace: Trace, tmp_path: Path) -> None:
    """All arrays, -1 for no expert among them, and where the trace came from."""
    path = tmp_path / "x.npz"
    save_trace(trace, path)
    again = load_trace(path)
    for field in ("topk_ids", "topk_weights", "seq_len", "decode"):
        before, after = getattr(trace, field), getattr(again, field)
        assert (before is None) == (after is None)
        assert before is None or np.array_equal(before, after)
    assert again.facts["converted"] == {"name": trace.name} | (trace.facts or {})


@pytest.mark.parametrize(
    ("high", "low", "kind"),
    [(255, 0, "uint8"), (255, -1, "int16"), (256, 0, "int16"), (40_000, 0, "uint16"),
     (40_000, -1, "int32")],
)  # fmt: skip
def test_ids_are_stored_small(high: int, low: int, kind: str, tmp_path: Path) -> None:
    """As the smallest integers that hold them."""
    save_trace(Trace("x", np.array([[[high, low]]])), tmp_path / "x.npz")
    ids = load_trace(tmp_path / "x.npz").topk_ids
    assert ids.dtype == np.dtype(kind)
    assert ids.tolist() == [[[high, low]]]


def test_the_same_trace_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also years later, and from an array that lies differently in memory."""
    save_trace(FULL, tmp_path / "a.npz")
    monkeypatch.setattr(time, "time", lambda: 2e9)
    turned = np.asfortranarray(IDS.astype(">i4"))
    save_trace(replace(FULL, topk_ids=turned), tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_a_trace_that_cannot_be_saved_leaves_the_old_file(tmp_path: Path) -> None:
    """Whole or not at all."""
    path = tmp_path / "x.npz"
    save_trace(FULL, path)
    before = path.read_bytes()
    for facts in ({"x": {1, 2}}, {"x": float("nan")}):
        with pytest.raises(InputError, match="cannot be written: facts"):
            save_trace(replace(FULL, facts=facts), path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["x.npz"]
    with pytest.raises(InputError, match="cannot be written: No such file or directory"):
        save_trace(FULL, tmp_path / "absent" / "x.npz")


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "marks too few": ({"decode": np.array([True])}, "decode: must be a truth value for each token"),
    "marks as numbers": ({"decode": np.array([0, 1, 1])}, "decode: must be a truth value"),
    "provenance in words": ({"provenance": np.array("{}")}, "provenance: must be bytes"),
    "provenance cut": ({"provenance": np.frombuffer(b'{"a', np.uint8)}, "provenance: is not valid"),
    "deep provenance": (
        {"provenance": np.frombuffer(b"[" * 100_000, np.uint8)},
        "provenance: is not valid JSON",
    ),
    "a list": ({"provenance": np.frombuffer(b"[]", np.uint8)}, "provenance: must be a JSON object"),
    "beyond experts": ({"topk_ids": IDS + 70_000}, "topk_ids: must be at most 65535, not 70003"),
    "an endless id": (
        {"topk_ids": np.array([[[2**64 - 1, 0]]] * 3, dtype=np.uint64)},
        "topk_ids: must be at most 65535, not 18446744073709551615",
    ),
}


@pytest.mark.parametrize(("arrays", "says"), BAD.values(), ids=BAD)
def test_what_only_this_form_has_is_checked(
    arrays: dict[str, Any], says: str, tmp_path: Path
) -> None:
    """Decode marks and provenance."""
    np.savez(tmp_path / "x.npz", **({"topk_ids": IDS} | arrays))
    assert refusal(tmp_path / "x.npz").startswith(says)


def test_provenance_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes into every instance."""
    save_trace(FULL, tmp_path / "x.npz")
    monkeypatch.setattr(topk_npz, "MAX_PROVENANCE_BYTES", 10)
    assert refusal(tmp_path / "x.npz") == "provenance: must be bytes of a JSON text"
