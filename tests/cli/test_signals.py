"""A command that is told to stop prints and saves the best so far; its exit code says why."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import moeopt
from tests.rooms.cli import main, solving

LONG_S = 300.0
"""After so long even a busy machine has ended."""

START = f"""
import importlib, signal, sys
from contextlib import contextmanager

@contextmanager
def solving(title, problem):
    seen = []
    def update(seconds, objective, bound):
        seen.extend(() if objective is None else (objective,))
        if len(seen) >= int(sys.argv[1]):
            open("found", "w").close()
    yield update

for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
importlib.import_module("{solving.__module__}").solving = solving
importlib.import_module("{main.__module__}").main(sys.argv[2:])
"""
"""A command line that makes a file when it has shown that many incumbents or bounds."""

SEARCHES = {
    "cp-sat": "placement/gpu-bound-small/esft-summary-fast-offload-share0.6.json.gz",
    "bound-and-pack": "layout/esft-windows/law-layer12-windows8.json",
}
"""Instances that no method closes for a while: with CP-SAT inside, and with kernels."""


def started(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    """Start a command in a folder."""
    return subprocess.Popen(
        [sys.executable, "-c", START, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": ROOT},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


ROOT = str(Path(moeopt.__file__).parents[1])


def wait_for(file: Path, process: "subprocess.Popen[str]") -> None:
    """Wait until a file is there."""
    until = time.monotonic() + LONG_S
    while not file.exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("method", "name", "news"),
    [
        ("cp-sat", "SIGINT", 1),  # while the solver is imported, or the model is built
        ("cp-sat", "SIGINT", 3),  # while it solves
        ("cp-sat", "SIGHUP", 3),
        ("bound-and-pack", "SIGINT", 1),
        ("bound-and-pack", "SIGTERM", 3),
    ],
)
def test_solve_keeps_the_best_so_far(
    tmp_path: Path, root: Path, method: str, name: str, news: int
) -> None:
    """The result is printed, the solution saved, and the checker takes it."""
    file, number = root / "instances" / SEARCHES[method], signal.Signals[name]
    given = ("--method", method, "--time-limit", "600", "--out", "best.json")
    process = started(tmp_path, str(news), "solve", str(file), *given)
    wait_for(tmp_path / "found", process)
    process.send_signal(number)
    out, errors = process.communicate(timeout=LONG_S)
    assert process.returncode == 128 + number, errors
    assert "interrupted" in out, errors
    assert "Traceback" not in errors
    assert moeopt.check(moeopt.load(file), moeopt.load_solution(tmp_path / "best.json")).objective


@pytest.mark.skipif(sys.platform == "win32", reason="a device that is full")
def test_what_cannot_be_saved_is_printed(tmp_path: Path, root: Path) -> None:
    """A folder that is a file, and a disk without room: one line, exit code 2, and the result."""
    file = str(next((root / "instances/balance").glob("prefill*/*.json")))
    (tmp_path / "file").write_text("")
    for target in ("/dev/full", str(tmp_path / "file" / "x.json")):
        done = subprocess.run(
            [sys.executable, "-m", "moeopt", "solve", file, "--out", target],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2, done
        assert done.stderr.startswith("moeopt: error: --out: "), done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert "objective" in done.stdout or "is not a folder" in done.stderr
