"""Where results are kept: an SQLite file, one transaction per solve.

A process that is killed loses the solves it was making, nothing else. Several processes may write
to one store: a solve's key is unique, and the first result that is stored under it stays.
"""

import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Json, TypeAdapter

from moeopt.core.envelope import InstanceEnvelope, SolutionEnvelope, validated
from moeopt.core.errors import InputError, StoreError
from moeopt.core.json_files import MAX_FILE_BYTES, JsonObject
from moeopt.core.objective import Objective
from moeopt.core.problem import Violation
from moeopt.core.untrusted import check_growth, expanded
from moeopt.problems.registry import get_problem
from moeopt.solvers.evidence import Proof
from moeopt.solvers.methods import problem_methods
from moeopt.solvers.result import Result, Status, Termination
from moeopt.study.attempt import Failure, Solved, failed_solve
from moeopt.study.known import Known
from moeopt.study.plan import Entry, Key, canonical
from moeopt.study.rows import Row, compare
from moeopt.study.schema import KEY, MEMORY, connect, readable_errors, to_read, transaction

WIDTH = len(Key._fields)

SAME = " AND ".join(f"{column} = ?" for column in Key._fields)

REASON = "kind, message, detail"
"""The columns of a failure after its key."""

DONE = "termination <> 'interrupted'"
"""After Ctrl-C the best so far is kept, but the solve is still to be made."""


@dataclass(frozen=True)
class StoredInstance:
    """An instance of the store, without its data."""

    content_hash: str
    problem: str
    name: str
    families: tuple[str, ...]


class Store:
    """A file of results; a context manager.

    Parameters
    ----------
    path
        The file; by default a store in memory.
    create
        Whether to make the file if there is none.
    read_only
        Whether nothing is written, not even a lock.

    Raises
    ------
    StoreError
        Here and in every method: if the file is not a store, was made by another moeopt, or can
        not be read or written.
    """

    def __init__(
        self, path: str | Path = MEMORY, *, create: bool = True, read_only: bool = False
    ) -> None:
        self.path = str(path)
        self._connection = to_read(self.path) if read_only else connect(self.path, create)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def enroll(self, entries: Iterable[Entry]) -> None:
        """Keep instances and the families they stand in."""
        with readable_errors(self.path), transaction(self._connection):
            there = {digest for (digest,) in self._connection.execute("SELECT hash FROM instance")}
            for entry in entries:
                instance = entry.instance
                if entry.content_hash not in there:
                    there.add(entry.content_hash)
                    what = (instance.problem, instance.name, packed_instance(instance))
                    self._connection.execute(
                        "INSERT INTO instance VALUES (?, ?, ?, ?)", (entry.content_hash, *what)
                    )
                self._connection.execute(
                    "INSERT OR IGNORE INTO member VALUES (?, ?)", (entry.content_hash, entry.family)
                )
                if entry.known is not None:
                    self._keep_known(entry.content_hash, entry.known)

    def done(self, content_hash: str) -> set[tuple[object, ...]]:
        """Return the keys of the solves of an instance that are done."""
        keys = f"SELECT {KEY} FROM solve WHERE instance = ?"  # noqa: S608 - our own columns
        with readable_errors(self.path):
            done = set(self._connection.execute(keys, (content_hash,)))
            cut_short = f"{keys} AND termination = 'interrupted'"  # a small index of its own
            return done.difference(self._connection.execute(cut_short, (content_hash,)))

    def has(self, key: Key) -> bool:
        """Tell whether a solve is done."""
        query = f"SELECT 1 FROM solve WHERE {SAME} AND {DONE}"  # noqa: S608 - our own columns
        with readable_errors(self.path):
            return self._connection.execute(query, key).fetchone() is not None

    def add(self, key: Key, ended: Solved | Failure) -> None:
        """Keep how a solve of an enrolled instance ended, in one transaction.

        A result stays as it is, but for one that Ctrl-C cut short. A failure gives way to a result.
        """
        with readable_errors(self.path), transaction(self._connection):
            if isinstance(ended, Failure):
                if self.has(key):
                    return  # another process had more luck
                values = (*key, ended.kind, ended.message, ended.detail, now())
                self._insert("failure", f"{KEY}, {REASON}, finished", values, "TRUE")
            else:
                self._insert(
                    "solve", f"{KEY}, {SOLVE}", (*key, *to_columns(ended)), f"NOT ({DONE})"
                )
                self._forget_failure(key)

    def solved(self, content_hash: str) -> dict[Key, Solved]:
        """Return all results of one instance, in the order in which they came."""
        with _row_of(self.path):
            return {
                key: from_columns(problem, name, key, columns)
                for problem, name, key, columns in self._of("solve", SOLVE, content_hash)
            }

    def ended(self, content_hash: str) -> dict[Key, Solved]:
        """Return what stands for the failed solves of one instance, then its results."""
        with _row_of(self.path):
            failed = {
                key: failed_solve(problem, name, key, _failure(columns))
                for problem, name, key, columns in self._of("failure", REASON, content_hash)
            }
        return failed | self.solved(content_hash)

    def _of(
        self, table: str, columns: str, content_hash: str
    ) -> Iterator[tuple[str, str, Key, Sequence[object]]]:
        """Yield problem, instance's name, key and columns of an instance's rows, as they came.

        Whoever goes through them does so within `_row_of`.
        """
        query = f"""
            SELECT problem, name, {KEY}, {columns} FROM {table}
            JOIN instance ON hash = instance WHERE instance = ? ORDER BY id"""  # noqa: S608
        with readable_errors(self.path):
            found = self._connection.execute(query, (content_hash,)).fetchall()
        for problem, name, *rest in found:
            yield problem, name, key_from(rest[:WIDTH]), rest[WIDTH:]

    def known(self, content_hash: str) -> Known | None:
        """Return what the library of an enrolled instance knew; None if nothing."""
        query = """
            SELECT problem, method, objective, bound, solution FROM known
            JOIN instance ON hash = instance WHERE instance = ?"""
        with readable_errors(self.path):
            found = self._connection.execute(query, (content_hash,)).fetchone()
        if found is None:
            return None
        problem, method, objective, bound, blob = found
        with _row_of(self.path):
            cost, low = _objective(objective), _objective(bound)
            solution = unpacked_solution(problem, blob)
        if cost is None or solution is None:
            raise StoreError(f"{self.path}: what is known of {content_hash} is not readable")
        return Known(str(method), cost, low, solution)

    def rows(self) -> list[Row]:
        """Return every solve against the best that is known, by problem, family and instance."""
        rows = []
        for member in self.instances():
            solved = self.ended(member.content_hash)
            order = list(problem_methods(get_problem(member.problem)))
            order += [key.method for key in solved if key.method not in order]  # there no longer
            keys = sorted(solved, key=lambda k: (k.time_limit_s, k.seed, order.index(k.method), *k))
            for family in member.families:
                rows += compare(family, solved, keys, self.known(member.content_hash))
        return sorted(rows, key=lambda r: (r.result.problem, r.family, r.result.instance))

    def failures(self) -> list[tuple[Key, Failure]]:
        """Return the solves that have no result, and why."""
        query = f"SELECT {KEY}, {REASON} FROM failure ORDER BY id"  # noqa: S608
        with readable_errors(self.path):
            found = self._connection.execute(query).fetchall()
        with _row_of(self.path):
            return [(key_from(row[:WIDTH]), _failure(row[WIDTH:])) for row in found]

    def instances(self) -> list[StoredInstance]:
        """Return what instances there are, in the order in which they came."""
        query = """
            SELECT hash, problem, name, family FROM instance JOIN member ON instance = hash
            ORDER BY instance.rowid, member.rowid"""
        with readable_errors(self.path):
            found = self._connection.execute(query).fetchall()
        families: dict[tuple[str, str, str], list[str]] = {}
        for *which, family in found:
            families.setdefault((which[0], which[1], which[2]), []).append(family)
        with _row_of(self.path):
            return [
                StoredInstance(*_INSTANCE.validate_python((*which, tuple(names)), strict=True))
                for which, names in families.items()
                if get_problem(which[1])
            ]

    def instance(self, content_hash: str) -> InstanceEnvelope:
        """Return an instance, with its provenance, as it was loaded."""
        query = "SELECT problem, json FROM instance WHERE hash = ?"
        with readable_errors(self.path):
            found = self._connection.execute(query, (content_hash,)).fetchone()
        if found is None:
            raise StoreError(f"{self.path}: the store has no instance {content_hash}")
        with _row_of(self.path):
            return unpacked_instance(*found)

    def _insert(self, table: str, columns: str, values: tuple[object, ...], replace: str) -> None:
        """Insert a row; one of the same key is replaced if the condition holds for it."""
        marks = ", ".join("?" * len(values))
        update = ", ".join(f"{name} = excluded.{name}" for name in columns.split(", "))
        self._connection.execute(
            f"INSERT INTO {table} ({columns}) VALUES ({marks}) "  # noqa: S608 - our own names
            f"ON CONFLICT ({KEY}) DO UPDATE SET {update} WHERE {replace}",
            values,
        )

    def _keep_known(self, content_hash: str, known: Known) -> None:
        """Keep a library's bracket; what it knew when the store was made may have improved."""
        values = (known.method, _text(known.objective), _text(known.bound))
        self._connection.execute(
            "INSERT OR REPLACE INTO known VALUES (?, ?, ?, ?, ?)",
            (content_hash, *values, _packed_solution(known.solution)),
        )

    def _forget_failure(self, key: Key) -> None:
        self._connection.execute(f"DELETE FROM failure WHERE {SAME}", key)  # noqa: S608


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def packed_instance(instance: InstanceEnvelope) -> bytes:
    """Return an instance's canonical JSON, compressed."""
    return gzip.compress(canonical(instance), mtime=0)


def unpacked_instance(problem: str, blob: bytes) -> InstanceEnvelope:
    """Return the instance again."""
    model = get_problem(problem).Instance()
    instance: InstanceEnvelope = model.model_validate(_stored(blob, "instance"))
    return instance


def _stored(blob: object, what: str) -> Any:
    """Return the JSON of a blob; rows of a store are data from strangers, too."""
    if not isinstance(blob, bytes):
        raise InputError(f"{what}: the store has no blob there")
    text = expanded(blob, MAX_FILE_BYTES, f"{what}: the store's blob").decode(errors="replace")
    check_growth(text, f"{what}: the store's blob")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"{what}: the store's blob is no JSON") from None


def to_columns(solved: Solved) -> tuple[object, ...]:
    """Return the values of `SOLVE`."""
    r = solved.result
    texts = {"violations": r.violations, "trace": r.trace, "versions": r.versions}
    texts |= {"facts": solved.facts, "machine": solved.machine}
    values: dict[str, object] = {name: json.dumps(of) for name, of in texts.items()}
    values |= {"objective": _text(r.objective), "bound": _text(r.bound), "finished": now()}
    values["solution"] = _packed_solution(r.solution)
    return tuple(
        values[name] if name in values else getattr(r, name) for name in _Columns.model_fields
    )


OLD_PROOFS: dict[object, Proof] = {"integers": "single", "floats": "single"}
"""What version 1 wrote: neither word says that a second reason confirmed it."""

_Cost = int | tuple[int, ...] | None


_Seconds = Annotated[float, Field(ge=0, le=1e9)]


class _Columns(BaseModel):
    """What the columns of a solve may hold; JSON is parsed, anything else is as SQLite has it."""

    model_config = ConfigDict(strict=True, frozen=True)

    status: Status
    termination: Termination
    objective: Json[_Cost] | None
    bound: Json[_Cost] | None
    build_s: _Seconds
    solve_s: _Seconds
    compile_s: _Seconds | None
    engine: str | None
    raw_status: str
    solution: bytes | None
    violations: Json[list[Violation]]
    trace: Json[list[tuple[float, _Cost, _Cost]]]
    versions: Json[dict[str, str]]
    facts: Json[JsonObject]
    machine: Json[JsonObject]
    finished: str
    proof: Annotated[Proof | None, BeforeValidator(lambda said: OLD_PROOFS.get(said, said))]
    work: float | None


SOLVE = ", ".join(_Columns.model_fields)
"""The columns of a solve after its key."""

_KEY = TypeAdapter(Key)
_INSTANCE = TypeAdapter(tuple[str, str, str, tuple[str, ...]])
_FAILURE = TypeAdapter(Failure)
_COST: TypeAdapter[_Cost] = TypeAdapter(_Cost)


def _failure(columns: Sequence[object]) -> Failure:
    found: Failure = _FAILURE.validate_python(dict(zip(REASON.split(", "), columns, strict=True)))
    return found


@contextmanager
def _row_of(path: str) -> Iterator[None]:
    """Turn what is wrong with a row into a StoreError; rows are data from strangers, too."""
    try:
        with validated("a row of the store"):
            yield
    except InputError as error:
        raise StoreError(f"{path}: {error}") from None


def key_from(columns: Sequence[Any]) -> Key:
    """Return a key; its options are an object in JSON."""
    key: Key = _KEY.validate_python(tuple(columns), strict=True)
    _options_of(key)
    return key


def _options_of(key: Key) -> JsonObject:
    try:
        options = json.loads(key.options)
    except (ValueError, RecursionError):
        options = None
    if not isinstance(options, dict):
        raise InputError("a row of the store: options: must be an object")
    return options


def from_columns(problem: str, instance: str, key: Key, columns: Sequence[Any]) -> Solved:
    """Return what `to_columns` was given; `instance` is the instance's name."""
    kept = _Columns.model_validate(dict(zip(SOLVE.split(", "), columns, strict=True)))
    same = {field.name for field in fields(Result)} & set(_Columns.model_fields)
    known = {name: getattr(kept, name) for name in same}
    known["solution"] = unpacked_solution(problem, kept.solution)
    known["work_limit"] = _options_of(key).get("work_limit")
    result = Result(problem, instance, key.method, seed=key.seed, workers=key.workers, **known)
    return Solved(result, kept.facts, kept.machine)


def _text(objective: Objective | None) -> str | None:
    return None if objective is None else json.dumps(objective)


def _objective(text: str | None) -> Objective | None:
    return None if text is None else _COST.validate_json(text, strict=True)


def _packed_solution(solution: SolutionEnvelope | None) -> bytes | None:
    if solution is None:
        return None
    text = json.dumps(solution.model_dump(mode="json"), separators=(",", ":"), ensure_ascii=False)
    return gzip.compress(text.encode(), mtime=0)


def unpacked_solution(problem: str, blob: bytes | None) -> SolutionEnvelope | None:
    """Return a stored solution; None where there is none."""
    if blob is None:
        return None
    model = get_problem(problem).Solution()
    solution: SolutionEnvelope = model.model_validate(_stored(blob, "solution"))
    return solution
