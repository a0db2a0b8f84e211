"""The same answer on every machine, busy or not: methods, plans, the study and the library.

Run one of::

    python benchmarks/studies/determinism.py methods [--work 0.5] [PROBLEM ...]
    python benchmarks/studies/determinism.py rates [--work 1]
    python benchmarks/studies/determinism.py plans [--times 1]
    python benchmarks/studies/determinism.py study [--work 0.3] [--smallest 1] [--families 3]
    python benchmarks/studies/determinism.py library [--traces DIR]

``methods``: every method of every problem on an instance of middle size under a work limit.
``plans``: the pages of `moeopt plan` of twelve machines and models. ``study``: the tables of
`moeopt gap` with every method on the smallest instances of every family, or of some. ``library``:
``instances/build.py remade``. Each runs as the machine is; with `NPY_DISABLE_CPU_FEATURES=X86_V3`;
with `OPENBLAS_NUM_THREADS=2 PYTHONHASHSEED=1`; and (not ``library``) beside busy loops. Printed is
what differs, and how many there were; the exit code is 1 if anything differs. ``rates``: CPU
seconds per unit of work, by which the methods' constants are set.
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import moeopt
from benchmarks.rooms.problems import PROBLEMS
from benchmarks.rooms.solvers import end_all
from benchmarks.rooms.study import instance_files

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "instances"

SETTINGS: dict[str, dict[str, str]] = {
    "as it is": {},
    "other SIMD": {"NPY_DISABLE_CPU_FEATURES": "X86_V3"},
    "other threads and hashes": {"OPENBLAS_NUM_THREADS": "2", "PYTHONHASHSEED": "1"},
    "busy": {},
}
"""Where the same is asked for again -> environment."""

MODELS_OF = {
    "rtx4090-7960x": ["mixtral-8x7b", "deepseek-v2-lite", "qwen3-30b-a3b"],
    "a6000+threadripper-pro": ["qwen3-235b-a22b", "glm-4.5-air", "mixtral-8x22b"],
    "rtx4090+ryzen-am5": ["gpt-oss-120b", "phi-3.5-moe", "qwen3-next-80b-a3b"],
    "ktransformers-a100": ["deepseek-v2", "qwen2-57b-a14b", "deepseek-v3"],
}
"""Machine -> models of the twelve plans."""

LITTLE = 0.01
"""Units of work within which methods do little: what they take then is not their work."""

PLAN = ["--context", "4096", "--steps", "20", "--work-limit", "0.5"]


def spin() -> None:
    """Keep a core busy until the process is ended."""
    while True:
        pass


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Run so many busy loops meanwhile."""
    processes = [multiprocessing.Process(target=spin, daemon=True) for _ in range(loops)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()


def run(command: list[str], setting: str, loops: int) -> str:
    """Return what a command prints in a setting, with its exit code where that is not 0."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | SETTINGS[setting]
    with busy(loops if setting == "busy" else 0):
        told = subprocess.run(
            [sys.executable, *command], capture_output=True, text=True, env=environment
        )
    ended = "" if told.returncode == 0 else f"exit {told.returncode}: {told.stderr}"
    return told.stdout + ended


def middle(problem: str) -> Path:
    """Return a problem's instance of middle size."""
    files = instance_files(LIBRARY / problem)
    return sorted(files, key=lambda file: (file.stat().st_size, file.name))[len(files) // 2]


def timed(instance: Any, method: str, work: float) -> tuple[float, Any]:
    """Return the CPU seconds of a solve, and its result."""
    end_all()
    begin = sum(os.times()[:4])
    result = moeopt.solve(instance, method, work_limit=work)
    end_all()  # what a process of its own took counts once it has ended
    return sum(os.times()[:4]) - begin, result


def answers(path: Path, work: float) -> Iterator[dict[str, Any]]:
    """Yield what each method answers, and how long a unit of its work took."""
    instance = moeopt.load(path)
    for method in moeopt.methods(instance.problem):
        try:
            moeopt.solve(instance, method, work_limit=LITTLE)  # kernels and modules are loaded now
            least, _ = timed(instance, method, LITTLE)
            seconds, result = timed(instance, method, work)
        except moeopt.InputError as error:  # too large for it
            yield {"method": method, "answer": str(error)}
            continue
        solution = json.dumps(result.to_dict()["solution"], sort_keys=True)
        yield {
            "method": method,
            "answer": [
                *(result.status, result.objective, result.bound, result.proof, result.termination),
                *(result.work, hashlib.sha256(solution.encode()).hexdigest()[:12]),
            ],
            "seconds": seconds - least,
            "work": result.work,
        }


def methods(problems: list[str], work: float, loops: int) -> int:
    """Print methods that answer otherwise in some setting; return how many."""
    solves = differing = 0
    for problem in problems or PROBLEMS:
        command = [__file__, "answers", str(middle(problem)), "--work", str(work)]
        told = {name: run(command, name, loops).splitlines() for name in SETTINGS}
        first = told.pop("as it is")
        solves += len(first)
        for line, *others in zip(first, *told.values(), strict=True):
            one = json.loads(line)
            for setting, other in zip(told, map(json.loads, others), strict=True):
                if one["answer"] != other["answer"]:
                    differing += 1
                    print(
                        f"{problem} {one['method']}, {setting}: {one['answer']}, {other['answer']}"
                    )
    print(f"{solves} solves in {len(SETTINGS)} settings, {differing} differ")
    return differing


def rates(problems: list[str], work: float) -> int:
    """Print CPU seconds per unit of work by method, on an instance of middle size each."""
    print("| problem | method | units | CPU s per unit |", "|---|---|---:|---:|", sep="\n")
    for problem in problems or PROBLEMS:
        command = [__file__, "answers", str(middle(problem)), "--work", str(work)]
        for one in map(json.loads, run(command, "as it is", 0).splitlines()):
            if (units := one.get("work", 0.0) - LITTLE) > work / 4:
                rate = one["seconds"] / units
                print(f"| `{problem}` | `{one['method']}` | {units:.2f} | {rate:.2f} |", flush=True)
    return 0


def plans(times: int, loops: int) -> int:
    """Print plans whose page differs; return how many."""
    differing = count = 0
    for machine, models in MODELS_OF.items():
        for model in models:
            command = ["-m", "moeopt", "plan", "--machine", machine, "--model", model, *PLAN]
            pages = {
                (setting, number): run(command, setting, loops)
                for setting in SETTINGS
                for number in range(1 if setting == "as it is" else times)
            }
            count += 1
            first = pages[("as it is", 0)]
            other = sorted({setting for (setting, _), page in pages.items() if page != first})
            differing += bool(other)
            said = ", ".join(other) if other else "the same page"
            tokens = next((line for line in first.splitlines() if "tokens/s" in line), first[:80])
            print(f"{machine}, {model}: {said}: {tokens.strip()}", flush=True)
    print(f"{count} plans in {len(SETTINGS)} settings, {differing} differ")
    return differing


def study(work: float, most: tuple[int, int], loops: int) -> int:
    """Run `moeopt gap` on a fixed part of the library in every setting; return how many differ."""
    with tempfile.TemporaryDirectory() as scratch:
        part = Path(scratch) / "instances"
        count = 0
        for problem in PROBLEMS:
            families: dict[str, list[Path]] = {}
            for file in instance_files(LIBRARY / problem):
                families.setdefault(file.parent.name, []).append(file)
            for family, files in sorted(families.items())[: most[1]]:
                for file in sorted(files, key=lambda f: (f.stat().st_size, f.name))[: most[0]]:
                    (part / problem / family).mkdir(parents=True, exist_ok=True)
                    shutil.copy(file, part / problem / family)
                    count += 1
        command = ["-m", "moeopt", "gap", str(part), "--work-limit", str(work), "--markdown"]
        command.append("--prove-again")
        tables = {}
        for setting in SETTINGS:
            begin = datetime.now(tz=UTC)
            tables[setting] = run(command, setting, loops)
            took = (datetime.now(tz=UTC) - begin).total_seconds()
            digest = hashlib.sha256(tables[setting].encode()).hexdigest()[:12]
            print(f"{setting}: {count} instances, {took:.0f} s, {digest}", flush=True)
        differing = [name for name, table in tables.items() if table != tables["as it is"]]
    print(f"{len(SETTINGS)} settings, {len(differing)} differ", *differing)
    return len(differing)


def library(traces: Path | None) -> int:
    """Remake the library in every setting but the busy one; return how many differ."""
    differing = 0
    for setting in SETTINGS.keys() - {"busy"}:
        command = [str(LIBRARY / "build.py"), "remade"]
        told = run([*command, *(["--traces", str(traces)] if traces else [])], setting, 0)
        print(f"-- {setting}\n{told}", flush=True)
        differing += "exit " in told
    return differing


def main() -> int:
    """Run one of the comparisons."""
    parser = argparse.ArgumentParser(description=__doc__)
    what = ["methods", "rates", "plans", "study", "library", "answers"]
    parser.add_argument("what", choices=what)
    parser.add_argument("problems", nargs="*", metavar="PROBLEM")
    parser.add_argument("--work", type=float, default=0.3, help="units for each solve")
    parser.add_argument("--busy", type=int, default=8, help="busy loops")
    parser.add_argument("--times", type=int, default=1, help="plans of each in a setting")
    parser.add_argument("--smallest", type=int, default=1, help="instances of each family")
    parser.add_argument("--families", type=int, default=1000, help="families of each problem")
    parser.add_argument("--settings", nargs="*", choices=SETTINGS, default=[*SETTINGS])
    parser.add_argument("--traces", type=Path, help="folder with the library's routing traces")
    options = parser.parse_intermixed_args()
    for setting in {*SETTINGS} - {*options.settings, "as it is"}:
        del SETTINGS[setting]
    if options.what == "answers":
        for row in answers(Path(options.problems[0]), options.work):
            print(json.dumps(row))
        return 0
    if options.what == "rates":
        return rates(options.problems, options.work)
    if options.what == "methods":
        return int(methods(options.problems, options.work, options.busy) > 0)
    if options.what == "plans":
        return int(plans(options.times, options.busy) > 0)
    if options.what == "study":
        return int(study(options.work, (options.smallest, options.families), options.busy) > 0)
    return int(library(options.traces) > 0)


if __name__ == "__main__":
    sys.exit(main())
