"""How often a MILP solver's word is false: HiGHS with and without presolve, and SCIP.

    python benchmarks/studies/false_optima.py [--count 2000] [--scip] [PROBLEM ...]

Tiny random instances of the problems' own tests are solved by ``cp-sat`` and by ``milp``, cold and
without `verify`. False is a bound above the optimum, or "infeasible" where there is a solution. The
table says how many were solved, how many of them were false, in what CPU time; false ones are named
below it, with what was claimed and what is right.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

import moeopt
from benchmarks.rooms.solvers import milp
from tests.problems.instances_to_break import MAKERS

ATTEMPTS = {
    "highs, no presolve": milp.ATTEMPTS[:2],
    "highs, presolve": tuple((tolerance, True) for tolerance, _ in milp.ATTEMPTS[:2]),
    "scip": milp.ATTEMPTS,
}


def instances(problem: str) -> Iterator[tuple[str, int, Any]]:
    """Yield (kind, seed, instance) of a problem without end."""
    makers = MAKERS[problem]
    seed = 0
    while True:
        for kind, make in makers.items():
            yield kind, seed, make(seed)
        seed += 1


def entries(value: Any) -> tuple[int, ...]:
    """Return an objective's entries."""
    return value if isinstance(value, tuple) else (value,)


def rates(problem: str, count: int, ways: list[str]) -> list[str]:
    """Print a problem's row; return what was false."""
    solved, false, seconds = (dict.fromkeys(ways, 0.0) for _ in range(3))
    named = []
    for kind, seed, instance in islice(instances(problem), count):
        try:
            truth = moeopt.solve(instance, "cp-sat", time_limit_s=20)
        except moeopt.InputError:
            continue
        if truth.status != "optimal":
            continue
        for way in ways:
            milp.ATTEMPTS, engine = ATTEMPTS[way], "scip" if way == "scip" else None
            begin = time.process_time()
            options: dict[str, Any] = {"engine": engine, "time_limit_s": 5}
            try:
                found = moeopt.solve(instance, "milp", verify=False, warm_start=False, **options)
            except moeopt.InputError:
                continue
            seconds[way] += time.process_time() - begin
            solved[way] += 1
            above = found.bound is not None and entries(found.bound) > entries(truth.objective)
            if above or "infeasible" in found.raw_status.lower():
                false[way] += 1
                named.append(f"{problem} {kind} {seed}, {way}: {found.bound}, {truth.objective}")
    cells = [f"{false[way]:.0f} of {solved[way]:.0f}, {seconds[way]:.1f} s" for way in ways]
    print(f"| {problem} | {' | '.join(cells)} |", flush=True)
    return named


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", default=["tri_domain", "layout", "relayout"])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--scip", action="store_true")
    options = parser.parse_args()
    ways = [way for way in ATTEMPTS if way != "scip" or options.scip]
    print(f"| problem | {' | '.join(ways)} |\n|---|{'---|' * len(ways)}")
    named = [line for problem in options.problems for line in rates(problem, options.count, ways)]
    print("", *named, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
