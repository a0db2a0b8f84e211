"""Tiny instances made to break a proof: every exact method against brute force and the checker.

    python benchmarks/studies/attack.py [--count 10000] [--seed 0] [--problems placement,cache]
                                        [--makers edges] [--engines highs,cbc,scip] [--limit 10]

Half of the instances have what usual ones seldom have (experts without tokens, all alike, times of
zero, no memory or too much: the makers "edges"), the others are of the kinds of the problem's own
tests, which have its options in turn (``tests/problems/instances_to_break.py``). Each is enumerated
by brute force, and solved by every exact method, without a warm start and with one. Of each method
and engine the table says how many instances it solved, how often it called something optimal that
is not ("false optimum"), infeasible what is not or the other way round ("false status"), gave a
bound above the optimum ("false bound"), raised an error, had a claim of its engine refuted by
CP-SAT, whose answer it then gives if it is right ("refuted"), left an instance open, or refused it
with a clear word (numbers beyond its limits). For heuristics
"false optimum" is a valid solution below the optimum: then the oracle is wrong. Instances that
brute force refuses as too large are left out and counted. Exit status 1 if anything was false.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import cycle, islice
from typing import Any

import moeopt
from moeopt.core.errors import InputError
from moeopt.problems.registry import get_problem
from moeopt.solvers.methods import problem_methods
from moeopt.solvers.verification import REFUTED
from tests.problems.instances_to_break import MAKERS

COLUMNS = (
    *("solved", "false optimum", "false status", "false bound", "error"),
    *("refuted", "open", "refused"),
)
FALSE = COLUMNS[1:5]


def instances(problem: str, count: int, first: int, only: str) -> Iterator[tuple[str, int, Any]]:
    """Yield (kind, seed, instance): every second one of the makers "edges", the rest in turn."""
    makers = MAKERS[problem]
    chosen = [kind for kind in makers if not only or kind == only]
    usual = [kind for kind in chosen if not kind.startswith("edges")]
    edges = [kind for kind in chosen if kind.startswith("edges")]
    order = cycle([kind for other in usual for kind in (*edges, other)] if usual else edges)
    for seed, kind in enumerate(islice(order, count), first):
        yield kind, seed, makers[kind](seed)


def ways_to_solve(problem: str, engines: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a label and the arguments of `moeopt.solve` of every exact method."""
    for name, method in problem_methods(get_problem(problem)).items():
        if name in ("brute-force", "robust") or method.backend in ("heuristic", "rule", "robust"):
            continue
        for engine in engines if name == "milp" else [None]:
            for warm in (False, True):
                label = name + (f"[{engine}]" if engine else "") + ("" if warm else ", cold")
                yield label, {"method": name, "engine": engine, "warm_start": warm}


def attack(
    problem: str, drawn: Iterator[tuple[str, int, Any]], engines: list[str], limit_s: float
) -> tuple[dict[str, Counter[str]], list[str]]:
    """Return the table's rows of a problem, and a line for all that was false."""
    rows: dict[str, Counter[str]] = {}
    found: list[str] = []
    methods = list(ways_to_solve(problem, engines))

    def note(label: str, what: str, where: str, answer: object = "") -> None:
        rows.setdefault(label, Counter())[what] += 1
        if what in FALSE:
            found.append(f"{label}: {what}: {where}: {answer}")
            print(found[-1], file=sys.stderr, flush=True)

    for kind, seed, instance in drawn:
        where = f"{problem} {kind!r} seed {seed}"
        try:
            truth = moeopt.solve(instance, "brute-force", time_limit_s=600)
        except InputError:
            note("brute-force", "refused", where)
            continue
        note("brute-force", "solved", where)
        for label, arguments in methods:
            try:
                result = moeopt.solve(instance, time_limit_s=limit_s, **arguments)
            except InputError:
                note(label, "refused", where)
                continue
            except Exception as error:  # a method that falls over is what is looked for
                note(label, "error", where, repr(error))
                continue
            what = verdict(result, truth)
            if what not in FALSE and REFUTED in result.raw_status:
                what = "refuted"
            note(label, what, where, f"{result.objective} {result.bound}, not {truth.objective}")
        for name, rule in get_problem(problem).heuristics.HEURISTICS.items():
            solution = rule(instance)
            if solution is None:
                continue
            check = get_problem(problem).check
            valid = not check.violations(instance, solution)
            below = truth.objective is None or (
                pair(check.objective(instance, solution)) < pair(truth.objective)
            )
            note(name, "false optimum" if valid and below else "solved", where)
    return rows, found


def pair(objective: Any) -> tuple[int, ...]:
    """Return an objective, one integer or several in order, as a tuple."""
    return objective if isinstance(objective, tuple) else (objective,)


def verdict(result: Any, truth: Any) -> str:
    """Return the column of an answer, beside the truth."""
    if result.status in ("optimal", "infeasible"):
        if result.status != truth.status:
            return "false status"
        return "solved" if result.objective == truth.objective else "false optimum"
    known = truth.objective is not None and result.bound is not None
    return "false bound" if known and pair(result.bound) > pair(truth.objective) else "open"


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000, help="instances, of all problems")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--problems", default=",".join(MAKERS))
    parser.add_argument("--makers", default="", help="one kind of instance alone")
    parser.add_argument("--engines", default="highs")
    parser.add_argument("--limit", type=float, default=10.0, help="seconds of one solve")
    given = parser.parse_args()
    names = given.problems.split(",")
    wrong = 0
    print(f"| problem | method | {' | '.join(COLUMNS)} |\n|---|---|{'---:|' * len(COLUMNS)}")
    for problem in names:
        begin = time.process_time()
        drawn = instances(problem, given.count // len(names), given.seed, given.makers)
        rows, found = attack(problem, drawn, given.engines.split(","), given.limit)
        wrong += len(found)
        for label, counts in rows.items():
            cells = " | ".join(str(counts[column]) for column in COLUMNS)
            print(f"| {problem} | {label} | {cells} |", flush=True)
        print(f"{problem}: {time.process_time() - begin:.0f} CPU s", file=sys.stderr)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
