"""The rows of a study: every solve, held against the best that is known of its instance."""

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar
from warnings import warn

from moeopt.core.assumptions import split_name
from moeopt.core.errors import MoeoptWarning
from moeopt.core.json_files import JsonObject
from moeopt.core.objective import Objective, entries, relative
from moeopt.problems.registry import get_problem
from moeopt.solvers.result import Result
from moeopt.study.attempt import Facts, Solved
from moeopt.study.known import BEST, Known
from moeopt.study.plan import Key

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Row:
    """One method on one instance.

    Attributes
    ----------
    family
        The folder the instance came from, or "-".
    key
        What the solve was asked: content hash, time limit, options and more.
    optimum
        The proven optimum of the instance, by whichever solve; None if not proven.
    best_bound
        The best bound of all solves of the instance, also on one engine's word.
    facts
        What the problem's view says about the solution, e.g. the bottleneck.
    machine
        Processor, cores and system it was solved on.
    known
        What the instance's library knew before; `optimum` and `best_bound` are no worse.
    """

    family: str
    key: Key
    result: Result
    optimum: Objective | None
    best_bound: Objective | None
    facts: Facts = field(default_factory=dict)
    machine: JsonObject = field(default_factory=dict)
    known: Known | None = None

    @property
    def single(self) -> bool:
        """Whether one engine alone closed it: nothing is below the objective by its word."""
        unproven = self.optimum is None and self.best_bound is not None
        return unproven and self.result.objective == self.best_bound

    @property
    def optimal(self) -> bool:
        """Whether the objective is known to be the optimum, in every entry."""
        return self.optimum is not None and self.result.objective == self.optimum

    @property
    def excess(self) -> float | None:
        """(objective - optimum) / optimum by the first entries; None if either is unknown."""
        return _ratio(self.result.objective, self.optimum)

    @property
    def excess_at_most(self) -> float | None:
        """An upper limit of the excess, from the best bound; None without objective or bound."""
        return _ratio(self.result.objective, self.best_bound)

    @property
    def failed(self) -> bool:
        """Whether the solve has no result; `result.raw_status` says why."""
        return self.result.status == "failed"

    @property
    def seconds(self) -> float:
        """Time for building and solving, without compiling."""
        return self.result.build_s + self.result.solve_s


def compare(
    family: str, solved: Mapping[Key, Solved], keys: Sequence[Key], known: Known | None = None
) -> list[Row]:
    """Return one row for each of `keys`, the solves of one instance.

    Parameters
    ----------
    family
        The family that the rows are for.
    solved
        All solves of the instance that are known: optimum and bound come from all of them.
    keys
        Those that get a row, in order; one that is not in `solved` gets none.
    known
        What the instance's library knows; it counts like a solve's result.

    Warns
    -----
    MoeoptWarning
        If a solve's proven bound is above what another one's solution costs: the solution, which
        the checker has seen, stands, and the bound counts for nothing.
    """
    results: list[Result | Known] = [one.result for one in solved.values()]
    results += [] if known is None else [known]
    found = [r for r in results if r.objective is not None]
    best = min(found, key=lambda r: _entries(r.objective), default=None)
    claims = [r for r in results if r.bound is not None]
    for claim in claims if best else ():
        if best and _entries(best.objective) < _entries(claim.bound):
            name = next(iter(solved.values())).result.instance
            warn(
                f"{name}: {_who(claim)} claims that nothing is below {claim.bound}, "
                f"but {_who(best)} finds {best.objective}; the claim counts for nothing",
                MoeoptWarning,
                stacklevel=2,
            )
    if best:
        claims = [r for r in claims if _entries(r.bound) <= _entries(best.objective)]
    strongest = max(claims, key=lambda r: _entries(r.bound), default=None)
    bound = strongest.bound if strongest else None
    objective = best.objective if best else None
    closed = any(_is_proven(r) for r in claims if r.bound == objective)
    optimum = objective if closed else None
    rows = [(key, solved[key]) for key in keys if key in solved]
    return [
        Row(family, key, one.result, optimum, bound, one.facts, one.machine, known)
        for key, one in rows
    ]


def _is_proven(found: Result | Known) -> bool:
    """Tell whether a bound is more than one engine's word."""
    return isinstance(found, Known) or found.proof != "single"


def _who(found: Result | Known) -> str:
    return f"{found.method} in {BEST}" if isinstance(found, Known) else found.method


def _entries(objective: Objective | None) -> tuple[int, ...]:
    return () if objective is None else entries(objective)


def _ratio(objective: Objective | None, reference: Objective | None) -> float | None:
    if objective is None or reference is None:
        return None
    return relative(objective, reference, reference)


def as_known(row: Row, known: Known) -> Row:
    """Return the row as if its solution were the library's."""
    result = replace(
        row.result,
        method=known.method,
        status="optimal" if known.proven else "feasible",
        objective=known.objective,
        bound=known.bound,
        solution=known.solution,
    )
    return replace(row, key=row.key._replace(method=known.method), result=result)


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return items by a key of theirs, keys and items in order of appearance."""
    found: dict[K, list[T]] = {}
    for one in items:
        found.setdefault(key(one), []).append(one)
    return found


def each_once(rows: Iterable[Row], repeats: Callable[[Row], bool]) -> dict[str, list[Row]]:
    """Return by problem the rows of each solve once, whatever its families.

    Those that repeat another family's experiment are left out, if others remain.
    """
    found: dict[bool, dict[str, dict[Key, Row]]] = {False: {}, True: {}}
    for row in rows:
        found[repeats(row)].setdefault(row.result.problem, {}).setdefault(row.key, row)
    once, again = found.values()
    once |= {problem: of for problem, of in again.items() if problem not in once}
    return {problem: list(of.values()) for problem, of in once.items()}


TOLD = ("time_limit_s", "workers", "options", "version", "source_sha256")
"""The parts of a key that tables mention where they differ; seeds belong together."""


def differing(rows: Sequence[Row]) -> list[str]:
    """Return the parts of the key, besides instance, method and seed, that rows differ in."""
    return [name for name in TOLD if len({getattr(row.key, name) for row in rows}) > 1]


def named(rows: Sequence[Row]) -> list[tuple[str, Row]]:
    """Return label and row, of rules that coincide only the first one's rows: see `labels`."""
    second = set(_coinciding(rows))
    return [
        (label, row)
        for label, row in zip(labels(rows), rows, strict=True)
        if (row.result.problem, row.key.method) not in second
    ]


def _coinciding(rows: Sequence[Row]) -> dict[tuple[str, str], str]:
    """Return (problem, method) -> the other method that its solves all agree with."""
    found: dict[tuple[str, str], str] = {}
    objectives: dict[tuple[str, str], dict[Key, Objective | None]] = {}
    for row in rows:
        of = objectives.setdefault((row.result.problem, row.key.method), {})
        of[row.key._replace(method="")] = row.result.objective
    for problem in dict.fromkeys(problem for problem, _ in objectives):
        for one in get_problem(problem).heuristics:
            if one.coincides_with is None:
                continue
            mine = objectives.get((problem, one.name))
            if mine is not None and mine == objectives.get((problem, one.coincides_with)):
                found[problem, one.name] = one.coincides_with
    return found


def labels(rows: Sequence[Row]) -> list[str]:
    """Return what tables call each row's method.

    With the time limit and so on where the rows differ in it. The time limit is left out for
    methods that had one only and never needed all of it; the source file's hash for rules of one's
    own of which the rows have one state only. Rules that decide the same by construction are
    called by both names where all their solves agree, and what the problem's `labels` say of a
    method stands beside it.
    """
    told = differing(rows)
    limits: dict[str, set[float]] = {}
    sources: dict[str, set[str]] = {}
    for row in rows:
        limits.setdefault(row.key.method, set()).add(row.key.time_limit_s)
        sources.setdefault(row.key.method, set()).add(row.key.source_sha256)
    limited = {row.key.method for row in rows if row.result.termination == "time_limit"}
    limited |= {method for method, of in limits.items() if len(of) > 1}
    edited = {method for method, of in sources.items() if len(of) > 1}

    def matters(name: str, method: str) -> bool:
        where = {"time_limit_s": limited, "source_sha256": edited}
        return name not in where or method in where[name]

    also: dict[tuple[str, str], str] = {}
    for (problem, method), other in _coinciding(rows).items():
        also[problem, method] = also[problem, other] = labelled(problem, f"{other} = {method}")
    return [
        " ".join(
            [
                also.get((row.result.problem, row.key.method))
                or labelled(row.result.problem, row.key.method),
                *_words(row.key, [name for name in told if matters(name, row.key.method)]),
            ]
        )
        for row in rows
    ]


def labelled(problem: str, method: str) -> str:
    """Return a method's name, with what the problem wants to stand beside it in tables."""
    known = get_problem(problem).known_heuristic(split_name(method.partition(" = ")[0])[0])
    return f"{method} ({known.label})" if known is not None and known.label else method


def _words(key: Key, told: Sequence[str]) -> list[str]:
    words = {
        "time_limit_s": f"{key.time_limit_s:g} s" if key.time_limit_s else "",
        "workers": f"{key.workers} workers",
        "options": _options(key.options),
        "version": key.version,
        "source_sha256": f"source {key.source_sha256[:8]}" if key.source_sha256 else "",
    }
    return [words[name] for name in told if words[name]]


def _options(text: str) -> str:
    """Return options as tables have them: a work limit in words, the others as JSON."""
    options = json.loads(text)
    work = options.pop("work_limit", None)
    words = [] if work is None else [f"{work:g} units"]
    return " ".join([*words, *([json.dumps(options, sort_keys=True)] if options else [])])
