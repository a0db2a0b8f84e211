"""What several test folders share: the repository's root and the miniature problem."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.abc import Loader
from importlib.util import spec_from_file_location
from pathlib import Path

import pytest

from formulations.TEMPLATE.problem import PROBLEM
from tests.rooms.problems import PROBLEMS

ROOT = Path(__file__).parents[1]

# Where bytecode is not to be kept, each worker and each `moeopt` that a test starts would compile
# all modules again: two thirds of what collecting costs.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Workers of pytest-xdist are told that their terminal has 80 columns; output that is captured has
# no terminal.
os.environ.pop("COLUMNS", None)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile all kernels before several workers begin; a single process does so as it goes.

    Where the suite runs in the background the shell has made Ctrl-C ignored: it is restored, for
    the tests that press it, and for the processes that they start.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    workers = getattr(session.config.option, "numprocesses", None)
    if hasattr(session.config, "workerinput"):
        rewrite_share(session.config, **session.config.workerinput)
    elif workers:
        from tests.rooms.solvers import warm

        warm(workers)


class Unrun:
    """A module that is not to run: pytest asks for its names when its rewritten code is kept."""

    class KeptError(Exception):
        """The code is on disk."""

    def __init__(self, file: Path) -> None:
        self.__name__ = file.stem
        self.__spec__ = spec_from_file_location(file.stem, file)

    @property
    def __dict__(self) -> dict[str, object]:  # type: ignore[override]
        """Raise `KeptError`."""
        raise self.KeptError


def rewrite_share(config: pytest.Config, workerid: str, workercount: int, **_: object) -> None:
    """Rewrite the assertions of some test files, each worker its own, before all are collected.

    In a fresh clone every worker would rewrite all of them, which is half of what collecting costs;
    those of the others are read from the disk.
    """
    hook = config.pluginmanager.rewrite_hook
    if isinstance(hook, Loader):  # not with --assert=plain
        for file in [*test_files(config)][int(workerid.removeprefix("gw")) :: workercount]:
            with suppress(Unrun.KeptError, SyntaxError):  # collecting tells of a wrong one
                hook.exec_module(Unrun(file))  # type: ignore[arg-type]


def test_files(config: pytest.Config) -> Iterator[Path]:
    """Yield the test files among what is to be collected, in an order that all workers share."""
    for argument in config.args:
        place = config.invocation_params.dir / argument.partition("::")[0]
        found = sorted(place.rglob("test_*.py")) if place.is_dir() else [place]
        yield from (file for file in found if file.is_file())


def pytest_collection_finish() -> None:
    """Leave out of garbage collection what stays to the end: eight thousand tests, all modules.

    Going through them again and again is a tenth of the suite's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture
def root() -> Path:
    """Return the repository's root."""
    return ROOT


@pytest.fixture
def template_problem(monkeypatch: pytest.MonkeyPatch) -> str:
    """Register the miniature problem of formulations/TEMPLATE, which can be infeasible."""
    monkeypatch.setitem(PROBLEMS, "TEMPLATE", PROBLEM)
    return "TEMPLATE"
