"""Stored statistics, and those that are measured anew where the traces are there."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.papers import data

FILES = ("a.npz", "folder/b.npz")


def measure(paths: Sequence[Path]) -> data.Statistic:
    """Return the names of what was measured."""
    return {"measured": [path.name for path in paths]}


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """Return a stored statistic."""
    path = tmp_path / "stored.json"
    path.write_text(json.dumps({"stored": 1.5}))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with both files."""
    place = tmp_path / "data"
    for name in FILES:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).touch()
    return place


def test_stored_without_traces(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody names a folder."""
    monkeypatch.delenv(data.VARIABLE, raising=False)
    assert data.statistic(stored, FILES, measure) == {"stored": 1.5}


def test_measured_where_all_are_there(
    stored: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the listed order; if one is missing, the stored one holds."""
    monkeypatch.setenv(data.VARIABLE, str(folder))
    assert data.statistic(stored, FILES, measure) == {"measured": ["a.npz", "b.npz"]}
    (folder / FILES[1]).unlink()
    assert data.statistic(stored, FILES, measure) == {"stored": 1.5}
    assert data.statistic(stored, (), measure) == {"stored": 1.5}
