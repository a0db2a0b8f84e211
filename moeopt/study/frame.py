"""A campaign as a pandas frame: a row per solve, held against the best that is known."""

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar
from warnings import warn

import pandas as pd

from moeopt.core.assumptions import split_name
from moeopt.core.errors import MoeoptWarning
from moeopt.core.objective import Objective, entries, relative
from moeopt.problems.registry import get_problem
from moeopt.solvers.methods import problem_methods
from moeopt.solvers.rules import AUTO
from moeopt.study.known import BEST, Known
from moeopt.study.record import COSTS, MOST_ENTRIES, NAMES, SolveRecord, packed_solution

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

TAG = "tag_"
"""How the columns of tags begin."""

COMPUTED = ("optimum", "best_bound", "excess", "excess_at_most", "optimal", "single", "seconds")
"""Columns that are computed against the best of the same instance, never stored.

The proven optimum, by whichever solve or library; the best bound, also on one engine's word;
(objective - optimum) / optimum by the first entries; its upper limit, from the best bound; whether
the objective is the optimum; whether one engine alone closed it; seconds for building and solving.
"""

FLOATS = (
    *("time_limit_s", "work_limit", "build_s", "solve_s", "compile_s", "work"),
    *("excess", "excess_at_most", "seconds"),
)

Row = tuple[str, Mapping[str, str], SolveRecord]
"""A solve in a family, with the instance's tags."""


class Bracket(NamedTuple):
    """What all solves of an instance and its library know: proven optimum, and best bound."""

    optimum: Objective | None
    best_bound: Objective | None


def bracket_of(records: Sequence[SolveRecord], known: Known | None = None) -> Bracket:
    """Return the bracket of one instance.

    Parameters
    ----------
    records
        All solves of the instance.
    known
        What the instance's library knows; it counts like a solve.

    Warns
    -----
    MoeoptWarning
        If a solve's proven bound is above what another one's solution costs: the solution, which
        the checker has seen, stands, and the bound counts for nothing.
    """
    results: list[SolveRecord | Known] = [*records, *([] if known is None else [known])]
    found = [r for r in results if r.objective is not None]
    best = min(found, key=lambda r: _entries(r.objective), default=None)
    claims = [r for r in results if r.bound is not None]
    for claim in claims if best else ():
        if best and _entries(best.objective) < _entries(claim.bound):
            warn(
                f"{records[0].instance}: {_who(claim)} claims that nothing is below {claim.bound}, "
                f"but {_who(best)} finds {best.objective}; the claim counts for nothing",
                MoeoptWarning,
                stacklevel=2,
            )
    if best:
        claims = [r for r in claims if _entries(r.bound) <= _entries(best.objective)]
    strongest = max(claims, key=lambda r: _entries(r.bound), default=None)
    objective = best.objective if best else None
    closed = any(_is_proven(r) for r in claims if r.bound == objective)
    return Bracket(objective if closed else None, strongest.bound if strongest else None)


def _is_proven(found: SolveRecord | Known) -> bool:
    """Tell whether a bound is more than one engine's word."""
    return isinstance(found, Known) or found.proof != "single"


def _who(found: SolveRecord | Known) -> str:
    return f"{found.method} in {BEST}" if isinstance(found, Known) else found.method


def _entries(objective: Objective | None) -> tuple[int, ...]:
    return () if objective is None else entries(objective)


def excess(objective: Objective | None, reference: Objective | None) -> float | None:
    """Return (objective - reference) / reference by the first entries; None if one is unknown."""
    if objective is None or reference is None:
        return None
    return relative(objective, reference, reference)


def frame_of(rows: Sequence[Row], brackets: Mapping[str, Bracket]) -> pd.DataFrame:
    """Return rows as a frame, with the columns of `COMPUTED`."""
    tags = sorted({name for _, of, _ in rows for name in of})
    data: dict[str, list[Any]] = {"family": [family for family, _, _ in rows]}
    data |= {name: [getattr(record, name) for _, _, record in rows] for name in NAMES}
    data |= {TAG + name: [of.get(name) for _, of, _ in rows] for name in tags}
    data |= {name: [] for name in COMPUTED}
    for _, _, record in rows:
        optimum, bound = brackets[record.instance_hash]
        data["optimum"].append(optimum)
        data["best_bound"].append(bound)
        data["excess"].append(excess(record.objective, optimum))
        data["excess_at_most"].append(excess(record.objective, bound))
        data["optimal"].append(optimum is not None and record.objective == optimum)
        closed = bound is not None and record.objective == bound
        data["single"].append(optimum is None and closed)
        data["seconds"].append(record.build_s + record.solve_s)
    return typed(pd.DataFrame(data, dtype=object))


def typed(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame whose columns of numbers and of truth have their types."""
    types = dict.fromkeys(FLOATS, "float64")
    types |= {"seed": "int64", "workers": "int64", "optimal": "bool", "single": "bool"}
    return frame.astype(types)


def split_costs(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with a column of integers for each entry of an objective."""
    parts: dict[str, pd.Series] = {}
    for name in frame.columns:
        if name not in (*COSTS, "optimum", "best_bound"):
            parts[name] = frame[name]
            continue
        for at in range(MOST_ENTRIES):
            values = [entries(v)[at : at + 1] if v is not None else () for v in frame[name]]
            known = [value[0] if value else None for value in values]
            parts[f"{name}_{at}"] = pd.Series(known, index=frame.index, dtype="Int64")
    return pd.DataFrame(parts)


def as_known(frame: pd.DataFrame, known: Mapping[str, Known]) -> pd.DataFrame:
    """Return a row for each instance of a frame of which a library has the optimum.

    It has the library's solution in place of a solve's.
    """
    first = frame.drop_duplicates("instance_hash")
    rows = []
    for row in first.to_dict("records"):
        one = known.get(row["instance_hash"])
        if one is not None and one.objective == row["optimum"]:
            row |= {"method": one.method, "objective": one.objective, "bound": one.bound}
            row |= {"status": "optimal" if one.proven else "feasible", "optimal": True}
            row |= {"solution": packed_solution(one.solution), "excess": 0.0}
            rows.append(row)
    return typed(pd.DataFrame(rows, columns=frame.columns, dtype=object))


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return items by a key of theirs, keys and items in order of appearance."""
    found: dict[K, list[T]] = {}
    for one in items:
        found.setdefault(key(one), []).append(one)
    return found


def exact_of(frame: pd.DataFrame) -> pd.Series:
    """Return of each solve whether its method can prove."""
    pairs = {pair: is_exact(*pair) for pair in {*zip(frame.problem, frame.method, strict=True)}}
    found = [pairs[pair] for pair in zip(frame.problem, frame.method, strict=True)]
    return pd.Series(found, index=frame.index, dtype=bool)


def is_exact(problem: str, method: str) -> bool:
    """Tell whether a method can prove; one that no longer exists counts as a heuristic."""
    found = problem_methods(get_problem(problem)).get(method)
    return method == AUTO or (found is not None and found.kind == "exact")


def each_once(frame: pd.DataFrame) -> pd.DataFrame:
    """Return each solve once, whatever its families.

    Those that repeat another family's experiment are left out, where a problem has others.
    """
    if frame.empty or "tag_repeats" not in frame:
        return frame.drop_duplicates("key")
    again = frame.tag_repeats.notna()
    alone = ~frame.problem.isin(frame.problem[~again])
    return frame[~again | alone].drop_duplicates("key")


TOLD = ("time_limit_s", "workers", "work_limit", "options", "source_sha256")
"""What tables mention where solves differ in it; seeds belong together."""


def differing(frame: pd.DataFrame) -> list[str]:
    """Return what of the question, besides instance, method and seed, solves differ in."""
    return [name for name in TOLD if len({_plain(value) for value in frame[name]}) > 1]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return json.dumps(value, sort_keys=True)
    return None if value != value else value


def named(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the solves with a column `label`; of rules that coincide the first one's alone."""
    second = _coinciding(frame)
    pairs = zip(frame.problem, frame.method, strict=True)
    kept = pd.Series([pair not in second for pair in pairs], frame.index, dtype=bool)
    return frame.assign(label=labels(frame))[kept]


def _coinciding(frame: pd.DataFrame) -> dict[tuple[str, str], str]:
    """Return (problem, method) -> the other method that its solves all agree with."""
    found: dict[tuple[str, str], str] = {}
    for problem in dict.fromkeys(frame.problem):
        rules = [one for one in get_problem(problem).heuristics if one.coincides_with is not None]
        methods = {name for one in rules for name in (one.name, str(one.coincides_with))}
        objectives: dict[str, dict[tuple[Any, ...], Any]] = {}
        few = frame[(frame.problem == problem) & frame.method.isin(methods)]
        for row in few.itertuples():
            asked = (row.instance_hash, row.seed, *(_plain(getattr(row, name)) for name in TOLD))
            objectives.setdefault(row.method, {})[asked] = row.objective
        for one in rules:
            mine = objectives.get(one.name)
            if mine is not None and mine == objectives.get(str(one.coincides_with)):
                found[problem, one.name] = str(one.coincides_with)
    return found


def labels(frame: pd.DataFrame) -> list[str]:
    """Return what tables call each row's method.

    With the time limit and so on where the rows differ in it. The time limit is left out for
    methods that had one only and never needed all of it; the source file's hash for custom
    heuristics of which the rows have one state only. Rules that decide the same by construction are
    called by both names where all their solves agree, and what the problem's `labels` say of a
    method stands beside it.
    """
    told = differing(frame)
    once = {
        name: {m for m, of in frame.groupby("method") if len({*map(_plain, of[name])}) == 1}
        for name in ("time_limit_s", "source_sha256")
    }
    limited = set(frame.method[frame.termination == "time_limit"])
    unsaid = once | {"time_limit_s": once["time_limit_s"] - limited}
    also: dict[tuple[str, str], str] = {}
    for (problem, method), other in _coinciding(frame).items():
        also[problem, method] = also[problem, other] = labelled(problem, f"{other} = {method}")
    found: list[str] = []
    names: dict[tuple[str, str], str] = {}
    asked = [frame[name] for name in told]
    for problem, method, *values in zip(frame.problem, frame.method, *asked, strict=True):
        which = problem, method
        if which not in names:
            names[which] = also.get(which) or labelled(problem, method)
        words = [
            _words(name, value)
            for name, value in zip(told, values, strict=True)
            if method not in unsaid.get(name, ())
        ]
        found.append(" ".join([names[which], *filter(None, words)]))
    return found


def labelled(problem: str, method: str) -> str:
    """Return a method's name, with what the problem wants to stand beside it in tables."""
    known = get_problem(problem).known_heuristic(split_name(method.partition(" = ")[0])[0])
    return f"{method} ({known.label})" if known is not None and known.label else method


def _words(name: str, value: Any) -> str:
    if value is None or value != value or value in ("", {}):
        return ""
    if name == "options":
        return json.dumps(value, sort_keys=True)
    if name == "source_sha256":
        return f"source {value[:8]}"
    unit = {"time_limit_s": "s", "workers": "workers", "work_limit": "units"}[name]
    return f"{value:g} {unit}"
