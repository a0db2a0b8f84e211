"""The store's tables, its version, and how a file is opened and recognised."""

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

from moeopt.core.errors import StoreError
from moeopt.core.wording import shortened, shown

from .record import columns

APPLICATION_ID = 0x6D6F656F
"""Marks an SQLite file as ours: "moeo"."""

SCHEMA_VERSION, READ_FROM = 7, 6
"""A store of another version than these is refused. One of version 6 has no traits of instances: it
gets the column when it is next written, and whoever reads before makes them anew."""

BUSY_S = 60.0
"""How long a process waits for another one that is writing; a write takes milliseconds."""

MEMORY = ":memory:"

SOLVE = ", ".join(columns())
"""The columns of a solve: the fields of `moeopt.study.record.SolveRecord`."""

_FIELDS = ",\n    ".join(f"{name} {kind}" for name, kind in columns().items())

TABLES = f"""
CREATE TABLE instance (
    hash TEXT PRIMARY KEY,  -- SHA-256 of the canonical JSON
    problem TEXT NOT NULL,
    name TEXT NOT NULL,
    traits TEXT,            -- JSON: numbers, restrictions, when its loads came
    json BLOB NOT NULL      -- canonical JSON, gzip
);
CREATE TABLE member (
    instance TEXT NOT NULL REFERENCES instance (hash),
    family TEXT NOT NULL,
    tags TEXT NOT NULL,      -- whose loads, under which assumptions
    PRIMARY KEY (instance, family)
);
CREATE TABLE solve (        -- a row per solve; what failed has status "failed"
    id INTEGER PRIMARY KEY,
    {_FIELDS},
    UNIQUE (key)
);
CREATE TABLE known (        -- what libraries know
    instance TEXT PRIMARY KEY REFERENCES instance (hash),
    method TEXT NOT NULL,   -- that proved the bound
    objective TEXT NOT NULL, -- JSON
    bound TEXT,
    solution TEXT NOT NULL
);
CREATE INDEX of_instance ON solve (instance_hash);
"""


@contextmanager
def readable_errors(path: str) -> Iterator[None]:
    """Turn SQLite's errors into a StoreError that names the file."""
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
            raise StoreError(f"{path}: not a store of moeopt") from None
        raise StoreError(f"{path}: the store cannot be used: {shortened(str(error))}") from None
    except (UnicodeDecodeError, OverflowError):
        raise StoreError(f"{path}: the store cannot be used: it is damaged") from None


def connect(path: str, create: bool) -> sqlite3.Connection:
    """Open a store, or make a new one.

    The journal is a write-ahead log: whoever reads, such as a report, never waits for a campaign
    that writes, and a commit needs no wait for the disk. A killed process loses nothing that it
    committed; a power cut may lose the last commits, and never more than those. While a store is
    in use two files stand beside it, with the endings -wal and -shm; it must not be copied then,
    and not lie on a network drive.

    Raises
    ------
    StoreError
        If the file cannot be opened, is not a store, or was made by another moeopt.
    """
    if not create and path != MEMORY:
        _need_file(path)
    if "\0" in path:
        raise StoreError(f"{shortened(path)}: the store cannot be used: no path has a null byte")
    with readable_errors(path):
        connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
        try:
            _prepare(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def to_read(path: str) -> sqlite3.Connection:
    """Open a store so that it cannot be written.

    Raises
    ------
    StoreError
        If the file cannot be opened, or is no store that can be read.
    """
    _need_file(path)
    with readable_errors(path):
        mode = "mode=ro" if is_writable(path) or Path(f"{path}-wal").exists() else "immutable=1"
        connection = sqlite3.connect(f"{Path(path).absolute().as_uri()}?{mode}", uri=True)
        try:
            connection.execute("PRAGMA query_only = ON")
            if _recognised(connection, path) is None:
                raise StoreError(f"{path}: is no store")
        except BaseException:
            connection.close()
            raise
    return connection


def is_writable(path: str | Path) -> bool:
    """Tell whether a store can be written: SQLite makes files beside it, also to read it."""
    return os.access(path, os.W_OK) and os.access(Path(path).absolute().parent, os.W_OK)


def _need_file(path: str) -> None:
    if not Path(path).is_file():
        raise StoreError(f"{path}: cannot be read: there is no such store")
    if Path(path).stat().st_size == 0:
        raise StoreError(f"{path}: is empty, and no store")


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    connection.execute("PRAGMA foreign_keys = ON")
    with transaction(connection, "DEFERRED"):  # what is read is of one moment
        version = _recognised(connection, path)
    if version != SCHEMA_VERSION:
        _to_write_ahead_log(connection)
        with transaction(connection):
            version = _recognised(connection, path)  # another process may have been quicker
            if version is None:
                for statement in TABLES.split(";\n"):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            elif version != SCHEMA_VERSION:
                connection.execute("ALTER TABLE instance ADD COLUMN traits TEXT")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    connection.execute("PRAGMA synchronous = NORMAL")


def _recognised(connection: sqlite3.Connection, path: str) -> int | None:
    """Return the version of a store; None if the file is new and empty."""
    [application] = connection.execute("PRAGMA application_id").fetchone()
    if application == APPLICATION_ID:
        [version] = connection.execute("PRAGMA user_version").fetchone()
        if not READ_FROM <= version <= SCHEMA_VERSION:
            raise StoreError(
                f"{path}: the store has schema {version}, this moeopt knows {SCHEMA_VERSION}: "
                "another moeopt made it"
            )
        _refuse_what_computes(connection, path)
        return int(version)
    if connection.execute("SELECT count(*) FROM sqlite_master").fetchone() != (0,):
        raise StoreError(f"{path}: an SQLite database, but not a store of moeopt")
    return None


COMPUTES = re.compile(r"\bAS\s*(\(|/\*|--)|\bVIRTUAL\b", re.IGNORECASE)
"""In what made a table or an index: a column that is generated, a table that is code."""


def _refuse_what_computes(connection: sqlite3.Connection, path: str) -> None:
    """Refuse a store in which reading a row may take for ever, or do something: views, triggers."""
    for kind, name, sql in connection.execute("SELECT type, name, sql FROM sqlite_master"):
        if kind not in ("table", "index") or COMPUTES.search(str(sql)):
            raise StoreError(f"{path}: has a {kind} {shown(name)} that computes, and is refused")


def _to_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Change the journal; SQLite does not wait here for another process that does so, too."""
    give_up = monotonic() + BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or monotonic() > give_up:
                raise
            sleep(0.05)


@contextmanager
def transaction(connection: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """Do all of it or nothing.

    A writer takes the lock at the start, where waiting for it works; "DEFERRED" is for reading.
    """
    connection.execute(f"BEGIN {kind}")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
