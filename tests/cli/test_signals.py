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
from tests.rooms.problems import PROBLEMS

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
    "anneal-and-refute": "replication/esft-moves/esft-law-moves4.json",
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
        pytest.param("cp-sat", "SIGINT", 3, marks=pytest.mark.slow),  # while it solves
        ("cp-sat", "SIGHUP", 3),
        pytest.param("anneal-and-refute", "SIGINT", 1, marks=pytest.mark.slow),
        ("anneal-and-refute", "SIGTERM", 2),
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


LAYOUTS = "layout/windows"

PLAN = ("plan", "--machine", "7xrtx3090+epyc-7002", "--model", "qwen3-235b-a22b")

TAKES_LONG = {
    "gap": ("gap", LAYOUTS, "--methods", "auto", "--time-limit", "600"),
    "plan": (*PLAN, "--context", "32k", "--time-limit", "600"),
    "explain": ("explain", f"{LAYOUTS}/deepseek-v2-batch256-windows8.json"),
    "sensitivity": ("sensitivity", "layout/own-esft", "--methods", "trimoe", "--work-limit", "90"),
}
"""Command lines that take seconds at least, in the folder of the library."""


def told_after(seconds: float, name: str, folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Start a command, signal it after so long, and return its exit code and what it wrote.

    The time counts from where the command line begins: Python itself dies at a signal before.
    """
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", PLAIN, str(writing), *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": ROOT},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=(writing,),
    )
    os.close(writing)
    with os.fdopen(reading, "rb") as begun:
        begun.read(1)
    try:
        out, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.Signals[name])
        out, errors = process.communicate(timeout=LONG_S)
    return process.returncode, out, errors


PLAIN = f"""
import importlib, os, signal, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
main = importlib.import_module("{main.__module__}").main
pipe = int(sys.argv[1])
os.write(pipe, b".")
os.close(pipe)
main(sys.argv[2:])
"""
"""A command line that ignores no signal, as a job in the background of a shell does."""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("command", "name"),
    [
        *(("gap", "SIGINT"), ("plan", "SIGTERM")),
        *(
            pytest.param(*one, marks=pytest.mark.slow)
            for one in (("gap", "SIGTERM"), ("plan", "SIGINT"))
        ),
    ],
)
def test_other_commands_end_in_order(command: str, name: str, root: Path) -> None:
    """No traceback and no abort: the exit code is the signal's, or the command was done before."""
    code, out, errors = told_after(1.5, name, root / "instances", *TAKES_LONG[command])
    assert code in (0, 128 + signal.Signals[name]), errors
    assert "Traceback" not in errors
    if code == 0 or command == "gap":
        assert out or "interrupted" in errors, errors


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("command", [*TAKES_LONG, *PROBLEMS])
def test_every_command_ends_in_order_at_any_moment(
    command: str, name: str, root: Path, tmp_path: Path
) -> None:
    """Ten moments: what is saved is a solution that the checker takes."""
    library, number = root / "instances", signal.Signals[name]
    for moment in range(10):
        best = tmp_path / f"{moment}.json"
        given = TAKES_LONG.get(command)
        if given is None:
            files = (library / command).glob("*/*.json*")
            file = max(files, key=lambda path: path.stat().st_size)
            given = ("solve", str(file), "--time-limit", "600", "--out", str(best))
        code, out, errors = told_after(0.3 + 0.6 * moment, name, library, *given)
        late = code == -number and out  # Python was on its way out already
        assert late or code in (0, 4, 128 + number), (moment, code, errors)
        assert "Traceback" not in errors, (moment, errors)
        if best.exists():
            assert moeopt.check(moeopt.load(file), moeopt.load_solution(best)).valid, moment
        elif command in PROBLEMS:
            assert late or code == 128 + number, (moment, code, out, errors)


LOST = """
import os, signal, threading, time, weakref
from tests.rooms.cli import main

class Thing:
    pass

def run(argv):
    thing = Thing()
    watched = weakref.ref(thing, lambda _: time.sleep(60))
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
    del thing
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        print("heard")
        return 130

main([], run)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_signal_is_heard_where_python_drops_exceptions() -> None:
    """In a weak reference's callback, as native code has them: the signal is sent once more."""
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stdout, done.stderr) == (143, "heard\n", "")
