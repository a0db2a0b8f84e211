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
CP-SAT, whose answer it then gives if it is right ("refuted"; by several engines on one instance it
is the model that is wrong, a "false bound"), left an instance open, or refused it
with a clear word (numbers beyond its limits). For heuristics
"false optimum" is a valid solution below the optimum: then the oracle is wrong. Instances that
brute force refuses as too large are left out and counted. Exit status 1 if anything was false.

    python benchmarks/studies/attack.py --library 200 [--work 1] [--problems placement,cache]

Instances of the library, of real size, that are spoilt: some numbers are 0, equal, fifty times as
large or exchanged, capacities one less or half. Each is solved by every exact method within a limit
of work, and all solutions, which the checker has seen, and bounds are held against each other: a
bound above some solution is false, as is "infeasible" where there is a solution. A method that
takes more than 6 GiB falls over.
"""

import argparse
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import moeopt
from benchmarks.rooms.core import InstanceEnvelope
from benchmarks.rooms.problems import get_problem
from benchmarks.rooms.solvers import REFUTED, problem_methods
from moeopt import InputError
from tests.problems.instances_to_break import MAKERS

COLUMNS = (
    *("solved", "false optimum", "false status", "false bound", "error"),
    *("refuted", "open", "refused"),
)
FALSE = COLUMNS[1:5]
MOST_BYTES = 6 * 2**30
"""Of memory, for methods on instances of real size; who takes more falls over."""

NO_FAMILIES = ("solutions", "certificates")
LIBRARY = Path(__file__).parents[2] / "instances"


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
        refuted: set[str] = set()
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
                refuted.add(arguments["engine"] or arguments["method"])
            note(label, what, where, f"{result.objective} {result.bound}, not {truth.objective}")
        if len(refuted) > 1:  # it is not the engines that are wrong, but the model
            note("several engines", "false bound", where, sorted(refuted))
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


def spoilt(problem: str, count: int, first: int, most: int) -> Iterator[tuple[str, int, Any]]:
    """Yield (file, seed, instance): spoilt ones of the library of at most so many bytes."""
    folders = (d for d in (LIBRARY / problem).iterdir() if d.name not in NO_FAMILIES)
    sized = sorted((file.stat().st_size, file) for d in folders for file in d.glob("*.json*"))
    files = [file for place, (size, file) in enumerate(sized) if size <= most or place < 5]
    for seed in range(first, first + count):
        rng = random.Random(f"{problem} {seed}")
        file = rng.choice(files)
        instance = moeopt.load(file)
        for _ in range(rng.randint(1, 4)):
            instance = _spoilt_once(rng, instance)
        yield str(file.relative_to(LIBRARY)), seed, instance


def _spoilt_once(rng: random.Random, instance: InstanceEnvelope) -> InstanceEnvelope:
    """Return an instance with one list or number changed; itself if none of twenty changes fits."""
    for _ in range(20):
        data = instance.model_dump(mode="json", exclude_none=True)
        for name in ("name", "problem", "provenance", "schema_version", "quantum_ns"):
            data.pop(name, None)
        owner: Any = data
        while isinstance(owner, dict) or isinstance(owner[0], dict | list):
            keys = list(owner) if isinstance(owner, dict) else list(range(len(owner)))
            if not keys:
                break
            key = rng.choice(keys)
            if not isinstance(owner[key], dict | list) or not owner[key]:
                break
            owner = owner[key]
        if isinstance(owner, dict):
            if keys and type(owner[key]) is int:
                owner[key] = rng.choice([owner[key] - 1, owner[key] + 1, owner[key] // 2, 0])
        elif all(type(number) is int for number in owner):
            how = rng.choice(["zeros", "equal", "huge", "exchanged"])
            for place in range(len(owner)):
                if how == "exchanged":
                    rng.shuffle(owner)
                    break
                if rng.random() < 0.5:
                    worse = {"zeros": 0, "equal": owner[0], "huge": 50 * owner[place]}
                    owner[place] = worse[how]
        kept = instance.model_dump(mode="json", exclude_none=True)
        try:
            return type(instance).model_validate(kept | data)
        except InputError:
            continue
    return instance


def against_each_other(
    problem: str, drawn: Iterator[tuple[str, int, Any]], engines: list[str], work: float
) -> tuple[dict[str, Counter[str]], list[str]]:
    """Return the table's rows of a problem, and a line for all that was false."""
    rows: dict[str, Counter[str]] = {}
    found: list[str] = []
    for file, seed, instance in drawn:
        results = {}
        for label, arguments in ways_to_solve(problem, engines):
            if not arguments["warm_start"]:
                continue
            row = rows.setdefault(label, Counter())
            try:
                results[label] = moeopt.solve(instance, work_limit=work, **arguments)
            except InputError:
                row["refused"] += 1
            except Exception as error:  # a method that falls over is what is looked for
                row["error"] += 1
                found.append(f"{label}: error: {file} seed {seed}: {error!r}")
                print(found[-1], file=sys.stderr, flush=True)
        solutions = [pair(r.objective) for r in results.values() if r.objective is not None]
        best = min(solutions, default=None)
        for label, result in results.items():
            what = "solved" if result.status in ("optimal", "infeasible") else "open"
            if best is not None and result.status == "infeasible":
                what = "false status"
            elif best is not None and result.bound is not None and pair(result.bound) > best:
                what = "false optimum" if result.status == "optimal" else "false bound"
            rows[label][what] += 1
            if what in FALSE:
                found.append(f"{label}: {what}: {file} seed {seed}: {result.bound}, not {best}")
                print(found[-1], file=sys.stderr, flush=True)
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
    parser.add_argument("--library", type=int, default=0, help="spoilt ones of each problem")
    parser.add_argument("--largest", type=int, default=12_000, help="bytes of a library's file")
    parser.add_argument(
        "--work", type=float, default=1.0, help="limit of work of one solve of these"
    )
    given = parser.parse_args()
    names = given.problems.split(",")
    wrong = 0
    print(f"| problem | method | {' | '.join(COLUMNS)} |\n|---|---|{'---:|' * len(COLUMNS)}")
    for problem in names:
        begin = time.process_time()
        engines = given.engines.split(",")
        if given.library:
            resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
            drawn = spoilt(problem, given.library, given.seed, given.largest)
            rows, found = against_each_other(problem, drawn, engines, given.work)
        else:
            drawn = instances(problem, given.count // len(names), given.seed, given.makers)
            rows, found = attack(problem, drawn, engines, given.limit)
        wrong += len(found)
        for label, counts in rows.items():
            cells = " | ".join(str(counts[column]) for column in COLUMNS)
            print(f"| {problem} | {label} | {cells} |", flush=True)
        print(f"{problem}: {time.process_time() - begin:.0f} CPU s", file=sys.stderr)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
