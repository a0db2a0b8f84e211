"""Tiny instances made to break a proof: every exact method against brute force and the checker.

    python benchmarks/studies/attack.py [--count 10000] [--seed 0] [--problems placement,cache]
                                        [--makers edges] [--engines highs,cbc,scip] [--limit 10]
                                        [--every 4] [--work drawn] [--jobs 2]

Half of the instances have what usual ones seldom have (experts without tokens, all alike, times of
zero, no memory or too much: the makers "edges"), the others are of the kinds of the problem's own
tests, which have its options in turn, and of the kinds "numbers: ...", whose numbers share no
common divisor (``tests/problems/instances_to_break.py``); ``--makers numbers`` takes these alone.
Each is enumerated by brute force, and solved by every exact method and by "auto", the default,
without a warm start ("cold") and with one. milp, and GLPK with the algebraic model ("mathprog"),
solve every ``--every``-th instance only. GLPK has ``--limit`` seconds. Where its answer is false,
the model is wrong, except where its tolerances do not suit the numbers ("refuted"): those of the
kinds "numbers: ...", and objectives above 10^7.
With ``--work drawn`` the limit is one of work, from 1e-6 to 1 units, in place of ``--limit``
seconds. Of each method and engine the table says how many instances it solved, how often it called
something optimal that is not ("false optimum"), infeasible what is not or the other way round
("false status"), gave a bound above the optimum ("false bound"), raised an error, had a claim of an
engine refuted, in place of which it then gives another's answer ("refuted"; of several engines on
one instance of small numbers it is the model that is wrong, a "false bound"), left an instance
open, or refused it with a clear word (numbers beyond its limits); and of what is closed, what the
proof rests on (`Result.proof`), where the package says so. For heuristics "false optimum" is a
valid solution below the optimum: then the oracle is wrong. Instances that brute force refuses as
too large are left out and counted. Exit status 1 if anything was false.

    python benchmarks/studies/attack.py --library 200 [--work 1] [--problems placement,cache]

Instances of the library, of real size, that are spoilt: some numbers are 0, equal, fifty times as
large or exchanged, capacities one less or half; of every second one all numbers are drawn again so
that they share no divisor. Each is solved by every exact method within a limit of work, and all
solutions, which the checker has seen, and bounds are held against each other: a bound above some
solution is false, as is "infeasible" where there is a solution. A method that takes more than 6 GiB
falls over.

    python benchmarks/studies/attack.py --settings 200 [--work 1] [--problems placement,cache]

The same instances, all with numbers drawn again. CP-SAT's model of them is solved from nothing
under its two sets of parameters, and under those that it had before (`settings_of`), without any
confirmation; answers are held against each other likewise, so that a false one of the old set is
found as well.

    python benchmarks/studies/attack.py --sum TABLE...

Tables of earlier runs, added up by method.

Every instance is a task of its own in one of ``--jobs`` processes: the table does not depend on how
many there are, and one that an engine ends counts as an error.
"""

import argparse
import multiprocessing
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle, islice
from math import inf
from pathlib import Path
from typing import Any

import moeopt
from benchmarks.rooms.core import InstanceEnvelope
from benchmarks.rooms.problems import get_problem
from benchmarks.rooms.solvers import EXACT, problem_methods
from moeopt import InputError
from tests.mathprog.solve import MATHPROG, by_glpk
from tests.problems.instances_to_break import MAKERS, MIXED
from tests.problems.mixed_numbers import LAWS, with_numbers

COLUMNS = (
    *("solved", "false optimum", "false status", "false bound", "error"),
    *("refuted", "open", "refused"),
)
FALSE = COLUMNS[1:5]
REFUTED = "REFUTED"
"""What `Result.raw_status` says of a claim that was found false; told here, since the study runs on
older commits of the package, too."""

PROOFS = ("certificate", "own", "confirmed", "single")
MOST_BYTES = 6 * 2**30
"""Of memory, for methods on instances of real size; who takes more falls over."""

FLOATS = ("milp", MATHPROG)
SUITS_GLPK = 10**7
"""The largest objective, as one integer, that suits GLPK's absolute tolerances."""

NO_FAMILIES = ("solutions", "certificates")
LIBRARY = Path(__file__).parents[2] / "instances"

Case = tuple[str, str, int]
"""A problem, a kind of instance or the place of a file in the library, and a seed."""


@dataclass
class Told:
    """What came of one instance, or of many.

    Attributes
    ----------
    rows
        Label of a method -> column -> how often.
    found
        A line for all that was false.
    cpu_s
        CPU seconds, of all threads.
    """

    rows: dict[str, Counter[str]] = field(default_factory=dict)
    found: list[str] = field(default_factory=list)
    cpu_s: float = 0.0

    def note(self, label: str, what: str, where: str, answer: object = "") -> None:
        """Count an answer of a method, and keep a line if it is false."""
        self.rows.setdefault(label, Counter())[what] += 1
        if what in FALSE:
            self.found.append(f"{label}: {what}: {where}: {answer}")

    def add(self, other: "Told") -> None:
        """Add what came of others."""
        for label, counts in other.rows.items():
            self.rows.setdefault(label, Counter()).update(counts)
        self.found += other.found
        self.cpu_s += other.cpu_s


@dataclass(frozen=True)
class Options:
    """How instances are solved; see the command's options."""

    engines: tuple[str, ...] = ("highs",)
    limit_s: float = 10.0
    work: str | None = None
    every: int = 1
    """milp and GLPK solve instances whose seed is a multiple of this."""

    largest: int = 12_000
    """Bytes of a file of the library."""

    def limits(self, case: Case) -> dict[str, float]:
        """Return the limit of a case's solves: drawn, of work, or of seconds."""
        if self.work is None:
            return {"time_limit_s": self.limit_s}
        if self.work == "drawn":
            return {"work_limit": 10 ** random.Random(f"work {case}").uniform(-6, 0)}
        return {"work_limit": float(self.work)}


def cases(problem: str, count: int, first: int, only: str) -> Iterator[Case]:
    """Yield as many cases: every second one of the makers "edges", the rest in turn."""
    chosen = [kind for kind in MAKERS[problem] if kind.startswith(only)]
    usual = [kind for kind in chosen if not kind.startswith("edges")]
    edges = [kind for kind in chosen if kind.startswith("edges")]
    order = cycle([kind for other in usual for kind in (*edges, other)] if usual else edges)
    for seed, kind in enumerate(islice(order, count), first):
        yield problem, kind, seed


def ways_to_solve(problem: str, engines: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a label and the arguments of `moeopt.solve` of the default and every exact method."""
    for warm in (False, True):
        yield "auto" + ("" if warm else ", cold"), {"method": "auto", "warm_start": warm}
    for name, method in problem_methods(get_problem(problem)).items():
        if name == "brute-force" or method.backend in ("heuristic", "rule"):
            continue
        for engine in engines if name == "milp" else [None]:
            for warm in (False, True) if method.warm_starts else (True,):
                label = name + (f"[{engine}]" if engine else "") + ("" if warm else ", cold")
                yield label, {"method": name, "engine": engine, "warm_start": warm}


@dataclass(frozen=True)
class Truth:
    """What enumeration and the checker say; the objective is None where nothing is valid."""

    objective: Any

    @property
    def status(self) -> str:
        """As a result has it."""
        return "infeasible" if self.objective is None else "optimal"


def truth_of(instance: Any) -> Truth | None:
    """Return the least objective of all valid candidates; None if they are too many.

    It shares the oracle's list of candidates and the checker with the package, and none of what
    methods go through: no grid, no bound, no start.
    """
    problem = get_problem(instance.problem)
    if problem.count(instance) > problem.max_candidates():
        return None
    best = None
    for candidate in problem.candidates(instance):
        objective = problem.objective(instance, candidate)
        better = best is None or pair(objective) < pair(best)
        if better and not problem.violations(instance, candidate):
            best = objective
    return Truth(best)


def attack(case: Case, options: Options) -> Told:
    """Return what every method says of one instance, beside the truth."""
    problem, kind, seed = case
    told, where = Told(), f"{problem} {kind!r} seed {seed}"
    instance = MAKERS[problem][kind](seed)
    truth = truth_of(instance)
    told.note("brute-force", "refused" if truth is None else "solved", where)
    if truth is None:
        return told
    refuted: set[str] = set()
    ways = [*ways_to_solve(problem, options.engines), (MATHPROG, {"method": MATHPROG})]
    for label, arguments in ways:
        if arguments["method"] in FLOATS and seed % options.every:
            continue
        try:
            if label == MATHPROG:
                result = by_glpk(instance, time_limit_s=options.limit_s)
            else:
                result = moeopt.solve(instance, **options.limits(case), **arguments)
        except InputError:
            told.note(label, "refused", where)
            continue
        except Exception as error:  # a method that falls over is what is looked for
            told.note(label, "error", where, repr(error))
            continue
        if label == MATHPROG:
            what = of_glpk(result, truth, kind, get_problem(problem).packing(instance).pack)
        else:
            what = verdict(result, truth)
        if what not in FALSE and REFUTED in result.raw_status:
            what = "refuted"
            refuted.add(arguments.get("engine") or arguments["method"])
        told.note(label, what, where, f"{result.objective} {result.bound}, not {truth.objective}")
        closed = result.status == "infeasible" or (
            result.objective is not None and result.bound == result.objective
        )
        if closed and result.proof in PROOFS:
            told.note(label, result.proof, where)
    # Where numbers are small it is not the engines that are wrong then, but the model.
    if len(refuted) > 1 and not kind.startswith(MIXED):
        told.note("several engines", "false bound", where, sorted(refuted))
    for name, rule in get_problem(problem).functions().items():
        try:
            solution = rule(instance)
        except Exception as error:  # as above
            told.note(name, "error", where, repr(error))
            continue
        if solution is None:
            continue
        check = get_problem(problem)
        valid = not check.violations(instance, solution)
        below = truth.objective is None or (
            pair(check.objective(instance, solution)) < pair(truth.objective)
        )
        told.note(name, "false optimum" if valid and below else "solved", where)
    return told


def spoilt(case: Case, *, redrawn: bool) -> InstanceEnvelope:
    """Return a file of the library with some numbers spoilt, or all drawn again as well."""
    problem, file, seed = case
    rng = random.Random(f"{problem} {seed}")
    instance = moeopt.load(LIBRARY / file)
    for _ in range(rng.randint(1, 4)):
        instance = _spoilt_once(rng, instance)
    return with_numbers(instance, rng.choice(LAWS), seed) if redrawn else instance


def of_library(problem: str, count: int, first: int, most: int) -> Iterator[Case]:
    """Yield as many cases, of files of at most so many bytes."""
    folders = (d for d in (LIBRARY / problem).iterdir() if d.name not in NO_FAMILIES)
    sized = sorted((file.stat().st_size, file) for d in folders for file in d.glob("*.json*"))
    files = [file for place, (size, file) in enumerate(sized) if size <= most or place < 5]
    for seed in range(first, first + count):
        file = random.Random(f"file {problem} {seed}").choice(files)
        yield problem, str(file.relative_to(LIBRARY)), seed


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


@dataclass(frozen=True)
class Answer:
    """What one way to solve says: the fields of a `Result` that are held against others."""

    status: str
    objective: Any
    bound: Any


Ways = Iterator[tuple[str, Callable[[], Any]]]
"""Labels, and functions that return a `Result` or an `Answer`."""


def methods_of(instance: Any, case: Case, options: Options) -> Ways:
    """Yield every exact method, from a warm start."""
    limits = {"work_limit": 1.0} if options.work is None else options.limits(case)
    for label, arguments in ways_to_solve(instance.problem, options.engines):
        if arguments["warm_start"]:
            yield label, partial(moeopt.solve, instance, **limits, **arguments)


def settings_of(instance: Any, _case: Case, options: Options) -> Ways:
    """Yield CP-SAT's model under its parameters, those of a second opinion, and those of old."""
    from benchmarks.rooms.core import SAFE, SECOND, Way  # which older commits lack

    old = Way("presolve in full", {"presolve_substitution_level": 0})
    for way in (SAFE, SECOND, old):
        yield way.name, partial(_bare, instance, way, float(options.work or 1))


def _bare(instance: Any, way: Any, work: float) -> Answer:
    """Return what CP-SAT says of a problem's model; its solution is judged by the checker."""
    from benchmarks.rooms.core import Run

    problem = get_problem(instance.problem)
    built = problem.model(instance, "cp-sat")
    built.post()
    found = Run(built.model, inf, effort=work, way=way, options=built.parameters).solve()
    if found.status == "invalid":
        raise ValueError(built.model.validate())
    objective, bound = None, None if found.bound is None else found.bound * built.objective_unit
    if found.found:
        solution = built.decode(found.value)
        if wrong := problem.violations(instance, solution):
            raise ValueError(f"its solution is wrong: {wrong[0]}")
        objective = problem.packing(instance).pack(problem.objective(instance, solution))
    return Answer(found.status, objective, bound)


def against_each_other(
    case: Case, options: Options, ways: Callable[[Any, Case, Options], Ways], redrawn: bool
) -> Told:
    """Return what several ways to solve say of an instance that brute force cannot reach."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    told, where = Told(), " ".join(map(str, case[1:]))
    instance = spoilt(case, redrawn=redrawn or case[2] % 2 == 1)
    results: dict[str, Any] = {}
    for label, solve in ways(instance, case, options):
        try:
            results[label] = solve()
        except InputError:
            told.note(label, "refused", where)
        except Exception as error:  # a method that falls over is what is looked for
            told.note(label, "error", where, repr(error))
    solutions = [pair(r.objective) for r in results.values() if r.objective is not None]
    best = min(solutions, default=None)
    for label, result in results.items():
        what = "solved" if result.status in ("optimal", "infeasible") else "open"
        if best is not None and result.status == "infeasible":
            what = "false status"
        elif best is not None and result.bound is not None and pair(result.bound) > best:
            what = "false optimum" if result.status == "optimal" else "false bound"
        told.note(label, what, f"{case[0]} {where}", f"{result.bound}, not {best}")
    return told


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


def of_glpk(result: Any, truth: Any, kind: str, pack: Callable[[Any], int]) -> str:
    """Return the column of GLPK's answer, which nothing confirms; `pack` makes it one integer."""
    what = "false optimum" if result.status == "refuted" else verdict(result, truth)
    known = [pack(one.objective) for one in (result, truth) if one.objective is not None]
    beyond = kind.startswith(MIXED) or max(known, default=0) > SUITS_GLPK
    return "refuted" if beyond and what in FALSE else what


def timed(work: Callable[[Case], Told], case: Case) -> Told:
    """Return what came of a case, with the CPU seconds that it took."""
    begin = time.process_time()
    sys.stdout = sys.__stdout__  # not what a solve before has left there
    told = work(case)
    told.cpu_s = time.process_time() - begin
    if sys.stdout is not sys.__stdout__:  # then every later print would fail
        told.note("process", "error", " ".join(map(str, case)), "sys.stdout is another")
    return told


def apart(work: Callable[[Case], Told], of: Sequence[Case], jobs: int) -> Iterator[Told]:
    """Yield what comes of each case, in order, from processes whose end is an error of the case."""
    pool = partial(ProcessPoolExecutor, mp_context=multiprocessing.get_context("spawn"))
    place = 0
    while place < len(of):
        with pool(jobs) as many:
            try:
                for told in many.map(partial(timed, work), of[place:], chunksize=1):
                    yield told
                    place += 1
                return
            except BrokenProcessPool:
                pass
        with pool(1) as alone:  # it, or one that ran beside it
            try:
                yield alone.submit(timed, work, of[place]).result()
            except BrokenProcessPool:
                ended = Told()
                ended.note("process", "error", " ".join(map(str, of[place])), "ended")
                yield ended
        place += 1


def table(problem: str, rows: Mapping[str, Counter[str]], columns: Sequence[str]) -> Iterator[str]:
    """Yield a problem's rows."""
    for label, counts in rows.items():
        cells = " | ".join(str(counts[column]) for column in columns)
        yield f"| {problem} | {label} | {cells} |"


def added_up(files: Sequence[Path]) -> Iterator[str]:
    """Yield the lines of a table by method, of all problems in the tables of earlier runs."""
    rows: dict[str, Counter[str]] = {}
    columns: list[str] = []
    for file in files:
        for line in file.read_text().splitlines():
            if not line.startswith("|"):
                continue
            problem, label, *cells = (cell.strip() for cell in line.strip("|").split("|"))
            if problem == "problem":
                columns = cells
            elif columns and all(cell.isdigit() for cell in cells):
                own = not label.startswith(("auto", "brute-force", MATHPROG, *EXACT))
                rule = own and label in get_problem(problem).functions()
                method = "heuristics" if rule else "own methods" if own else label
                row = rows.setdefault(method, Counter())
                row.update(dict(zip(columns, map(int, cells), strict=True)))
    yield f"| method | {' | '.join(columns)} |\n|---|{'---:|' * len(columns)}"
    for method, row in rows.items():
        yield f"| {method} | {' | '.join(str(row[column]) for column in columns)} |"


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000, help="instances, of all problems")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--problems", default=",".join(MAKERS))
    parser.add_argument("--makers", default="", help="what kinds of instances begin with")
    parser.add_argument("--engines", default="highs")
    parser.add_argument("--limit", type=float, default=10.0, help="seconds of one solve")
    parser.add_argument("--every", type=int, default=1, help="milp and GLPK solve each n-th")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--library", type=int, default=0, help="spoilt ones of each problem")
    parser.add_argument("--settings", type=int, default=0, help="the same, under CP-SAT's settings")
    parser.add_argument("--largest", type=int, default=12_000, help="bytes of a library's file")
    parser.add_argument("--work", help='limit of work of one solve, or "drawn"')
    parser.add_argument("--sum", nargs="+", type=Path, help="add up tables of earlier runs")
    given = parser.parse_args()
    if given.sum:
        print(*added_up(given.sum), sep="\n")
        return 0
    names = given.problems.split(",")
    engines = tuple(given.engines.split(","))
    options = Options(engines, given.limit, given.work, given.every, given.largest)
    columns = (*COLUMNS, *PROOFS)
    total = Told()
    print(f"| problem | method | {' | '.join(columns)} |\n|---|---|{'---:|' * len(columns)}")
    for problem in names:
        if few := given.library or given.settings:
            of = list(of_library(problem, few, given.seed, given.largest))
            ways = methods_of if given.library else settings_of
            redrawn = given.settings > 0
            work = partial(against_each_other, options=options, ways=ways, redrawn=redrawn)
        else:
            of = list(cases(problem, given.count // len(names), given.seed, given.makers))
            work = partial(attack, options=options)
        told = Told()
        for one in apart(work, of, given.jobs):
            told.add(one)
            for line in one.found:
                print(line, file=sys.stderr, flush=True)
        print(*table(problem, told.rows, columns), sep="\n", flush=True)
        print(f"{problem}: {told.cpu_s:.0f} CPU s", file=sys.stderr, flush=True)
        total.add(told)
    return int(bool(total.found))


if __name__ == "__main__":
    sys.exit(main())
