"""The local pool: the same results as in one process, and deaths that do not end the campaign."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import sleep

import psutil
import pytest

import moeopt
from tests.problems.tri_domain.random_instances import random_instance
from tests.rooms.core import Objective, available_cores
from tests.rooms.solvers import IN_PROCESS
from tests.rooms.study import (
    Campaign,
    GapTable,
    Job,
    Part,
    Pool,
    Settings,
    SolveRecord,
    Store,
    Watch,
    execute,
    make_plan,
    oversubscribed,
)
from tests.solvers.test_statuses import partition
from tests.study.rows_compared import timeless

INSTANCES = [random_instance(seed) for seed in range(6)]


def jobs_of(*instances: object, methods: tuple[str, ...], time_limit_s: float = 60.0) -> list[Job]:
    """Return the solves of a small campaign."""
    settings = Settings(methods=methods, time_limits_s=(time_limit_s,))
    return list(make_plan(Campaign([Part(instances, settings)])).jobs())  # type: ignore[arg-type]


def test_a_pool_gives_the_same_results(tmp_path: Path) -> None:
    """In the order asked for, whatever ends first.

    These methods load neither a solver nor compiled parts, which takes a new process seconds;
    tests/study/test_cluster.py sends such to processes.
    """
    asked = ["greedy", "klotski", "brute-force"]
    alone = moeopt.gap(INSTANCES, asked)
    pooled = moeopt.gap(INSTANCES, asked, jobs=2, store=tmp_path / "results.db")
    assert [row.key for row in pooled] == [row.key for row in alone]
    assert timeless(pooled) == timeless(alone)
    with Store(tmp_path / "results.db") as store:
        assert timeless(GapTable(store.frame())) == timeless(alone)


class Killer(Watch):
    """Kills the process that solves one instance once it tells an incumbent; notes the solve."""

    def __init__(self, victim: str) -> None:
        self.victim = victim
        self.pool: Pool | None = None
        self.killed: list[Job] = []

    def improved(
        self, job: Job, seconds: float, objective: Objective | None, bound: Objective | None
    ) -> None:
        """Kill, once."""
        assert objective is not None or bound is not None
        if self.pool and job.instance.name == self.victim and not self.killed:
            self.killed.append(job)
            next(w for w in self.pool._workers if w.job is job).process.running.kill()


def test_a_killed_worker_is_reported_and_replaced() -> None:
    """Its solve fails, all others are made."""
    [hopeless] = jobs_of(partition(), methods=("cp-sat",), time_limit_s=600)
    easy = jobs_of(*INSTANCES, methods=("brute-force",))
    watch = Killer(hopeless.instance.name)
    ended: dict[str, SolveRecord] = {}
    watch.pool = Pool(2, watch)
    execute(
        watch.pool,
        [easy[0], hopeless, *easy[1:]],
        lambda job: None,
        lambda job, end: ended.update({job.instance.name: end}),
    )
    watch.pool.close()
    assert watch.killed == [hopeless]
    died = ended.pop("partition")
    assert (died.failure, died.raw_status) == ("died", "its process was ended by SIGKILL")
    assert [end.failed for end in ended.values()] == [False] * len(easy)


@pytest.fixture(scope="module")
def single() -> Iterator[Pool]:
    """Return a pool of one process, which the tests that end it share; rules run in it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(IN_PROCESS, "1")
        pool = Pool(1, Watch())
        yield pool
        pool.close()


@pytest.mark.slow  # a worker that dies while it solves is in the quick suite
def test_an_idle_workers_death_is_not_a_solves_death(single: Pool) -> None:
    """It is replaced, and the next solve is made."""
    [job] = jobs_of(INSTANCES[0], methods=("brute-force",))
    single.submit(job)
    single.completed()
    process = single._workers[0].process.running
    process.kill()
    process.wait()
    single.submit(job)
    assert not single.completed()[1].failed


def leave(instance: object) -> None:
    """Stand for a method that ends its process."""
    os._exit(3)


def stay(instance: object) -> None:
    """Stand for a method that says nothing for long."""
    sleep(600)


def mischief(deed: str) -> Job:
    """Return a solve that does one of the above."""
    return jobs_of(INSTANCES[0], methods=(f"tests.study.test_pool:{deed}",))[0]


@pytest.mark.slow
def test_a_process_that_leaves_is_reported(single: Pool) -> None:
    """As one that is killed."""
    [job] = jobs_of(INSTANCES[0], methods=("brute-force",))
    single.submit(mischief("leave"))
    died = single.completed()[1]
    assert died.failure == "died"
    assert died.raw_status == "it ended its process with exit code 3"
    single.submit(job)
    assert not single.completed()[1].failed


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_does_not_reach_the_processes() -> None:
    """The terminal sends it to all of them, also to one that has only just been started."""
    pool = Pool(2, Watch())
    jobs = jobs_of(*INSTANCES[:2], methods=("brute-force",))

    def processes() -> list[int]:
        for job in jobs:
            pool.submit(job)
        assert not any(pool.completed()[1].failed for _ in jobs)
        return [one.process.running.pid for one in pool._workers if one.process is not None]

    pids = processes()
    assert pids
    assert os.getpgid(0) not in map(os.getpgid, pids)  # what a terminal's Ctrl-C goes to
    assert set(pids) <= set(processes())
    pool.close()


def test_one_solve_at_a_time_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where Dask has given a worker several threads."""
    from tests.rooms.study import attempt_module as attempt

    running: list[int] = []
    most: list[int] = []

    def slow(instance: object, name: str, **options: object) -> object:
        running.append(1)
        most.append(len(running))
        sleep(0.05)
        running.pop()
        return moeopt.solve(instance, name, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(attempt, "solve", slow)
    [job] = jobs_of(INSTANCES[0], methods=("brute-force",))
    threads = [threading.Thread(target=attempt.attempt, args=(job,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1, 1, 1, 1]


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_solve_that_fails_raises_or_is_reported(tmp_path: Path, jobs: int) -> None:
    """In the pool as here: the library raises, unless someone watches."""
    big = random_instance(0, experts=40)
    with pytest.raises(moeopt.InputError, match=r"brute-force: .* candidates"):
        moeopt.gap([big], ["brute-force", "greedy"], jobs=jobs)

    class Patient(Watch):
        heard: list[str] = []  # noqa: RUF012 - of this test only

        def failed(self, job: Job, record: SolveRecord) -> None:
            self.heard.append(str(record.failure))

    file = tmp_path / "results.db"
    rows = moeopt.gap([big], ["brute-force", "greedy"], store=file, watch=Patient())
    assert [(row.method, row.status) for row in rows] == [
        ("brute-force", "failed"),
        ("greedy", "feasible"),
    ]
    assert Patient.heard == ["input"]
    with Store(file) as store:
        [found] = [one for one in store.records() if one.failed]
    assert (found.method, found.failure) == ("brute-force", "input")


def test_a_bug_in_a_method_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the traceback, and an error that is no bad input."""
    from tests.rooms.study import attempt_module as attempt

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("of integers")

    monkeypatch.setattr(attempt, "solve", broken)
    failure = attempt.attempt(jobs_of(INSTANCES[0], methods=("brute-force",))[0])
    assert (failure.failure, failure.raw_status) == ("crash", "ZeroDivisionError: of integers")
    assert "in broken" in failure.detail
    assert failure.error().exit_code == 5


def test_a_worker_of_another_version_is_refused() -> None:
    """A result must not be stored under a version that did not make it."""
    from tests.rooms.study import attempt

    job = jobs_of(INSTANCES[0], methods=("brute-force",))[0]
    other = attempt(replace(job, version="99.0"))
    assert other.failed
    assert "the campaign 99.0" in other.raw_status


UNGUARDED = """
import moeopt
from tests.study.test_pool import INSTANCES
moeopt.gap(INSTANCES, ["greedy"], jobs=2)
print("once")
"""


@pytest.mark.slow
def test_a_script_needs_no_guard(root: Path, tmp_path: Path) -> None:
    """Processes run a module of the package, and never the script once more."""
    script = tmp_path / "script.py"
    script.write_text(f"import sys\nsys.path.insert(0, {str(root)!r})\n{UNGUARDED}")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "once\n")


ORPHANS = """
from tests.study.test_pool import INSTANCES, Pool, Watch, jobs_of, mischief

pool = Pool(2, Watch())
job = jobs_of(INSTANCES[0], methods=("brute-force",))[0]
pool.submit(job)
pool.completed()
pool.submit(mischief("stay"))
print(*(w.process.running.pid for w in pool._workers if w.process), flush=True)
pool.completed()
"""


@pytest.mark.slow
def test_workers_end_with_their_parent(root: Path) -> None:
    """Also where the parent is killed and a worker is in the middle of a long and silent solve."""
    parent = subprocess.Popen(
        [sys.executable, "-c", ORPHANS], cwd=root, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout
    workers = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
    parent.kill()
    parent.wait()
    parent.stdout.close()
    _, alive = psutil.wait_procs(workers, timeout=600)
    assert [p for p in alive if p.status() != psutil.STATUS_ZOMBIE] == []


def test_more_solves_than_cores_is_said() -> None:
    """Workers x jobs is what counts."""
    cores = available_cores()
    assert oversubscribed(cores, 1) is None
    assert oversubscribed(1, cores) is None
    assert f"need {2 * cores} cores, there are {cores}" in str(oversubscribed(cores, 2))


def test_bad_numbers_of_jobs_are_refused() -> None:
    """Before any process is started."""
    with pytest.raises(moeopt.InputError, match="jobs: must be from 1 to 1024, not 0"):
        moeopt.gap(INSTANCES, ["greedy"], jobs=0)


@pytest.mark.slow
def test_quick_solves_are_taken_in_advance_and_none_is_lost(single: Pool) -> None:
    """A process that dies takes its own solve with it, not those that wait."""
    jobs = jobs_of(*INSTANCES, methods=("brute-force",))
    for job in jobs[:2]:
        single.submit(job)
        single.completed()
    assert single.slots == 2
    single.submit(mischief("leave"))
    single.submit(jobs[2])
    ends = [single.completed(), single.completed()]
    assert ends[0][1].failed
    assert ends[1][0] is jobs[2]
    assert not ends[1][1].failed
