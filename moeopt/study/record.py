"""One solve as one flat row: what was asked, and what came of it.

The class is the only list of a solve's fields. The store's columns, what files and JSON have, and
the columns of a campaign's frame are read off it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model

from moeopt.core.envelope import SolutionEnvelope, validated
from moeopt.core.errors import (
    ContradictionError,
    HeuristicError,
    InputError,
    LimitError,
    MoeoptError,
)
from moeopt.core.json_files import MAX_FILE_BYTES, JsonObject
from moeopt.core.objective import Objective, entries
from moeopt.core.problem import Violation
from moeopt.core.untrusted import check_growth
from moeopt.problems.registry import get_problem
from moeopt.solvers.evidence import Proof
from moeopt.solvers.result import Status, Termination

FailureKind = Literal["input", "rule", "mismatch", "crash", "died"]

ERRORS: dict[FailureKind, type[MoeoptError]] = {
    "input": InputError,
    "rule": HeuristicError,
    "mismatch": ContradictionError,
    "crash": ContradictionError,
    "died": LimitError,
}
"""Why a solve has no result -> the error that says so.

An option or a size that the method refuses; a custom heuristic that raises, or returns no solution
of the instance; a bug in a model; any other exception; a process that ended.
"""

Seconds = Annotated[float, Field(ge=0, le=1e9)]
Cost = int | tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class SolveRecord:
    """One solve. Unknown is None.

    Attributes
    ----------
    key
        What the solve is known by: `moeopt.study.plan.Job.key`.
    instance, instance_hash
        The instance's name, and the SHA-256 of its content.
    time_limit_s, work_limit
        The limits that were asked for.
    options
        What else `moeopt.solve` was called with: engine, warm_start.
    source_sha256
        SHA-256 of the file of a custom heuristic; empty for moeopt's methods.
    version
        The version of moeopt.
    failure, detail
        Why there is no result, if there is none, and the traceback of a crash; `raw_status` says it
        in words and `status` is "failed".
    facts
        What the problem says of the solution, such as its bottleneck; with ``knew``, by which
        information a heuristic decided.
    machine
        Processor, cores and system of the machine that solved it.
    solution
        The decision, as JSON.
    finished
        When it ended, in UTC.

    The other fields are those of `moeopt.Result`.
    """

    key: str
    problem: str
    instance: str
    instance_hash: str
    method: str
    seed: int = 0
    time_limit_s: Seconds | None = None
    work_limit: Seconds | None = None
    workers: int = 1
    options: JsonObject = field(default_factory=dict)
    source_sha256: str = ""
    version: str = ""
    engine: str | None = None
    status: Status
    termination: Termination = "completed"
    raw_status: str = ""
    objective: Cost | None = None
    bound: Cost | None = None
    proof: Proof | None = None
    build_s: Seconds = 0.0
    solve_s: Seconds = 0.0
    compile_s: Seconds | None = None
    work: float | None = None
    violations: list[Violation] = field(default_factory=list)
    trace: list[tuple[float, Cost | None, Cost | None]] = field(default_factory=list)
    facts: JsonObject = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    machine: JsonObject = field(default_factory=dict)
    failure: FailureKind | None = None
    detail: str = ""
    solution: str | None = None
    finished: str = ""

    @property
    def failed(self) -> bool:
        """Whether the solve has no result."""
        return self.failure is not None

    def error(self) -> MoeoptError:
        """Return the error that stands for a failure."""
        return ERRORS[self.failure or "crash"](self.raw_status)


NAMES = tuple(one.name for one in fields(SolveRecord))
COSTS = ("objective", "bound")
MOST_ENTRIES = 2
"""Of an objective: those of `deferral`."""

JSON = "JSON TEXT"
"""An SQL type of which SQLite makes text, never a number."""

KINDS = {str: "TEXT", int: "INTEGER", float: "REAL"}


@cache
def columns() -> dict[str, str]:
    """Return each column of the store with its SQL type; what is no scalar is JSON.

    An objective's entries have a column each.
    """
    found: dict[str, str] = {}
    for name, hint in get_type_hints(SolveRecord).items():
        if name in COSTS:
            found |= {f"{name}_{at}": "INTEGER" for at in range(MOST_ENTRIES)}
        elif name in NAMES:
            found[name] = KINDS.get(_scalar(hint), JSON)
    return found


def _scalar(hint: Any) -> Any:
    """Return the type that a field holds besides None; str for a choice of words."""
    kinds = [one for one in get_args(hint) if one is not type(None)]
    if hint in KINDS or not kinds:
        return hint
    if all(isinstance(one, str) for one in kinds):
        return str
    return _scalar(kinds[0]) if len(kinds) == 1 else object


def to_row(record: SolveRecord) -> tuple[object, ...]:
    """Return a record's values by `columns`."""
    row: list[object] = []
    types = columns()
    for name in NAMES:
        value = getattr(record, name)
        if name in COSTS:
            parts: list[object] = [] if value is None else [*entries(value)]
            row += [*parts, *[None] * (MOST_ENTRIES - len(parts))]
        else:
            row.append(json.dumps(value) if types[name] == JSON else value)
    return tuple(row)


@cache
def _fields() -> type[BaseModel]:
    """Return a model that checks what a row's fields hold."""
    hints = {
        name: (hint, ...) for name, hint in get_type_hints(SolveRecord, None, None, True).items()
    }
    own: dict[str, Any] = {name: hint for name, hint in hints.items() if name in NAMES}
    return create_model("Row", __config__=ConfigDict(strict=True), **own)


def from_row(row: Sequence[Any]) -> SolveRecord:
    """Return the record again; a store's rows are data from strangers.

    Raises
    ------
    InputError
        If a value is not one of its field.
    """
    values = dict(zip(columns(), row, strict=True))
    data: dict[str, Any] = {}
    for name in NAMES:
        if name in COSTS:
            data[name] = joined([values[f"{name}_{at}"] for at in range(MOST_ENTRIES)])
        elif columns()[name] == JSON:
            data[name] = _parsed(values[name], name)
        else:
            data[name] = values[name]
    with validated("a row of the store"):
        data["trace"] = _TRACE.validate_python(data["trace"])
        data["violations"] = _VIOLATIONS.validate_python(data["violations"])
        read = _fields().model_validate(data)
    return SolveRecord(**{name: getattr(read, name) for name in NAMES})


_TRACE: TypeAdapter[Any] = TypeAdapter(list[tuple[float, Cost | None, Cost | None]])
_VIOLATIONS: TypeAdapter[Any] = TypeAdapter(list[Violation])
"""Fields whose tuples are lists in JSON."""


def joined(parts: Sequence[Any]) -> Any:
    """Return an objective of its entries; None without any."""
    known = [one for one in parts if one is not None]
    return None if not known else known[0] if len(known) == 1 else tuple(known)


def _parsed(text: object, what: str) -> Any:
    try:
        return json.loads(str(text))
    except (ValueError, RecursionError):
        raise InputError(f"a row of the store: {what}: is no JSON") from None


def packed_solution(solution: SolutionEnvelope | None) -> str | None:
    """Return a solution as a record has it."""
    if solution is None:
        return None
    return json.dumps(solution.model_dump(mode="json"), separators=(",", ":"), ensure_ascii=False)


def unpacked_solution(problem: str, text: str | None) -> SolutionEnvelope | None:
    """Return a record's solution; None where there is none.

    Raises
    ------
    InputError
        If the text is no solution of the problem.
    """
    if text is None:
        return None
    if len(text) > MAX_FILE_BYTES:
        raise InputError("solution: is too long")
    check_growth(text, "solution")
    with validated("a row of the store"):
        found: SolutionEnvelope = (
            get_problem(problem).Solution().model_validate(_parsed(text, "solution"))
        )
    return found


def to_dict(record: SolveRecord) -> dict[str, Any]:
    """Return the fields, objectives as they are."""
    return {name: getattr(record, name) for name in NAMES}


def entries_or_none(value: Objective | None) -> list[int] | None:
    """Return an objective as files have it: a list of integers, or None."""
    return None if value is None else list(entries(value))
