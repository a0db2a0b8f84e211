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
    SCHEMA_VERSION,
    Campaign,
    Failure,
    Key,
    Part,
    Settings,
    Solved,
    Solves,
    Store,
    make_plan,
)

INSTANCES = [random_instance(seed) for seed in range(3)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a store may be made."""
    return tmp_path / "results.db"


def plan_of(*instances: object, methods: tuple[str, ...] = ("greedy", "threshold")) -> Solves:
    """Return the solves of a small campaign."""
    return make_plan(Campaign([Part(instances, Settings(methods=methods))]))  # type: ignore[arg-type]


def enrolled(path: Path) -> tuple[Store, Key, Solved]:
    """Return a store that knows an instance, a key, and a result that may be stored under it."""
    plan = plan_of(INSTANCES[0])
    store = Store(path)
    store.enroll(plan.entries)
    key = plan.entries[0].keys[0]
    solved = Solved(moeopt.solve(INSTANCES[0], key.method), {"bottleneck": "cpu"}, {"cores": 2})
    return store, key, solved


@pytest.mark.parametrize("method", ["saturate", "dp", "cp-sat"])
def test_a_result_comes_back_whole(path: Path, method: str) -> None:
    """Objectives in two entries, bound, solution, trace, versions, facts: all as they were."""
    instance = random_deferral(3)
    plan = plan_of(instance, methods=(method,))
    key = plan.entries[0].keys[0]
    solved = Solved(moeopt.solve(instance, method), {"bottleneck": "cpu", "n": 3}, {"cores": 2})
    with Store(path) as store:
        store.enroll(plan.entries)
        store.add(key, solved)
    with Store(path, create=False) as store:
        assert store.solved(key.instance) == {key: solved}
        assert store.instance(key.instance) == instance
        [row] = store.rows()
        assert (row.result, row.key, row.family) == (solved.result, key, "-")


def test_a_result_without_a_solution_comes_back(path: Path) -> None:
    """Unknown stays None."""
    result = moeopt.solve(INSTANCES[0], "cp-sat", time_limit_s=1e-9)
    store, key, _ = enrolled(path)
    store.add(key, Solved(result))
    [found] = store.solved(key.instance).values()
    assert (found.result.objective, found.result.bound, found.result.solution) == (None, None, None)
    store.close()


def test_with_and_without_a_store_the_rows_are_the_same(path: Path) -> None:
    """All but the seconds; and a report can be made from the store alone."""
    without = moeopt.gap(INSTANCES, ["greedy", "trimoe"])
    kept = moeopt.gap(INSTANCES, ["greedy", "trimoe"], store=path)
    with Store(path) as store:
        stored = store.rows()
        assert sorted(map(told, stored)) == sorted(map(told, kept)) == sorted(map(told, without))
        assert [one.name for one in store.instances()] == [i.name for i in INSTANCES]


def told(row: object) -> list[str]:
    """Return what of a row does not depend on the clock."""
    names = ("family", "key", "optimum", "best_bound", "facts", "excess")
    result = ("status", "objective", "bound", "solution", "raw_status", "versions")
    return [str(getattr(row, n)) for n in names] + [str(getattr(row.result, n)) for n in result]  # type: ignore[attr-defined]


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
            if job.key.method == "greedy":
                key = job.key._replace(method="threshold")
                with Store(path) as store:
                    store.add(key, Solved(moeopt.solve(job.instance, "threshold"), {"by": "other"}))

        def skipped(self, job: Job) -> None:
            self.skips.append(job.key.method)

    greedy, exact = moeopt.gap(INSTANCES[:1], ["greedy", "threshold"], store=path, watch=Other())
    assert Other.skips == ["threshold"]
    assert exact.facts == {"by": "other"}
    assert greedy.optimum == exact.result.objective


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
        assert len(store.rows()) == 2 + new
    changed = INSTANCES[0].model_copy(update={"dimms": INSTANCES[0].dimms + 1})
    moeopt.gap([changed], ["greedy"], store=path)  # not refused: it is another instance


def test_the_first_result_stays(path: Path) -> None:
    """A second one under the same key changes nothing; one that Ctrl-C cut short gives way."""
    store, key, solved = enrolled(path)
    cut = replace(solved, result=replace(solved.result, termination="interrupted"))
    late = replace(solved, facts={"bottleneck": "late"})
    store.add(key, cut)
    assert not store.has(key)
    for one in (solved, late, cut):
        store.add(key, one)
        assert store.has(key)
        assert store.solved(key.instance) == {key: solved}
    store.close()


def test_failures_are_kept_until_there_is_a_result(path: Path) -> None:
    """The report can say what failed; resume tries again."""
    store, key, solved = enrolled(path)
    for message in ("first", "second"):
        store.add(key, Failure("died", message))
    assert [one.message for _, one in store.failures()] == ["second"]
    assert not store.has(key)
    store.add(key, solved)
    store.add(key, Failure("died", "too late"))
    assert store.failures() == []
    store.close()


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("version", [SCHEMA_VERSION - 1, SCHEMA_VERSION + 1])
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
        assert store.rows() == []


HALFWAY = """
import os, signal, sys
from tests.study.test_store import Store, enrolled
store, key, solved = enrolled(sys.argv[1])
Store._forget_failure = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
store.add(key, solved)
"""


def test_a_kill_inside_a_transaction_leaves_nothing_of_it(path: Path, root: Path) -> None:
    """The result is written, the transaction is not closed: after the kill it is not there."""
    done = subprocess.run([sys.executable, "-c", HALFWAY, str(path)], cwd=root)
    assert done.returncode < 0
    with Store(path, create=False) as store:
        assert store.rows() == []
        assert len(store.instances()) == 1


def test_a_file_that_another_process_is_making_is_waited_for(path: Path) -> None:
    """SQLite itself does not wait when the journal is changed under somebody's lock."""
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.3, lambda: other.execute("ROLLBACK"))
    release.start()
    with Store(path) as store:
        assert store.rows() == []
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
    key = plan.entries[0].keys[0]
    solved = Solved(moeopt.solve(INSTANCES[0], key.method))
    for seed in range(offset, offset + 100):
        with Store(path) as store:
            store.enroll(plan.entries)
            result = replace(solved.result, seed=seed)
            store.add(key._replace(seed=seed), Solved(result, {"writer": offset}))


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
        rows = store.rows()
    assert sorted(row.key.seed for row in rows) == list(range(150))
    alone = {row.facts["writer"] for row in rows if not 50 <= row.key.seed < 100}
    assert alone == {0, 50}


def test_a_proof_that_another_method_contradicts_counts_for_nothing(path: Path) -> None:
    """Two results of one instance are held against each other: a checked solution stands."""
    store, key, solved = enrolled(path)
    store.add(key, solved)
    assert isinstance(solved.result.objective, int)
    wrong = replace(solved.result, bound=solved.result.objective + 1, proof="own")
    store.add(key._replace(method="milp"), Solved(wrong))
    with pytest.warns(moeopt.MoeoptWarning, match="milp claims that nothing is below"):
        rows = store.rows()
    assert {row.best_bound for row in rows} == {solved.result.bound}
    store.close()


def test_the_word_of_one_engine_makes_no_optimum(path: Path) -> None:
    """A bound that nothing confirmed closes no instance, and tables can tell it apart."""
    store, key, solved = enrolled(path)
    best = solved.result.objective
    assert isinstance(best, int)
    for proof, bound in (("own", best - 1), ("single", best)):
        result = replace(solved.result, status="feasible", bound=bound, proof=proof)
        store.add(key._replace(method=f"milp-{proof}"), Solved(result))
    assert {(row.optimum, row.best_bound, row.single) for row in store.rows()} == {
        (None, best, True)
    }
    store.close()


@pytest.mark.parametrize("change", ["proof = 1e308", "work = 'x'"])
def test_a_column_that_somebody_edited_is_one_line(path: Path, change: str) -> None:
    """A row is data from strangers."""
    store, key, solved = enrolled(path)
    store.add(key, solved)
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE solve SET {change}")
    with Store(path) as edited, pytest.raises(moeopt.StoreError, match="a row of the store: "):
        edited.rows()
