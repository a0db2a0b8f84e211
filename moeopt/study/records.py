"""Instances, keys and results as they stand in the store's columns, and back."""

import gzip
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from moeopt.problems.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.problems.objective import Objective
from moeopt.problems.registry import get_problem
from moeopt.solvers.result import Result
from moeopt.study.attempt import Solved
from moeopt.study.plan import Key, canonical

SOLVE = (
    "status, termination, objective, bound, build_s, solve_s, engine, raw_status, solution, "
    "violations, trace, versions, facts, machine, finished"
)
"""The columns of a solve after its key."""


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def packed_instance(instance: InstanceEnvelope) -> bytes:
    """Return an instance's canonical JSON, compressed."""
    return gzip.compress(canonical(instance), mtime=0)


def unpacked_instance(problem: str, blob: bytes) -> InstanceEnvelope:
    """Return the instance again."""
    model = get_problem(problem).part("instance").Instance
    instance: InstanceEnvelope = model.model_validate(json.loads(gzip.decompress(blob)))
    return instance


def to_columns(solved: Solved) -> tuple[Any, ...]:
    """Return the values of `SOLVE`."""
    r = solved.result
    return (
        r.status,
        r.termination,
        _text(r.objective),
        _text(r.bound),
        r.build_s,
        r.solve_s,
        r.engine,
        r.raw_status,
        _packed_solution(r.solution),
        json.dumps(r.violations),
        json.dumps(r.trace),
        json.dumps(r.versions),
        json.dumps(solved.facts),
        json.dumps(solved.machine),
        now(),
    )


def from_columns(problem: str, instance: str, key: Key, columns: Sequence[Any]) -> Solved:
    """Return what `to_columns` was given; `instance` is the instance's name."""
    named = dict(zip(SOLVE.split(", "), columns, strict=True))
    result = Result(
        problem=problem,
        instance=instance,
        method=key.method,
        engine=named["engine"],
        seed=key.seed,
        workers=key.workers,
        status=named["status"],
        termination=named["termination"],
        objective=_objective(named["objective"]),
        bound=_objective(named["bound"]),
        solution=_unpacked_solution(problem, named["solution"]),
        violations=[(rule, sentence) for rule, sentence in json.loads(named["violations"])],
        build_s=named["build_s"],
        solve_s=named["solve_s"],
        trace=[(at, frozen(best), frozen(low)) for at, best, low in json.loads(named["trace"])],
        raw_status=named["raw_status"],
        versions=json.loads(named["versions"]),
    )
    return Solved(result, json.loads(named["facts"]), json.loads(named["machine"]))


def _text(objective: Objective | None) -> str | None:
    return None if objective is None else json.dumps(objective)


def _objective(text: str | None) -> Objective | None:
    return None if text is None else frozen(json.loads(text))


def frozen(value: Any) -> Any:
    """Return an objective as it was before it was JSON."""
    return tuple(value) if isinstance(value, list) else value


def _packed_solution(solution: SolutionEnvelope | None) -> bytes | None:
    if solution is None:
        return None
    text = json.dumps(solution.model_dump(mode="json"), separators=(",", ":"), ensure_ascii=False)
    return gzip.compress(text.encode(), mtime=0)


def _unpacked_solution(problem: str, blob: bytes | None) -> SolutionEnvelope | None:
    if blob is None:
        return None
    model = get_problem(problem).part("solution").Solution
    solution: SolutionEnvelope = model.model_validate(json.loads(gzip.decompress(blob)))
    return solution
