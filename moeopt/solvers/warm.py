"""Compile every kernel beforehand: for servers, images and CI, where no caller is to wait for it.

Each problem with kernels has a file ``warm.json``: a list of tiny instances. Solving them with
every method compiles whatever those methods have compiled, for the types that they call it with.
"""

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any

from moeopt.core import compiled
from moeopt.core.compiled import PACKAGE, kernel_folder
from moeopt.core.envelope import InstanceEnvelope
from moeopt.core.errors import InputError
from moeopt.problems.registry import PROBLEMS, AnyProblem, get_problem
from moeopt.solvers import arguments
from moeopt.solvers.run import solve

llvm: Any = import_module("llvmlite.binding")  # untyped

WORK = 1.0
"""Units of work of a solve, enough to come to its last kernel; compiling counts for nothing."""

OTHERS = "others"
"""What kernels are called together that no problem's methods call."""


@dataclass(frozen=True)
class Warmed:
    """What became of it.

    Attributes
    ----------
    compiled
        Kernels that were not in the cache yet, each once per combination of types.
    seconds
        Wall time of all.
    folder
        Where they are kept.
    """

    compiled: int
    seconds: float
    folder: Path


def warm(
    jobs: int | None = None,
    *,
    on_progress: Callable[[str, int, int, int], None] | None = None,
) -> Warmed:
    """Compile all kernels that are not in the cache yet.

    Parameters
    ----------
    jobs
        Processes; by default as many as there are processors.
    on_progress
        Called with a problem whose kernels are ready (or `OTHERS`), how many of them were
        compiled, how many problems are ready, and of how many.

    Returns
    -------
    Warmed
        Nothing compiled in a few milliseconds if it was done before, for the same sources, versions
        and processor, and no file has changed since. Broken files are replaced.

    Raises
    ------
    InputError
        If no folder can be written to; the message names the variable that gives one.
    """
    count = os.cpu_count() or 1 if jobs is None else arguments.integer("jobs", jobs, 1, 1024)
    begin = perf_counter()
    if not kernel_folder():
        raise InputError(
            "no folder for kernels can be written to; set MOEOPT_CACHE_DIR", field="warm"
        )
    folder = Path(kernel_folder())
    mark = folder / f"warm-{llvm.get_host_cpu_name()}"
    if mark.exists() and mark.read_text() == _sizes(folder):
        return Warmed(0, perf_counter() - begin, folder)
    total = 0
    problems = [*sorted(filter(warm_file, PROBLEMS), key=_kernels, reverse=True), OTHERS]
    for number, (problem, compiled_here) in enumerate(_each(problems, count), 1):
        total += compiled_here
        if on_progress:
            on_progress(problem, compiled_here, number, len(problems))
    mark.write_text(_sizes(folder))
    return Warmed(total, perf_counter() - begin, folder)


def _sizes(folder: Path) -> str:
    """Return names and sizes of a folder's kernels: one that was cut short is noticed."""
    files = sorted([*folder.rglob("*.nbi"), *folder.rglob("*.nbc")])
    return "".join(f"{path.relative_to(folder)} {path.stat().st_size}\n" for path in files)


def _kernels(problem: str) -> int:
    """Return how many kernels a problem's modules have: those with most begin first."""
    modules = (PACKAGE / "problems" / problem).rglob("*.py")
    texts = [path.read_text(encoding="utf-8") for path in modules]
    return sum(text.count(f"\n@{how}") for text in texts for how in ("compiled", "short", "inner"))


def _each(problems: list[str], jobs: int) -> Iterator[tuple[str, int]]:
    """Yield each problem when it is ready, and how many of its kernels were compiled."""
    if jobs == 1:
        yield from ((problem, compile_problem(problem)) for problem in problems)
        return
    with ProcessPoolExecutor(min(jobs, len(problems)), get_context("spawn")) as pool:
        running = {pool.submit(compile_problem, problem): problem for problem in problems}
        for ended in as_completed(running):
            yield running[ended], ended.result()


def warm_file(problem: str) -> Path | None:
    """Return the file with a problem's instances; None if it has no kernels."""
    file = PACKAGE / "problems" / problem / "warm.json"
    return file if file.is_file() else None


def compile_problem(problem: str) -> int:
    """Solve a problem's instances with all methods; return how many kernels were compiled."""
    compiled.compile_all()
    before = _misses()
    if problem == OTHERS:
        _call_others()
    else:
        for instance in warm_instances(problem):
            solve_with_all(instance, get_problem(problem))
    return _misses() - before


def warm_instances(problem: str) -> list[Any]:
    """Return a problem's instances for warming; none if it has no kernels."""
    file = warm_file(problem)
    model = get_problem(problem).Instance()
    texts = [] if file is None else json.loads(file.read_text(encoding="utf-8"))
    return [model.model_validate(data) for data in texts]


def _call_others() -> None:
    """Call the kernels that no method calls: of schedulers and caches."""
    for home in PROBLEMS.values():
        home.compile_others()


def solve_with_all(instance: InstanceEnvelope, home: AnyProblem) -> None:
    """Solve an instance with every method of its problem that may have kernels; bound it, too."""
    home.bound(instance)
    heuristics, exact = ([one.name for one in of] for of in (home.heuristics, home.exact))
    for method in (*heuristics, *exact):
        solve(instance, method, work_limit=WORK, verify=False)  # verifying calls no kernel


def _misses() -> int:
    return sum(sum(kernel.dispatcher.stats.cache_misses.values()) for kernel in compiled.KERNELS)
