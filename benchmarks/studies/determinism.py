"""Is an answer under a work limit the same on a busy machine: every method of every problem, twice.

Run: ``python benchmarks/studies/determinism.py [--work 0.5] [--busy 2] [PROBLEM ...]``. Each method
solves an instance of the library in a process that is free, and again beside busy loops. Printed is
a line for each method whose objective, bound, status or solution differ, then how many there were,
and CPU seconds per unit of work, which is what the constants of the methods are calibrated by.
"""

import argparse
import hashlib
import json
import multiprocessing
import subprocess
import sys
from pathlib import Path
from time import process_time
from typing import Any

import moeopt
from moeopt.problems.registry import PROBLEMS

LIBRARY = Path(__file__).parents[2] / "instances"


def spin() -> None:
    """Keep a core busy until the process is ended."""
    while True:
        pass


def instance_of(problem: str) -> Path:
    """Return a problem's instance of middle size."""
    files = [
        file
        for file in sorted((LIBRARY / problem).glob("*/*.json*"))
        if file.parent.name not in ("solutions", "certificates")
    ]
    return sorted(files, key=lambda file: file.stat().st_size)[len(files) // 2]


def answers(problem: str, work: float) -> dict[str, Any]:
    """Return what each method answers, and how long a unit of its work took."""
    instance, found = moeopt.load(instance_of(problem)), {}
    for method in moeopt.methods(problem):
        begin = process_time()
        try:
            result = moeopt.solve(instance, method, work_limit=work)
        except moeopt.InputError as error:  # too large for it
            found[method] = {"answer": [str(error)]}
            continue
        seconds = process_time() - begin
        solution = json.dumps(result.to_dict()["solution"], sort_keys=True)
        found[method] = {
            "answer": [
                *(result.status, result.objective, result.bound, result.termination),
                *(result.work, hashlib.sha256(solution.encode()).hexdigest()[:12]),
            ],
            "seconds": seconds,
            "work": result.work,
        }
    return found


def in_a_process(problem: str, work: float) -> dict[str, Any]:
    """Return the answers of a new process."""
    command = [sys.executable, __file__, "--answers", problem, "--work", str(work)]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(told.stdout.splitlines()[-1])
    return found


def main() -> int:
    """Compare, print, and exit 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="*")
    parser.add_argument("--work", type=float, default=0.5)
    parser.add_argument("--busy", type=int, default=2)
    parser.add_argument("--answers", help="print one problem's answers, and nothing else")
    options = parser.parse_args()
    if options.answers:
        print(json.dumps(answers(options.answers, options.work)))
        return 0
    differing = solves = 0
    for problem in options.problems or PROBLEMS:
        free = in_a_process(problem, options.work)
        loops = [multiprocessing.Process(target=spin, daemon=True) for _ in range(options.busy)]
        for loop in loops:
            loop.start()
        busy = in_a_process(problem, options.work)
        for loop in loops:
            loop.kill()
        for method, one in free.items():
            solves += 1
            if one["answer"] != busy[method]["answer"]:
                differing += 1
                print(f"{problem} {method}: {one['answer']} and {busy[method]['answer']}")
            elif one.get("work", 0.0) > options.work / 10:
                rate = one["seconds"] / one["work"]
                print(f"{problem} {method}: {rate:.2f} CPU s per unit, {one['work']:.2f} units")
    print(f"{solves} solves, {differing} differ")
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main())
