"""The store: what goes in comes out, nothing is doubled, and other files are refused."""

import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

import moeopt
from tests.problems.deferral.random_schedules import random_instance as random_deferral
from tests.problems.tri_domain.random_instances import random_instance
from tests.rooms.study import (
    READ_FROM,
    SCHEMA_VERSION,
    Campaign,
    GapTable,
    Job,
    Jobs,
    Part,
    Settings,
    SolveRecord,
    Store,
    attempt,
    failed,
    make_plan,
)

INSTANCES = [random_instance(seed) for seed in range(3)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a store may be made."""
    return tmp_path / "results.db"


def plan_of(*instances: object, methods: tuple[str, ...] = ("greedy", "threshold")) -> Jobs:
    """Return the solves of a small campaign."""
    return make_plan(Campaign([Part(instances, Settings(methods=methods))]))  # type: ignore[arg-type]


def enrolled(path: Path) -> tuple[Store, Job, SolveRecord]:
    """Return a store that knows an instance, a job, and a result of it that may be stored."""
    plan = plan_of(INSTANCES[0])
    store = Store(path)
    store.enroll(plan.entries)
    job = next(plan.jobs())
    return store, job, attempt(job)


def rows_of(store: Store) -> GapTable:
    """Return a store's solves one by one."""
    return GapTable(store.frame())


@pytest.mark.parametrize("method", ["saturate", "dp", "cp-sat"])
def test_a_result_comes_back_whole(path: Path, method: str) -> None:
    """Objectives in two entries, bound, solution, trace, versions, facts: all as they were."""
    instance = random_deferral(3)
    plan = plan_of(instance, methods=(method,))
    job = next(plan.jobs())
    record = attempt(job)
    with Store(path) as store:
        store.enroll(plan.entries)
        store.add(record)
    with Store(path, create=False) as store:
        assert store.records(job.instance_hash) == [record]
        assert store.instance(job.instance_hash) == instance
        [row] = rows_of(store)
        assert (row.objective, row.key, row.family) == (record.objective, job.key, "-")
        assert row.solution == record.solution is not None


def test_a_result_without_a_solution_comes_back(path: Path) -> None:
    """Unknown stays None."""
    store, job, _ = enrolled(path)
    store.add(attempt(replace(job, method="cp-sat", time_limit_s=1e-9)))
    [found] = store.records(job.instance_hash)
    assert (found.objective, found.bound, found.solution) == (None, None, None)
    store.close()


def test_with_and_without_a_store_the_rows_are_the_same(path: Path) -> None:
    """All but the seconds; and a report can be made from the store alone."""
    without = moeopt.gap(INSTANCES, ["greedy", "trimoe"])
    kept = moeopt.gap(INSTANCES, ["greedy", "trimoe"], store=path)
    with Store(path) as store:
        stored = rows_of(store)
        assert sorted(map(told, stored)) == sorted(map(told, kept)) == sorted(map(told, without))
        assert [one.name for one in store.members()] == [i.name for i in INSTANCES]


def told(row: object) -> list[str]:
    """Return what of a row does not depend on the clock."""
    names = ("family", "key", "optimum", "best_bound", "facts", "excess")
    result = ("status", "objective", "bound", "solution", "raw_status", "versions")
    return [str(getattr(row, name)) for name in (*names, *result)]


def test_what_is_stored_is_not_solved_again(path: Path) -> None:
    """With resume only the rest is solved; without it the store is refused."""
    moeopt.gap(INSTANCES[:2], ["greedy"], store=path)
    started: list[str] = []
    with pytest.raises(moeopt.InputError, match="holds 4 of these 6 solves already"):
        moeopt.gap(INSTANCES, ["greedy"], store=path)
    rows = moeopt.gap(
        INSTANCES, ["greedy"], store=path, resume=True, on_start=lambda *said: started.append(said)
    )
    third = INSTANCES[2].name
    assert started == [(4, 6, third, "greedy"), (5, 6, third, "threshold")]
    assert len(rows) == 6


def test_what_another_process_stores_meanwhile_is_not_solved(path: Path) -> None:
    """Looked up again when its turn comes."""
    from tests.rooms.study import Job, Watch

    class Other(Watch):
        skips: list[str] = []  # noqa: RUF012 - of this test only

        def started(self, job: Job) -> None:
            if job.method == "greedy":
                other = attempt(replace(job, method="threshold"))
                with Store(path) as store:
                    store.add(replace(other, facts={"by": "other"}))

        def skipped(self, job: Job) -> None:
            self.skips.append(job.method)

    greedy, exact = moeopt.gap(INSTANCES[:1], ["greedy", "threshold"], store=path, watch=Other())
    assert Other.skips == ["threshold"]
    assert exact.facts == {"by": "other"}
    assert greedy.optimum == exact.objective


@pytest.mark.parametrize(
    "other", [{"seed": 1}, {"time_limit_s": 5.0}, {"workers": 2}, {"methods": ["klotski"]}]
)
def test_another_question_is_another_solve(path: Path, other: dict[str, object]) -> None:
    """Seed, limit, workers and method are part of the key; so is the instance's content."""
    moeopt.gap(INSTANCES[:1], ["greedy"], store=path)
    asked: dict[str, object] = {"methods": ["greedy"], **other}
    moeopt.gap(INSTANCES[:1], **asked, store=path, resume=True)  # type: ignore[arg-type]
    with Store(path) as store:
        new = 1 if "methods" in other else 2
        assert len(rows_of(store)) == 2 + new
    changed = INSTANCES[0].model_copy(update={"dimms": INSTANCES[0].dimms + 1})
    moeopt.gap([changed], ["greedy"], store=path)  # not refused: it is another instance


def test_the_first_result_stays(path: Path) -> None:
    """A second one under the same key changes nothing; one that Ctrl-C cut short gives way."""
    store, job, record = enrolled(path)
    cut = replace(record, termination="interrupted")
    late = replace(record, facts={"bottleneck": "late"})
    store.add(cut)
    assert not store.has(job.key)
    for one in (record, late, cut):
        store.add(one)
        assert store.has(job.key)
        assert store.records(job.instance_hash) == [record]
    store.close()


def test_failures_are_kept_until_there_is_a_result(path: Path) -> None:
    """The report can say what failed; resume tries again."""
    store, job, record = enrolled(path)
    for message in ("first", "second"):
        store.add(failed(job, "died", message))
    assert [one.raw_status for one in store.records() if one.failed] == ["second"]
    assert not store.has(job.key)
    store.add(record)
    store.add(failed(job, "died", "too late"))
    assert store.records() == [record]
    store.close()


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("version", [READ_FROM - 1, SCHEMA_VERSION + 1])
def test_another_schema_is_refused(path: Path, version: int, read_only: bool) -> None:
    """One line that says so; the file is not touched."""
    Store(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    before = path.read_bytes()
    words = f"schema {version}, this moeopt knows {SCHEMA_VERSION}: another moeopt"
    with pytest.raises(moeopt.StoreError, match=words):
        Store(path, read_only=read_only)
    assert path.read_bytes() == before


def test_a_store_of_the_version_before_goes_on(path: Path) -> None:
    """It has no traits: they are read off the instances, also of a file that nobody may write."""
    moeopt.gap(INSTANCES[:2], ["greedy"], store=path)
    connection = sqlite3.connect(path)
    made = connection.execute("SELECT traits FROM instance").fetchall()
    connection.execute("ALTER TABLE instance DROP COLUMN traits")
    connection.execute("PRAGMA user_version = 6")
    connection.commit()
    connection.close()
    with Store(path, read_only=True) as store:
        rows, traits = rows_of(store), store.traits()
    assert len(rows) == 4
    started: list[object] = []
    watched = moeopt.gap(
        INSTANCES, ["greedy"], store=path, resume=True, on_start=lambda *said: started.append(said)
    )
    assert (len(started), len(watched)) == (2, 6)
    with Store(path) as store:
        assert len(store.traits()) == 3
        assert store.traits().items() >= traits.items()
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    assert connection.execute("SELECT traits FROM instance").fetchall()[:2] == made
    connection.close()


def test_other_files_are_refused(path: Path, tmp_path: Path) -> None:
    """Text, another program's database, a folder, a missing file: named, and not touched."""
    path.write_text("campaign = 'x'\n" * 100)
    with pytest.raises(moeopt.StoreError, match=r"results\.db: not a store of moeopt"):
        Store(path)
    assert path.read_text().startswith("campaign")
    other = tmp_path / "other.db"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE mine (x)")
    connection.close()
    before = other.read_bytes()
    with pytest.raises(moeopt.StoreError, match="an SQLite database, but not a store"):
        Store(other)
    assert other.read_bytes() == before
    with pytest.raises(moeopt.StoreError, match="cannot be used: unable to open"):
        Store(tmp_path)
    with pytest.raises(moeopt.StoreError, match="there is no such store"):
        Store(tmp_path / "missing.db", create=False)


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    """As `mktemp` leaves it."""
    path.touch()
    with Store(path) as store:
        assert len(rows_of(store)) == 0


HALFWAY = """
import os, signal, sys
from tests.study.test_store import enrolled
store, job, record = enrolled(sys.argv[1])
store._connection.create_function("die", 0, lambda: os.kill(os.getpid(), signal.SIGKILL))
store._connection.execute(
    "CREATE TEMP TRIGGER last AFTER INSERT ON solve BEGIN SELECT die(); END"
)
store.add(record)
"""


@pytest.mark.slow  # kills at random moments are in test_kills.py
def test_a_kill_inside_a_transaction_leaves_nothing_of_it(path: Path, root: Path) -> None:
    """The result is written, the transaction is not closed: after the kill it is not there."""
    done = subprocess.run([sys.executable, "-c", HALFWAY, str(path)], cwd=root)
    assert done.returncode < 0
    with Store(path, create=False) as store:
        assert len(rows_of(store)) == 0
        assert len(store.members()) == 1


def test_a_file_that_another_process_is_making_is_waited_for(path: Path) -> None:
    """SQLite itself does not wait when the journal is changed under somebody's lock."""
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.3, lambda: other.execute("ROLLBACK"))
    release.start()
    with Store(path) as store:
        assert len(rows_of(store)) == 0
    release.join()
    other.close()


WRITER = """
import sys
from tests.study.test_store import write_many
write_many(sys.argv[1], int(sys.argv[2]))
"""


def write_many(path: str, offset: int) -> None:
    """Store the same instance's result under many keys, half of them those of another process."""
    plan = plan_of(INSTANCES[0], methods=("greedy", "threshold"))
    job = next(plan.jobs())
    record = attempt(job)
    for seed in range(offset, offset + 100):
        with Store(path) as store:
            store.enroll(plan.entries)
            key = replace(job, seed=seed).key
            store.add(replace(record, key=key, seed=seed, facts={"writer": offset}))


@pytest.mark.slow
def test_two_processes_write_at_once(path: Path, root: Path) -> None:
    """Both make the file, open it a hundred times, and half of what they write is the same."""
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(offset)],
            cwd=root,
            stderr=subprocess.PIPE,
            text=True,
        )
        for offset in (0, 50)
    ]
    for writer in writers:
        _, errors = writer.communicate()
        assert (writer.returncode, errors) == (0, "")
    with Store(path) as store:
        rows = rows_of(store)
    assert sorted(row.seed for row in rows) == list(range(150))
    alone = {row.facts["writer"] for row in rows if not 50 <= row.seed < 100}
    assert alone == {0, 50}


def test_a_proof_that_another_method_contradicts_counts_for_nothing(path: Path) -> None:
    """Two results of one instance are held against each other: a checked solution stands."""
    store, _, record = enrolled(path)
    store.add(record)
    assert isinstance(record.objective, int)
    store.add(replace(record, key="2", method="milp", bound=record.objective + 1, proof="own"))
    with pytest.warns(moeopt.MoeoptWarning, match="milp claims that nothing is below"):
        rows = rows_of(store)
    assert {row.best_bound for row in rows} == {record.bound}
    store.close()


def test_the_word_of_one_engine_makes_no_optimum(path: Path) -> None:
    """A bound that nothing confirmed closes no instance, and tables can tell it apart."""
    store, _, record = enrolled(path)
    best = record.objective
    assert isinstance(best, int)
    for proof, bound in (("own", best - 1), ("single", best)):
        other = {"key": proof, "method": f"milp-{proof}", "bound": bound, "proof": proof}
        store.add(replace(record, **other))  # type: ignore[arg-type]
    assert {(row.optimum, row.best_bound, row.single) for row in rows_of(store)} == {
        (None, best, True)
    }
    store.close()


@pytest.mark.parametrize("change", ["proof = 1e308", "work = 'x'"])
def test_a_column_that_somebody_edited_is_one_line(path: Path, change: str) -> None:
    """A row is data from strangers."""
    store, _, record = enrolled(path)
    store.add(record)
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE solve SET {change}")
    with Store(path) as edited, pytest.raises(moeopt.StoreError, match="a row of the store: "):
        edited.frame()
