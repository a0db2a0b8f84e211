"""Results of the whole library: every heuristic and the own exact method, kept and compared.

    python benchmarks/studies/library_results.py --work 2 [--problems layout,cache] [--jobs 1]
                                                 [--every 1] [--out benchmarks/results/baseline]
    python benchmarks/studies/library_results.py --compare BEFORE AFTER [--reasons FILE.toml]

The first form solves every instance within a limit of work, so that two runs of one version agree
on every machine, and writes a folder: one ``PROBLEM.csv`` for each problem, with a row for each
instance and method (status, proof, objective, bound, work, CPU seconds), and ``about.json`` with
commit, versions, limit, CPU seconds and the SHA-256 of each instance.

The second form compares two folders. These are faults: an instance whose file has changed, a row
that only one of them has, a heuristic's objective that has changed, a proof that is lost or weaker,
and an objective or bound that is worse. ``--reasons`` names what was expected to change, and why::

    [[expected]]
    rows = "layout/windows/*"       # a pattern of files
    method = "local-search"         # a pattern of methods
    reason = "its engine is the new annealing"

A reason that no fault needs is a fault as well: it would hide the next one. What has become better
is listed apart. Exit status 1 if there is any fault without a reason.
"""

import argparse
import csv
import hashlib
import json
import platform
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import moeopt
from benchmarks.rooms.problems import PROBLEMS, get_problem

ROOT = Path(__file__).parents[2] / "instances"
PROOFS = ("", "single", "confirmed", "own", "certificate")
"""From the weakest to the strongest."""
PROVEN = ("optimal", "infeasible")
LIBRARIES = ("ortools", "numpy", "scipy", "numba")

Value = tuple[int, ...]


class Row(NamedTuple):
    """Result of one method on one instance; values are empty where they are unknown."""

    file: str
    method: str
    status: str
    proof: str
    objective: Value
    bound: Value
    work: float
    cpu_s: float

    @property
    def key(self) -> tuple[str, str]:
        """What identifies the row in every run."""
        return self.file, self.method

    def cells(self) -> list[str]:
        """Return the row as text."""
        values = (" ".join(map(str, of)) for of in (self.objective, self.bound))
        return [*self[:4], *values, f"{self.work:.6g}", f"{self.cpu_s:.3f}"]

    @classmethod
    def read(cls, cells: dict[str, str]) -> "Row":
        """Return the row that text holds."""
        values = {of: tuple(map(int, cells[of].split())) for of in ("objective", "bound")}
        numbers = {of: float(cells[of]) for of in ("work", "cpu_s")}
        return cls(**{**cells, **values, **numbers})  # type: ignore[arg-type]


@dataclass(frozen=True)
class Results:
    """One run: its rows by file and method, the hash of each instance, and the limit of work."""

    rows: dict[tuple[str, str], Row]
    instances: dict[str, str]
    work_limit: float = 2.0

    @classmethod
    def read(cls, folder: Path) -> "Results":
        """Return what a folder holds.

        Raises
        ------
        moeopt.InputError
            If it holds no whole run.
        """
        if not (folder / "about.json").is_file() or not [*folder.glob("*.csv")]:
            raise moeopt.InputError(f"{folder}: holds no whole run: about.json and PROBLEM.csv")
        rows: dict[tuple[str, str], Row] = {}
        for path in sorted(folder.glob("*.csv")):
            with path.open(newline="") as file:
                rows |= {row.key: row for row in map(Row.read, csv.DictReader(file))}
        about = json.loads((folder / "about.json").read_text())
        return cls(rows, about["instances"], about["work_limit"])


class Fault(NamedTuple):
    """Difference between two runs that is not allowed without a reason."""

    file: str
    method: str
    what: str

    def __str__(self) -> str:
        return f"{self.file} {self.method}: {self.what}"


# Make.


def _value(objective: Any) -> Value:
    if objective is None:
        return ()
    return tuple(objective) if isinstance(objective, tuple | list) else (int(objective),)


def solved(file: str, work: float) -> list[Row]:
    """Return the rows of one instance: every heuristic and the own exact method."""
    problem = get_problem(file.split("/")[0])
    instance = moeopt.load(ROOT / file)
    rows = []
    for method in (*problem.functions(), problem.exact[0].name):
        begin = time.process_time()
        try:
            result = moeopt.solve(instance, method, work_limit=work)
        except moeopt.InputError:
            rows.append(Row(file, method, "refused", "", (), (), 0.0, 0.0))
            continue
        said = (result.status, result.proof or "", _value(result.objective), _value(result.bound))
        spent = time.process_time() - begin
        rows.append(Row(file, method, *said, result.work or 0.0, spent))
    return rows


def files(problems: Sequence[str], every: int = 1) -> list[str]:
    """Return the instances of some problems, from the folder that holds the problems' folders."""
    found = []
    for problem in problems:
        best = json.loads((ROOT / problem / "best_known.json").read_text())
        found += [f"{problem}/{file}" for file in sorted(best)[::every]]
    return found


def write(folder: Path, names: Sequence[str], work: float, jobs: int) -> None:
    """Solve the instances and write the folder, a problem's file when its last row is there."""
    folder.mkdir(parents=True, exist_ok=True)
    seconds = {}
    with ProcessPoolExecutor(jobs) as pool:
        made = pool.map(partial(solved, work=work), names)
        rows: Iterable[Row] = (row for some in made for row in some)
        for problem, its in groupby(rows, key=lambda row: row.file.split("/")[0]):
            seconds[problem] = 0.0
            with (folder / f"{problem}.csv").open("w", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(Row._fields)
                for row in its:
                    writer.writerow(row.cells())
                    seconds[problem] += row.cpu_s
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    about = {
        "commit": commit.stdout.strip(),
        "work_limit": work,
        "jobs": jobs,
        "versions": {"python": platform.python_version(), **{of: version(of) for of in LIBRARIES}},
        "cpu_s": {problem: round(its) for problem, its in seconds.items()},
        "instances": {
            name: hashlib.sha256((ROOT / name).read_bytes()).hexdigest() for name in names
        },
    }
    (folder / "about.json").write_text(json.dumps(about, indent=1) + "\n")


# Compare.


def _changed(was: Row, now: Row) -> Iterator[str]:
    """Yield what is worse than it was, or other than it was where nothing may differ."""
    states = f"{was.status} -> {now.status}"
    objectives = f"objective {was.objective} -> {now.objective}"
    if "refused" in (was.status, now.status) and was.status != now.status:
        yield states
    elif was.status in PROVEN and now.status not in PROVEN:
        yield f"lost proof, {states}"
    elif was.status in PROVEN and (was.status, was.objective) != (now.status, now.objective):
        yield f"proofs contradict each other, {states}, {objectives}"
    elif PROOFS.index(now.proof) < PROOFS.index(was.proof):
        yield f"weaker proof, {was.proof} -> {now.proof or 'none'}"
    if was.method in get_problem(was.file.split("/")[0]).functions():
        if was.objective != now.objective:
            yield f"heuristic's {objectives}"
    elif was.status not in PROVEN and was.objective and not () < now.objective <= was.objective:
        yield f"worse {objectives}"
    if was.bound and now.bound < was.bound:
        yield f"worse bound {was.bound} -> {now.bound}"


def _better(was: Row, now: Row) -> bool:
    known = (now.objective or (sys.maxsize,)) < (was.objective or (sys.maxsize,))
    proven = now.status in PROVEN and was.status not in PROVEN
    stronger = PROOFS.index(now.proof) > PROOFS.index(was.proof)
    return known or proven or now.bound > was.bound or stronger


def faults(before: Results, after: Results) -> list[Fault]:
    """Return every difference that needs a reason."""
    found = []
    for file in sorted(before.instances.keys() | after.instances.keys()):
        was, now = before.instances.get(file), after.instances.get(file)
        if was is not None and now is not None and was != now:
            found.append(Fault(file, "", "the instance's file has changed"))
    for key in sorted(before.rows.keys() | after.rows.keys()):
        if key not in after.rows:
            found.append(Fault(*key, "row only before"))
        elif key not in before.rows:
            found.append(Fault(*key, "row only after"))
        else:
            changed = _changed(before.rows[key], after.rows[key])
            found += [Fault(*key, what) for what in changed]
    return found


def compare(before: Results, after: Results, expected: Sequence[dict[str, str]] = ()) -> int:
    """Print the differences of two runs; return the number of faults without a reason.

    Raises
    ------
    moeopt.InputError
        If the runs had different limits: every search would differ.
    """
    if before.work_limit != after.work_limit:
        limits = f"{before.work_limit:g} and {after.work_limit:g} units of work"
        raise moeopt.InputError(f"the runs had different limits: {limits}")
    used: Counter[int] = Counter()
    left = []
    for fault in faults(before, after):
        reasons = (
            number
            for number, one in enumerate(expected)
            if fnmatch(fault.file, one["rows"]) and fnmatch(fault.method, one.get("method", "*"))
        )
        number = next(reasons, None)
        if number is None:
            left.append(str(fault))
        else:
            used[number] += 1
    both = sorted(before.rows.keys() & after.rows.keys())
    better = [key for key in both if _better(before.rows[key], after.rows[key])]
    seconds = [sum(of.rows[key].cpu_s for key in both) for of in (before, after)]
    print(f"{len(both)} rows in both; CPU s {seconds[0]:.0f} -> {seconds[1]:.0f}")
    for number, one in enumerate(expected):
        if used[number]:
            what = f"{one['rows']} {one.get('method', '*')}: {one['reason']}"
            print(f"{used[number]} differences with a reason: {what}")
        else:
            left.append(f"a reason that nothing needs: {one['rows']}: {one['reason']}")
    print(f"{len(better)} better")
    for key in better:
        (was, now) = (of.rows[key].cells()[2:6] for of in (before, after))
        print(f"  {key[0]} {key[1]}: {', '.join(was)} -> {', '.join(now)}")
    print(f"{len(left)} faults", *left, sep="\n  ")
    return len(left)


def main() -> int:
    """Make or compare results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="the folder to write")
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--work", type=float, default=2.0, help="units of work of each solve")
    parser.add_argument("--every", type=int, default=1, help="each n-th instance only")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("BEFORE", "AFTER"))
    parser.add_argument("--reasons", type=Path, help="what was expected to change, and why")
    given = parser.parse_args()
    try:
        return run(given)
    except moeopt.InputError as error:
        parser.error(str(error))


def run(given: argparse.Namespace) -> int:
    """Make or compare results as the command line says."""
    if given.compare:
        text = given.reasons.read_text() if given.reasons else ""
        expected = tomllib.loads(text).get("expected", [])
        before, after = map(Results.read, given.compare)
        return int(compare(before, after, expected) > 0)
    if given.out is None:
        raise moeopt.InputError("--out: a folder to write is needed")
    problems = given.problems.split(",")
    for problem in problems:
        get_problem(problem)
    write(given.out, files(problems, given.every), given.work, given.jobs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
