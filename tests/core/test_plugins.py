"""Export targets and trace readers that other packages announce by an entry point."""

from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import moeopt
from moeopt import InputError
from tests.rooms.core import entries
from tests.rooms.exporters import EXPORTERS, Exported, Target, all_targets
from tests.rooms.sim import READERS, Format, Trace

Announce = Callable[..., None]


def read_pairs(path: Path, top_k: int | None) -> Trace:
    """Read one expert per line, of one layer."""
    ids = [[[int(line)]] for line in path.read_text().split()]
    return Trace(path.stem, np.array(ids))


PAIRS = Format("one expert per line", trace=read_pairs)

LISTED = Target(
    name="a-list",
    summary="a list",
    problems=("placement",),
    suffix=".txt",
    export=lambda _: Exported(b""),
    holds="all",
    loses="nothing",
)

TAKEN = Target(**vars(LISTED) | {"name": "lp"})


class Installed:
    """Stands for a package with entry points."""

    name = "a-package"


@pytest.fixture
def announce(monkeypatch: pytest.MonkeyPatch) -> Iterator[Announce]:
    """Return what gives a group entry points: name -> object of this module."""

    def announced(group: str, **objects: str) -> None:
        found = [metadata.EntryPoint(name, value, group) for name, value in objects.items()]
        for entry in found:
            vars(entry).update(dist=Installed())
        monkeypatch.setattr(metadata, "entry_points", lambda group: found)
        forget()

    yield announced
    monkeypatch.undo()
    forget()


def forget() -> None:
    """Look for plug-ins anew."""
    entries.cache_clear()
    all_targets.cache_clear()


def test_a_reader_of_another_package(announce: Announce, tmp_path: Path) -> None:
    """It is used by its name, and named among the known ones."""
    file = tmp_path / "x.pairs"
    file.write_text("3\n1\n3\n")
    announce(READERS, pairs=f"{__name__}:PAIRS", broken="no.such.module:FORMAT")
    assert moeopt.load_trace(file, format="pairs").topk_ids.ravel().tolist() == [3, 1, 3]
    assert moeopt.load_counts(file, format="pairs", experts=4).counts.tolist() == [[[0, 1, 0, 2]]]
    with pytest.raises(InputError, match=r"format: 'excel' is unknown; known: .*pairs, broken$"):
        moeopt.load_trace(file, format="excel")
    with pytest.raises(InputError, match=r"plugin 'broken' of a-package cannot be loaded: Module"):
        moeopt.load_trace(file, format="broken")


def test_a_target_of_another_package(announce: Announce) -> None:
    """It stands among the others; another one's name or another kind of object is refused."""
    announce(EXPORTERS, anything=f"{__name__}:LISTED")
    assert all_targets()["a-list"] is LISTED
    announce(EXPORTERS, anything=f"{__name__}:TAKEN")
    with pytest.raises(InputError, match="plugin 'anything': there is another target 'lp'"):
        all_targets()
    announce(EXPORTERS, anything=f"{__name__}:PAIRS")
    with pytest.raises(InputError, match="of a-package must be a Target, not a Format"):
        all_targets()
