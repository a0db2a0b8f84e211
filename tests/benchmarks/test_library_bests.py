"""The campaign over open instances: what the package's own tools find is the library's best."""

import shutil
from pathlib import Path

import pytest

from benchmarks.studies.library_bests import better, open_entries
from instances.tools.entries import REFERENCE, entries_of
from moeopt import save
from tests.rooms.core import read_object
from tests.rooms.study import BEST, INDEX

SMALLEST = "mixtral/mixtral-writing-slots3-even.json"
WORK = 0.5
"""Limit of work of each solve."""


@pytest.fixture
def library(root: Path, tmp_path: Path) -> Path:
    """Return a library of replication whose files may be changed."""
    folder = root / "instances" / "replication"
    for name in (BEST, INDEX, REFERENCE, "mixtral", "solutions/mixtral"):
        place = tmp_path / "replication" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (folder / name).is_dir() else shutil.copy)(folder / name, place)
    return tmp_path


def test_open_instances_come_smallest_first(root: Path) -> None:
    """None is proven."""
    found = open_entries(root / "instances", ["replication"])
    sizes = [(entry.folder / entry.key).stat().st_size for entry in found]
    assert sizes == sorted(sizes)
    assert all(entry.bound != entry.objective for entry in found)


@pytest.mark.slow
def test_little_work_finds_nothing_better_than_the_record(library: Path) -> None:
    """Of an instance whose record was not the best of the package's own tools once."""
    [entry] = open_entries(library, ["replication"], SMALLEST)
    assert list(better(entry, WORK, enter=False)) == []


@pytest.mark.slow
def test_what_is_better_is_entered(library: Path) -> None:
    """A record that was made worse, in solution and bound."""
    best = read_object(library / "replication" / BEST)
    known = best[SMALLEST]["bound"]
    best[SMALLEST] |= {"objective": 10**6, "bound": 1}
    save(best, library / "replication" / BEST)
    [entry] = open_entries(library, ["replication"], SMALLEST)
    lines = list(better(entry, WORK, enter=True))
    assert any(": solution " in line for line in lines)
    assert any(": bound " in line for line in lines)
    [now] = [one for one in entries_of(library / "replication") if one.key == SMALLEST]
    assert now.objective < 10**6
    assert now.bound == known
