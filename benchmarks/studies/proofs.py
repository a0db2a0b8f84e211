"""What the proofs of the library rest on, and what a second reason costs.

    python benchmarks/studies/proofs.py [--problems layout,split] [--work 2] [--every 1] [--jobs 1]
                                        [--longer 60] [--out FILE.jsonl]

Every instance whose optimum is on record is solved by the default method within a limit of work,
with confirmation and without, one after the other. What has then neither two reasons nor a
certificate in the library is solved again within ``--longer`` units. The table counts, for each
problem, what the answers rest on: the package's own computation, two reasons that confirm each
other, a certificate in the library where there is neither, one engine's word, or nothing ("open");
and the CPU seconds of both ways within the first limit. Of answers that rest on less than two
reasons the instances are named. Exit status 1 if an answer is not the optimum on record.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import moeopt
from benchmarks.rooms.problems import PROBLEMS

ROOT = Path(__file__).parents[2] / "instances"
KINDS = ("own", "confirmed", "certificate", "single", "open")
TWO_REASONS = ("own", "confirmed")


def solved(
    problem: str, file: str, entry: dict[str, Any], work: float, longer: float
) -> dict[str, Any]:
    """Return what the default method says of an instance, with and without confirmation."""
    instance = moeopt.load(ROOT / problem / file)
    _load(problem)
    answers: dict[bool, Any] = {}
    row: dict[str, Any] = {"problem": problem, "file": file, "certificate": "certificate" in entry}
    orders = ((False, True), (True, False))
    for verify in orders[len(file) % 2]:  # what the first one loads, the second one has
        begin = time.process_time()
        answers[verify] = moeopt.solve(instance, work_limit=work, verify=verify)
        row["with" if verify else "without"] = round(time.process_time() - begin, 4)
    result = answers[True]
    if kind(result) not in TWO_REASONS and not row["certificate"] and longer > work:
        result, work = moeopt.solve(instance, work_limit=longer), longer
    row["objective"], row["bound"], row["work"] = result.objective, result.bound, work
    row["status"], row["proof"], row["kind"] = result.status, result.proof, kind(result)
    row["wrong"] = result.status == "optimal" and _list(result.objective) != _list(
        entry["objective"]
    )
    row["said"] = result.raw_status
    if row["certificate"] and row["kind"] not in TWO_REASONS:
        row["kind"] = "certificate"
    return row


@cache
def _load(problem: str) -> None:
    """Load what solves of a problem load once in a process: kernels and solvers."""
    best = json.loads((ROOT / problem / "best_known.json").read_text())
    small = min(best, key=lambda file: (ROOT / problem / file).stat().st_size)
    moeopt.solve(moeopt.load(ROOT / problem / small), work_limit=0.5)


def kind(result: Any) -> str:
    """Return what an answer rests on, or "open"."""
    closed = result.objective is not None and result.objective == result.bound
    return str(result.proof) if closed else "open"


def _list(objective: Any) -> list[int]:
    return list(objective) if isinstance(objective, tuple | list) else [objective]


def tasks(problems: list[str], every: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield each n-th instance whose optimum is on record."""
    for problem in problems:
        best = json.loads((ROOT / problem / "best_known.json").read_text())
        proven = [(file, of) for file, of in sorted(best.items()) if of["status"] == "optimal"]
        yield from ((problem, file, of) for file, of in proven[::every])


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--work", type=float, default=2.0)
    parser.add_argument("--longer", type=float, default=60.0)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, help="a line of JSON for each instance")
    given = parser.parse_args()
    found: list[dict[str, Any]] = []
    with ProcessPoolExecutor(given.jobs) as pool:
        asked = [
            pool.submit(solved, *task, given.work, given.longer)
            for task in tasks(given.problems.split(","), given.every)
        ]
        for one in asked:
            row = one.result()
            found.append(row)
            if given.out:
                with given.out.open("a") as file:
                    print(json.dumps(row), file=file)
    head = ("instances", *KINDS, "CPU s", "CPU s without confirmation")
    print(f"| problem | {' | '.join(head)} |\n|---|{'---:|' * len(head)}")
    for problem in [*given.problems.split(","), "all"]:
        rows = [row for row in found if problem in (row["problem"], "all")]
        counts = Counter(row["kind"] for row in rows)
        cells = [len(rows), *(counts[of] for of in KINDS)]
        seconds = [f"{sum(row[way] for row in rows):.1f}" for way in ("with", "without")]
        print(f"| {problem} | {' | '.join(map(str, [*cells, *seconds]))} |")
    for row in found:
        if row["wrong"] or row["kind"] not in TWO_REASONS or row["work"] > given.work:
            name = f"{row['problem']}/{row['file']}"
            print(f"{name}: {row['kind']} within {row['work']:g} units: {row['said'][:200]}")
    return int(any(row["wrong"] for row in found))


if __name__ == "__main__":
    sys.exit(main())
