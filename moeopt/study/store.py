"""Where results are kept: an SQLite file, one transaction per solve.

A process that is killed loses the solves it was making, nothing else. Several processes may write
to one store: a solve's key is unique, and the first result that is stored under it stays. Any
program can read it: ``pandas.read_sql("SELECT * FROM solve", sqlite3.connect(FILE))``.
"""

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from pydantic import TypeAdapter

from moeopt.core.envelope import InstanceEnvelope, validated
from moeopt.core.errors import InputError, StoreError
from moeopt.core.json_files import MAX_FILE_BYTES
from moeopt.core.untrusted import check_growth, expanded
from moeopt.problems.registry import get_problem
from moeopt.solvers.methods import problem_methods
from moeopt.study.attempt import attempt
from moeopt.study.known import Known
from moeopt.study.plan import Entry, Job, canonical
from moeopt.study.record import (
    Cost,
    SolveRecord,
    from_row,
    packed_solution,
    to_row,
    unpacked_solution,
)
from moeopt.study.schema import MEMORY, SOLVE, connect, readable_errors, to_read, transaction
from moeopt.study.traits import Traits, traits_of

if TYPE_CHECKING:
    import pandas as pd

DONE = "status <> 'failed' AND termination <> 'interrupted'"
"""An interrupted solve keeps its incumbent but counts as pending, as does a failed one."""


@dataclass(frozen=True)
class Member:
    """An instance of the store in one of its families, without its data."""

    instance_hash: str
    problem: str
    name: str
    family: str
    tags: Mapping[str, str]


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
        self._read_only = read_only
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
        """Keep instances, the families they stand in, and what their libraries know."""
        with readable_errors(self.path), transaction(self._connection):
            there = {digest for (digest,) in self._connection.execute("SELECT hash FROM instance")}
            for entry in entries:
                digest, instance = entry.instance_hash, entry.instance
                if digest not in there:
                    there.add(digest)
                    traits = _TRAITS.dump_json(traits_of(instance)).decode()
                    row = instance.problem, instance.name, traits, packed_instance(instance)
                    self._connection.execute(
                        "INSERT INTO instance (hash, problem, name, traits, json) "
                        "VALUES (?, ?, ?, ?, ?)",
                        (digest, *row),
                    )
                self._connection.execute(
                    "INSERT OR IGNORE INTO member VALUES (?, ?, ?)",
                    (digest, entry.family, json.dumps(entry.tags)),
                )
                if entry.known is not None:  # what it knew when the store was made may improve
                    self._connection.execute(
                        "INSERT OR REPLACE INTO known VALUES (?, ?, ?, ?, ?)",
                        (digest, *_known_row(entry.known)),
                    )

    def done(self, instance_hash: str) -> set[str]:
        """Return the keys of the solves of an instance that are done."""
        query = f"SELECT key FROM solve WHERE instance_hash = ? AND {DONE}"  # noqa: S608
        with readable_errors(self.path):
            return {key for (key,) in self._connection.execute(query, (instance_hash,))}

    def has(self, key: str) -> bool:
        """Tell whether a solve is done."""
        query = f"SELECT 1 FROM solve WHERE key = ? AND {DONE}"  # noqa: S608 - our own columns
        with readable_errors(self.path):
            return self._connection.execute(query, (key,)).fetchone() is not None

    def add(self, record: SolveRecord) -> None:
        """Keep how a solve ended, in one transaction.

        A result stays as it is, but for one that Ctrl-C cut short. A failure gives way to anything.
        """
        marks = ", ".join("?" * len(SOLVE.split(", ")))
        update = ", ".join(f"{name} = excluded.{name}" for name in SOLVE.split(", "))
        old = "status = 'failed'" if record.failed else f"NOT ({DONE})"
        statement = (
            f"INSERT INTO solve ({SOLVE}) VALUES ({marks}) "  # noqa: S608 - our own names
            f"ON CONFLICT (key) DO UPDATE SET {update} WHERE {old}"
        )
        with readable_errors(self.path), transaction(self._connection):
            self._connection.execute(statement, to_row(record))

    def solved(self, job: Job) -> SolveRecord:
        """Return how a solve ends; one that is not kept is made now, and kept if that is allowed.

        Its instance need not be enrolled: a solve of no family is in no table.
        """
        if self.has(job.key):
            return next(one for one in self.records(job.instance_hash) if one.key == job.key)
        record = attempt(job)
        if not self._read_only:
            self.add(record)
        return record

    def records(self, instance_hash: str | None = None) -> list[SolveRecord]:
        """Return the solves of one instance, or all, in the order in which they came."""
        where = "" if instance_hash is None else "WHERE instance_hash = ?"
        query = f"SELECT {SOLVE} FROM solve {where} ORDER BY id"  # noqa: S608 - our own names
        asked = () if instance_hash is None else (instance_hash,)
        with readable_errors(self.path):
            found = self._connection.execute(query, asked).fetchall()
        with _row_of(self.path):
            return [from_row(row) for row in found]

    def known(self, instance_hash: str) -> Known | None:
        """Return what the library of an enrolled instance knew; None if nothing."""
        query = """
            SELECT problem, method, objective, bound, solution FROM known
            JOIN instance ON hash = instance WHERE instance = ?"""
        with readable_errors(self.path):
            found = self._connection.execute(query, (instance_hash,)).fetchone()
        if found is None:
            return None
        problem, method, objective, bound, text = found
        with _row_of(self.path):
            cost, low = (
                None if of is None else _COST.validate_json(of) for of in (objective, bound)
            )
            solution = unpacked_solution(problem, text)
        if cost is None or solution is None:
            raise StoreError(f"{self.path}: what is known of {instance_hash} is not readable")
        return Known(str(method), cost, low, solution)

    def members(self) -> list[Member]:
        """Return the instances, by family, in the order in which they came."""
        query = """
            SELECT hash, problem, name, family, tags FROM instance JOIN member ON instance = hash
            ORDER BY instance.rowid, member.rowid"""
        with readable_errors(self.path):
            found = self._connection.execute(query).fetchall()
        with _row_of(self.path):
            read = [
                _MEMBER.validate_python((*which, _JSON.validate_json(tags)), strict=True)
                for *which, tags in found
            ]
            return [Member(*one) for one in read if get_problem(one[1])]

    def frame(self) -> "pd.DataFrame":
        """Return every solve against the best that is known, by problem, family and instance."""
        from moeopt.study.frame import bracket_of, frame_of

        of: dict[str, list[SolveRecord]] = {}
        for record in self.records():
            of.setdefault(record.instance_hash, []).append(record)
        known = self.all_known()
        brackets = {digest: bracket_of(some, known.get(digest)) for digest, some in of.items()}
        rows = []
        for member in self.members():
            solved = of.get(member.instance_hash, [])
            order = list(problem_methods(get_problem(member.problem)))
            order += [r.method for r in solved if r.method not in order]  # there no longer
            place = {method: at for at, method in enumerate(order)}
            for record in sorted(solved, key=lambda r: (*_limits(r), place[r.method], r.key)):
                rows.append((member.family, member.tags, record))
        rows.sort(key=lambda row: (row[2].problem, row[0], row[2].instance))
        return frame_of(rows, brackets)

    def all_known(self) -> dict[str, Known]:
        """Return what libraries know, by instance."""
        with readable_errors(self.path):
            found = self._connection.execute("SELECT instance FROM known").fetchall()
        known = {digest: self.known(digest) for (digest,) in found}
        return {digest: one for digest, one in known.items() if one is not None}

    def traits(self) -> dict[str, Traits]:
        """Return what is said of each instance; what is not kept yet is read off it now."""
        with readable_errors(self.path):
            kept = self._traits()
        with _row_of(self.path):
            found = {d: _TRAITS.validate_json(text) for d, text in kept.items() if text is not None}
        for digest in kept.keys() - found.keys():  # in a store of an earlier version
            found[digest] = traits_of(self.instance(digest))
            if not self._read_only:
                row = _TRAITS.dump_json(found[digest]).decode(), digest
                with readable_errors(self.path), transaction(self._connection):
                    self._connection.execute("UPDATE instance SET traits = ? WHERE hash = ?", row)
        return found

    def _traits(self) -> dict[str, str | None]:
        """Return the column of traits by instance; empty in a file that has no such column."""
        columns = {name for _, name, *_ in self._connection.execute("PRAGMA table_info(instance)")}
        asked = "traits" if "traits" in columns else "NULL"
        query = f"SELECT hash, {asked} FROM instance ORDER BY rowid"  # noqa: S608 - our own names
        return dict(self._connection.execute(query).fetchall())

    def instance(self, instance_hash: str) -> InstanceEnvelope:
        """Return an instance, with its provenance, as it was loaded."""
        query = "SELECT problem, json FROM instance WHERE hash = ?"
        with readable_errors(self.path):
            found = self._connection.execute(query, (instance_hash,)).fetchone()
        if found is None:
            raise StoreError(f"{self.path}: the store has no instance {instance_hash}")
        with _row_of(self.path):
            return unpacked_instance(*found)


_MEMBER = TypeAdapter(tuple[str, str, str, str, dict[str, str]])
_JSON: TypeAdapter[Any] = TypeAdapter(Any)
_COST: TypeAdapter[Cost] = TypeAdapter(Cost)
_TRAITS = TypeAdapter(Traits)


def packed_instance(instance: InstanceEnvelope) -> bytes:
    """Return an instance's canonical JSON, compressed."""
    return gzip.compress(canonical(instance), mtime=0)


def unpacked_instance(problem: str, blob: object) -> InstanceEnvelope:
    """Return the instance again."""
    model = get_problem(problem).Instance()
    if not isinstance(blob, bytes):
        raise InputError("instance: the store has no blob there")
    what = "instance: the store's blob"
    text = expanded(blob, MAX_FILE_BYTES, what).decode(errors="replace")
    check_growth(text, what)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"{what} is no JSON") from None
    instance: InstanceEnvelope = model.model_validate(data)
    return instance


def _limits(record: SolveRecord) -> tuple[float, int, float]:
    return record.time_limit_s or 0.0, record.seed, record.work_limit or 0.0


def _known_row(known: Known) -> Sequence[str | None]:
    bound = None if known.bound is None else json.dumps(known.bound)
    return known.method, json.dumps(known.objective), bound, packed_solution(known.solution)


@contextmanager
def _row_of(path: str) -> Iterator[None]:
    """Turn what is wrong with a row into a StoreError; rows are data from strangers, too."""
    try:
        with validated("a row of the store"):
            yield
    except InputError as error:
        raise StoreError(f"{path}: {error}") from None
