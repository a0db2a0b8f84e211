"""Every tool of the package on every open instance, so that the library's best is theirs.

    python -m benchmarks.studies.library_bests [PROBLEM ...] [--work 600] [--only TEXT] [--enter]

Solves each open instance with its own exact methods, ``cp-sat`` and ``milp``, each within a limit
of work, and looks for a certificate of a bound. A solution or a bound that is better than the one
on record is printed, and with ``--enter`` entered: solutions as `python -m instances.tools
check --write` does, bounds as `python -m instances.tools verify --write`. Exit status 1 if anything
better was found and not entered. Work is counted, so that a busy machine finds the same.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import moeopt
from benchmarks.rooms.certificates import best_certificate
from benchmarks.rooms.core import Objective, below
from benchmarks.rooms.problems import get_problem
from instances.tools.entries import (
    Entry,
    entries_of,
    instance_of,
    problem_folders,
    today,
    write_best,
)
from instances.tools.submissions import Certified, enter_bound
from moeopt import MoeoptError, save

LIBRARY = Path(__file__).parents[2] / "instances"
NODES = 4001
"""Most nodes of a certificate's tree."""


def open_entries(library: Path, problems: list[str], only: str = "") -> list[Entry]:
    """Return the open instances, those with the smallest files first."""
    found = [
        entry
        for folder in problem_folders(library)
        if folder.name in (problems or [folder.name])
        for entry in entries_of(folder)
        if entry.fields["status"] != "optimal" and only in entry.key
    ]
    return sorted(found, key=lambda entry: (entry.folder / entry.key).stat().st_size)


def tools(problem: str) -> list[str]:
    """Return the exact methods that are worth a limit of work."""
    return [*(one.name for one in get_problem(problem).exact), "cp-sat", "milp"]


def better(entry: Entry, work: float, enter: bool) -> Iterator[str]:
    """Yield a line for each tool that has more than is on record; enter it."""
    instance = instance_of(entry)
    best, bound, fields = entry.objective, entry.bound, dict(entry.fields)
    for name in dict.fromkeys(tools(entry.problem)):
        try:
            result = moeopt.solve(instance, name, work_limit=work)
        except MoeoptError as error:
            print(f"{entry.problem}/{entry.key}: {name}: {str(error)[:100]}", file=sys.stderr)
            continue
        if result.objective is not None and below(result.objective, best):
            yield f"{name}: solution {result.objective} for {best}"
            best = result.objective
            fields |= {"objective": best, "method": name, "date": today()}
            if enter and result.solution is not None:
                save(result.solution, entry.folder / entry.fields["solution"])
        if result.proof != "single" and _raises(result.bound, bound) and result.bound is not None:
            yield f"{name}: bound {result.bound} for {bound}"
            bound = result.bound
            fields |= {"bound": bound, "date": today()}
            fields.pop("certificate", None)
    if bound == best:
        fields["status"] = "optimal"
    if enter and fields != dict(entry.fields):
        write_best(entry.folder, entry.key, fields)
    yield from _certified(entry, best, bound, work, enter)


def _certified(
    entry: Entry, best: Objective, bound: Objective | None, work: float, enter: bool
) -> Iterator[str]:
    """Yield a line if a certificate proves more than is on record; enter it."""
    instance = instance_of(entry)
    packing = get_problem(entry.problem).packing(instance)
    try:
        found = best_certificate(instance, packing.pack(best), work, NODES)
    except MoeoptError as error:
        print(f"{entry.problem}/{entry.key}: certify: {str(error)[:100]}", file=sys.stderr)
        return
    proven = packing.unpack(found["bound"])
    if _raises(proven, bound):
        yield f"certify: bound {proven} for {bound}"
        if enter:
            now = {one.key: one for one in entries_of(entry.folder)}[entry.key]
            enter_bound(Certified(now, found, proven), None)


def _raises(bound: Objective | None, known: Objective | None) -> bool:
    return bound is not None and (known is None or below(known, bound))


def main() -> int:
    """Print what is better than the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*")
    parser.add_argument("--work", type=float, default=600.0, help="limit of work of each solve")
    parser.add_argument("--only", default="", help="instances whose file has this in its name")
    parser.add_argument("--enter", action="store_true")
    given = parser.parse_args()
    lines = 0
    for entry in open_entries(LIBRARY, given.problems, given.only):
        for line in better(entry, given.work, given.enter):
            print(f"{entry.problem}/{entry.key}: {line}", flush=True)
            lines += 1
    print(f"{lines} better than the record")
    return int(bool(lines) and not given.enter)


if __name__ == "__main__":
    sys.exit(main())
