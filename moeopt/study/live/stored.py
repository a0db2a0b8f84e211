"""What a store holds, read while a campaign writes to it; nothing is written, not even a lock."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from moeopt.core.errors import InputError
from moeopt.core.objective import Objective, first_key
from moeopt.study.schema import APPLICATION_ID, SCHEMA_VERSION, readable_errors
from moeopt.study.store import frozen, unpacked_instance, unpacked_solution

MOST_ROWS = 2000
"""Results that are handed out at once."""

ROWS = """
    SELECT solve.id, problem, name, solve.instance, solve.method, solve.status, solve.objective,
        solve.bound, build_s + solve_s, solution IS NOT NULL,
        (SELECT group_concat(family, ' | ') FROM member WHERE member.instance = solve.instance)
    FROM solve JOIN instance ON hash = solve.instance
    WHERE solve.id > ? AND termination <> 'interrupted' ORDER BY solve.id LIMIT ?"""


def rows_after(path: Path, after: int) -> dict[str, Any]:
    """Return the results that came after one, at most `MOST_ROWS`, to be written as JSON.

    Parameters
    ----------
    path
        The store.
    after
        The number of the last result that is known; 0 at the beginning.

    Returns
    -------
    dict
        ``rows``: number, problem, instance's name and hash, method, status, first entries of
        objective and bound, seconds, whether it is proven optimal, whether there is a solution,
        families. ``known``: hash -> the optimum that a library has proven, of the rows' instances.
        ``more``: whether there are more.

    Raises
    ------
    InputError
        If the store cannot be read.
    """
    with _reading(path) as connection:
        found = connection.execute(ROWS, (after, MOST_ROWS)).fetchall()
        proven = connection.execute(
            "SELECT instance, objective FROM known WHERE objective = bound"
        ).fetchall()
    here = {row[3] for row in found}
    rows = []
    for (
        number,
        problem,
        name,
        digest,
        method,
        status,
        cost,
        bound,
        seconds,
        solution,
        family,
    ) in found:
        objective, low = _objective(cost), _objective(bound)
        rows.append(
            {
                "id": number,
                "problem": problem,
                "instance": name,
                "hash": digest,
                "method": method,
                "status": status,
                "objective": None if objective is None else first_key(objective),
                "bound": None if low is None else first_key(low),
                "seconds": seconds,
                "proven": objective is not None and objective == low,
                "solution": bool(solution),
                "family": family or "-",
            }
        )
    known = {
        digest: first_key(frozen(json.loads(cost))) for digest, cost in proven if digest in here
    }
    return {"rows": rows, "known": known, "more": len(found) == MOST_ROWS}


def schedule_of(path: Path, number: int) -> tuple[str, Any, Any]:
    """Return title, instance and solution of a result.

    Raises
    ------
    InputError
        If there is no such result, or it has no solution.
    """
    query = """
        SELECT problem, json, solution, name, method FROM solve
        JOIN instance ON hash = instance WHERE id = ?"""
    with _reading(path) as connection:
        found = connection.execute(query, (number,)).fetchone()
    if found is None or found[2] is None:
        raise InputError(f"{path}: result {number}: there is none, or it has no solution")
    problem, blob, solution, name, method = found
    return (
        f"{name}: {method}",
        unpacked_instance(problem, blob),
        unpacked_solution(problem, solution),
    )


def need_store(path: Path) -> None:
    """Refuse what is no store of this version.

    Raises
    ------
    InputError
        With the file and the reason.
    """
    if not path.is_file():
        raise InputError(f"{path}: cannot be read: there is no such store")
    with _reading(path) as connection:
        [application] = connection.execute("PRAGMA application_id").fetchone()
        [version] = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise InputError(f"{path}: not a store of moeopt")
    if version != SCHEMA_VERSION:
        how = f"moeopt gap --store {path} brings an older one up to date"
        raise InputError(f"{path}: has schema {version}, not {SCHEMA_VERSION}; {how}")


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a store so that it cannot be written, for one request: threads share no connection."""
    with (
        readable_errors(str(path)),
        closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection,
    ):
        connection.execute("PRAGMA query_only = ON")
        yield connection


def _objective(text: str | None) -> Objective | None:
    return None if text is None else frozen(json.loads(text))
