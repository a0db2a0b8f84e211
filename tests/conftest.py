"""What several test folders share: the repository's root and the miniature problem."""

import gc
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from formulations.TEMPLATE.problem import PROBLEM
from tests.rooms.problems import PROBLEMS

ROOT = Path(__file__).parents[1]

# Where bytecode is not to be kept, each worker and each `moeopt` that a test starts would compile
# all modules again: two thirds of what collecting costs.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A machine that does other things is late, which says nothing about an example.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

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
    if workers and not hasattr(session.config, "workerinput"):
        from tests.rooms.solvers import warm

        warm(workers)


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
