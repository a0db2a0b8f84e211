"""Compile every kernel before the tests begin, so that no test's time limit pays for it.

    python -m tests.compile_kernels [PART PARTS]

solves a few tiny instances of each problem with every method that has compiled parts. The tests'
controller runs it once per version of the sources, in as many processes as there are workers.
"""

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import moeopt
from moeopt.numeric.compiled import PACKAGE, kernels_stamp
from moeopt.problems.info import ROBUST
from moeopt.problems.registry import PROBLEMS, get_problem

SEEDS = 6
"""Instances of each problem: among six there are several windows, several layers and so on."""

RANDOM_INSTANCES = {
    "tri_domain": "random_instances",
    "deferral": "random_schedules",
}
"""Problem -> the module of its tests with `random_instance`, where it has another name."""


LONGEST_FIRST = sorted(PROBLEMS, key=["layout", "placement"].__contains__, reverse=True)


def solves(problems: list[str]) -> Iterator[tuple[Any, str]]:
    """Yield the instances and methods of some problems."""
    for problem in problems:
        module = RANDOM_INSTANCES.get(problem, f"{problem}_random_instances")
        name = f"tests.problems.{problem}.{module}"
        if find_spec(name) is None:  # a problem without compiled parts needs no such module
            continue
        module_of_tests = import_module(name)
        random_instance = module_of_tests.random_instance
        others = [make(0) for make in getattr(module_of_tests, "ALSO_COMPILED", ())]
        found = get_problem(problem)
        methods = [*found.part("heuristics").HEURISTICS, *found.info.exact_methods]
        methods += [ROBUST] * found.info.robust
        for method in methods:
            for seed in range(SEEDS):
                yield random_instance(seed), method
            for instance in others:
                yield instance, method


def compile_part(part: int, parts: int) -> None:
    """Run the methods of the `part`-th problem; the last part runs those of all that remain.

    Problem by problem, since two processes do not compile one kernel at once: one would wait.
    """
    last = len(PROBLEMS) if part == parts - 1 else part + 1
    for instance, method in solves(LONGEST_FIRST[part:last]):
        moeopt.solve(instance, method, time_limit_s=3600)


def compile_once(processes: int) -> None:
    """Compile in several processes, unless that was done for this version of the sources."""
    done = PACKAGE / "__pycache__" / f"kernels-{kernels_stamp()}"
    if done.exists():
        return
    commands = [
        [sys.executable, "-m", "tests.compile_kernels", str(part), str(processes)]
        for part in range(processes)
    ]
    running = [subprocess.Popen(command, cwd=PACKAGE.parent) for command in commands]
    if all(process.wait() == 0 for process in running):
        done.parent.mkdir(exist_ok=True)
        done.touch()


if __name__ == "__main__":
    compile_part(*map(int, sys.argv[1:] or ("0", "1")))
