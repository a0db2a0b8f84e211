"""Solve the whole library with every heuristic and own exact method, and compare two versions.

    python benchmarks/studies/library_results.py --out after.jsonl [--problems layout,cache]
    python benchmarks/studies/library_results.py --work 2 --exact --out after.jsonl
    python benchmarks/studies/library_results.py --compare before.jsonl after.jsonl

After a refactoring the two files must agree: a proven optimum, an infeasible instance and a
heuristic's objective may not change at all. What was open before is listed apart, with both
brackets, since what a search finds within its time depends on the machine; with ``--work`` it does
not. ``--exact`` leaves the heuristics out. A file has one line per instance and method: [file,
method, status, objective, bound, seconds].
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import moeopt
from benchmarks.rooms.problems import PROBLEMS, get_problem

ROOT = Path(__file__).parents[2] / "instances"
PROVEN_LIMIT_S, OPEN_LIMIT_S = 30.0, 3.0


def results(problems: list[str], work: float | None, exact: bool) -> Iterator[list[Any]]:
    """Yield a row for every instance and method; ``exact``: for the problem's own exact one."""
    for problem in problems:
        found = get_problem(problem)
        own = next(iter(found.exact_methods))
        best = json.loads((ROOT / problem / "best_known.json").read_text())
        for file, entry in sorted(best.items()):
            instance = moeopt.load(ROOT / problem / file)
            limit_s = PROVEN_LIMIT_S if entry["status"] == "optimal" else OPEN_LIMIT_S
            for method in (own,) if exact else (*found.heuristics.HEURISTICS, own):
                begin = time.process_time()
                limits = {"time_limit_s": limit_s} if work is None else {"work_limit": work}
                result = moeopt.solve(instance, method, **limits)
                seconds = round(time.process_time() - begin, 3)
                yield [
                    f"{problem}/{file}",
                    method,
                    result.status,
                    result.objective,
                    result.bound,
                    seconds,
                ]


def read(path: Path) -> dict[tuple[str, str], list[Any]]:
    """Return the rows of a file by instance and method."""
    rows = map(json.loads, path.read_text().splitlines())
    return {(file, method): rest for file, method, *rest in rows}


def compare(before: Path, after: Path) -> int:
    """Print what differs; return the number of differences that no time limit explains."""
    old, new = read(before), read(after)
    both = sorted(old.keys() & new.keys())
    differences, brackets = [], []
    for key in both:
        (was, *was_values, _), (now, *now_values, _) = old[key], new[key]
        if (was, was_values) == (now, now_values):
            continue
        searched = was_values[1] is not None or now_values[1] is not None
        open_search = searched and was == "feasible" and now in ("feasible", "optimal")
        line = f"{key[0]} {key[1]}: {was} {was_values} -> {now} {now_values}"
        (brackets if open_search else differences).append(line)
    print(f"{len(both)} results in both; only before: {len(old.keys() - new.keys())},"
          f" only after: {len(new.keys() - old.keys())}")  # fmt: skip
    print(f"{len(differences)} differ", *differences, sep="\n  ")
    print(f"{len(brackets)} open ones have another bracket", *brackets, sep="\n  ")
    return len(differences)


def main() -> int:
    """Write or compare results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--work", type=float, help="a work limit in place of seconds")
    parser.add_argument("--exact", action="store_true", help="only the own exact method")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("BEFORE", "AFTER"))
    a = parser.parse_args()
    if a.compare:
        return 1 if compare(*a.compare) else 0
    with a.out.open("w") if a.out else sys.stdout as stream:
        for row in results(a.problems.split(","), a.work, a.exact):
            print(json.dumps(row), file=stream, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
