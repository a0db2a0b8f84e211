"""Time limits: does every method of every problem keep them, without a word on stderr.

Run: ``python benchmarks/studies/limits.py [--limits 0.3 2] [--all] [PROBLEM ...]``. Each method
solves the largest instance of its problem's library; each problem has a process of its own. Late is
who takes longer than the limit by more than 5 % and 0.2 s, three times in a row. Of the clock and
the CPU seconds of the process and those it started the less counts: others' work is not ours. What
goes on in a thread after the answer may do so for as long, too. Printed is a table of who was late,
goes on, or wrote on stderr (with ``--all`` of everybody), then how many solves there were; it exits
with 1 if anybody is in it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter
from typing import Any

import moeopt
from benchmarks.rooms.core import solving_clock
from benchmarks.rooms.problems import PROBLEMS
from benchmarks.rooms.study import instance_files

LIBRARY = Path(__file__).parents[2] / "instances"
SHARE, SECONDS = 0.05, 0.2
TRIES = 3
PATIENCE_S = 30.0
"""For how long the end of what goes on after an answer is awaited."""


def largest(problem: str) -> Path:
    """Return the largest instance of the library, by the bytes of its text."""
    return max(instance_files(LIBRARY / problem), key=_text_bytes)


def _text_bytes(file: Path) -> int:
    """Return the size of a file's text; a compressed one ends with it."""
    if file.suffix == ".gz":
        return int.from_bytes(file.read_bytes()[-4:], "little")
    return file.stat().st_size


def allowed_s(limit_s: float) -> float:
    """Return by how much a limit may be exceeded."""
    return max(SHARE * limit_s, SECONDS)


def tried(instance: Any, method: str, limit_s: float) -> tuple[float, float]:
    """Return by how much a method exceeds its limit, and how long it goes on after its answer.

    The least of a few times if it does.
    """
    late = after = float("inf")
    for _ in range(TRIES):
        wall, own = solving_clock().now(), _cpu_s()
        with suppress(moeopt.InputError):  # too large for it: refused at once
            moeopt.solve(instance, method, time_limit_s=limit_s)
        seconds = min(solving_clock().now() - wall, _cpu_s() - own)
        late, after = min(late, seconds - limit_s), min(after, _awaited_s())
        if late <= allowed_s(limit_s) and after <= allowed_s(limit_s):
            break
    return late, after


def _awaited_s() -> float:
    """Wait for the threads that are still there; return how long the last one took."""
    begin, own = perf_counter(), _cpu_s()
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(max(0.0, PATIENCE_S - (perf_counter() - begin)))
    return min(perf_counter() - begin, _cpu_s() - own)


def _cpu_s() -> float:
    """Return the CPU seconds of this process and of those it started that have ended."""
    return sum(os.times()[:4])


@contextmanager
def _stderr_kept() -> Iterator[list[str]]:
    """Give what is written on file descriptor 2, by whomever, once it is over."""
    words: list[str] = []
    before = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield words
        finally:
            os.dup2(before, 2)
            os.close(before)
            file.seek(0)
            words.append(file.read().decode(errors="replace").strip())


def rows(problem: str, limits: list[float]) -> Iterator[dict[str, Any]]:
    """Yield a row per method and limit."""
    path = largest(problem)
    instance = moeopt.load(path)
    for method in moeopt.methods(problem):
        with suppress(moeopt.InputError):
            moeopt.solve(instance, method, time_limit_s=0.01)  # modules and kernels are loaded now
        for limit_s in limits:
            with _stderr_kept() as words:
                late, after = tried(instance, method, limit_s)
            yield {
                "problem": problem,
                "method": method,
                "limit_s": limit_s,
                "late_s": late,
                "after_s": after,
                "stderr": words[0],
            }


def main() -> int:
    """Print the table; exit with 1 if a limit is not kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="*", metavar="PROBLEM")
    parser.add_argument("--limits", nargs="*", type=float, default=[0.3, 2.0])
    parser.add_argument("--all", action="store_true", help="print who keeps it, too")
    parser.add_argument("--rows", action="store_true", help="one problem's rows, as JSON")
    options = parser.parse_intermixed_args()
    if options.rows:
        for row in rows(options.problems[0], options.limits):
            print(json.dumps(row), flush=True)
        return 0
    solves = bad = 0
    print("| problem | method | limit s | over it by s | goes on for s | stderr |")
    print("|---|---|---:|---:|---:|---|")
    for problem in options.problems or PROBLEMS:
        limits = map(str, options.limits)
        command = [sys.executable, __file__, "--rows", problem, "--limits", *limits]
        told = subprocess.run(command, check=True, capture_output=True, text=True)
        for row in map(json.loads, told.stdout.splitlines()):
            most = allowed_s(row["limit_s"])
            wrong = max(row["late_s"], row["after_s"]) > most or bool(row["stderr"])
            solves, bad = solves + 1, bad + wrong
            if wrong or options.all:
                said = row["stderr"].splitlines()[-1][:60] if row["stderr"] else ""
                print(
                    f"| {problem} | {row['method']} | {row['limit_s']:g} | {row['late_s']:.2f} "
                    f"| {row['after_s']:.2f} | {said} |",
                    flush=True,
                )
        if told.stderr.strip():
            bad += 1
            print(f"| {problem} | at the end | | | | {told.stderr.splitlines()[-1][:60]} |")
    print(f"\n{solves} solves, {bad} late, going on or with words on stderr")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
