"""Dask: a real cluster of two worker processes gives what this process gives."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

import moeopt
from tests.problems.deferral.random_schedules import random_instance as random_deferral
from tests.problems.tri_domain.random_instances import random_instance
from tests.refusals import refused
from tests.rooms.core import Objective
from tests.rooms.study import (
    Asked,
    Campaign,
    Cluster,
    GapTable,
    Job,
    Packed,
    Part,
    Settings,
    SolveRecord,
    Store,
    Watch,
    attempt,
    execute,
    make_plan,
    received,
)
from tests.rooms.study import cluster as cluster_module
from tests.study.rows_compared import timeless

INSTANCES = [random_instance(seed) for seed in range(4)] + [random_deferral(s) for s in range(2)]

CLUSTER = """
from distributed import LocalCluster
with LocalCluster(
    n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None, silence_logs=50
) as cluster:
    print(cluster.scheduler_address, flush=True)
    input()
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Start a scheduler and two worker processes; return the address to give to --executor."""
    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    address = process.stdout.readline().strip()
    yield address.replace("tcp://", "dask://")
    process.communicate("\n", timeout=600)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Dask's own
def test_dask_gives_what_this_process_gives(cluster: str, tmp_path: Path) -> None:
    """Two problems, heuristics, an exact method, and a rule from a file that fails on one."""
    files = tmp_path / "here.db", tmp_path / "dask.db"
    (tmp_path / "rules.py").write_text("def cpu(instance): return ['cpu'] * len(instance.experts)")
    methods = ["heuristics", "cp-sat", f"{tmp_path}/rules.py:cpu"]
    moeopt.gap(INSTANCES, methods, store=files[0])
    moeopt.gap(INSTANCES, methods, executor=cluster, store=files[1])
    with Store(files[0]) as here, Store(files[1]) as sent:
        assert timeless(GapTable(here.frame())) == timeless(GapTable(sent.frame()))
        solves = sent.frame()
    assert len(solves) > 40
    mine = list(solves.status[solves.method == "rules.py:cpu"])
    assert sorted(mine) == ["failed"] * 2 + ["feasible"] * 4


@pytest.mark.slow  # tasks without Dask are below, resuming is in test_study_rules.py
@pytest.mark.filterwarnings("ignore")
def test_resume_goes_on_elsewhere(cluster: str, tmp_path: Path) -> None:
    """What one executor has stored, the other does not repeat; failures come back as errors."""
    file = tmp_path / "results.db"
    moeopt.gap(INSTANCES[:2], ["greedy"], store=file)
    started: list[str] = []
    rows = moeopt.gap(
        INSTANCES[:4],
        ["greedy"],
        executor=cluster,
        store=file,
        resume=True,
        on_start=lambda done, total, name, method: started.append(name),
    )
    assert len(rows) == 8
    assert set(started) == {instance.name for instance in INSTANCES[2:4]}
    with pytest.raises(moeopt.InputError, match=r"brute-force: .* candidates"):
        moeopt.gap([random_instance(0, experts=40)], ["brute-force"], executor=cluster)


class Listener(Watch):
    """Notes the incumbents and bounds it hears of."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, object, object]] = []

    def improved(
        self, job: Job, seconds: float, objective: Objective | None, bound: Objective | None
    ) -> None:
        """Note them."""
        assert seconds >= 0
        self.heard.append((job.instance.name, objective, bound))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_incumbents_come_while_a_worker_solves(cluster: str) -> None:
    """Also those of several entries; none is better than the last.

    News that a result overtakes is dropped, so short solves are repeated until some is heard of.
    """
    listener = Listener()
    searched = [INSTANCES[0], random_deferral(26)]
    names = {of.name for of in searched}
    for _ in range(100):
        rows = moeopt.gap(searched, ["cp-sat"], executor=cluster, watch=listener)
        found = {row.instance: row.objective for row in rows}
        if {name for name, _, _ in listener.heard} == names:
            break
    assert {name for name, _, _ in listener.heard} == names
    for name, objective, bound in listener.heard:
        assert objective is None or objective >= found[name]
        assert bound is None or bound <= found[name]


@pytest.mark.parametrize(
    "address",
    [
        *("dask://", "dask://host", "tcp://host:1", "dask://host:x", "dask://h:1/path", "x"),
        *("dask://[::1", "dask://h:99999", "dask://\x1b[31m:1", f"dask://{'a.' * 5000}b:1"),
    ],
)
def test_a_wrong_address_is_said(address: str) -> None:
    """Before anything is imported, and not all of it if it is long."""
    said = refused(partial(moeopt.gap, executor=address), INSTANCES[:1], ["greedy"])
    assert said.startswith("executor: must be dask://HOST:PORT, not")
    assert len(said) < 120


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("host", ["127.0.0.1", "a..b", "a" * 70])
def test_nobody_there_is_said(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line with the address, also of what no name of a host can be."""
    from tests.rooms.study import cluster

    monkeypatch.setattr(cluster, "REACH_S", 0.2)
    with pytest.raises(moeopt.InputError, match="no Dask scheduler answers there"):
        moeopt.gap(INSTANCES[:1], ["greedy"], executor=f"dask://{host}:1")


def test_without_distributed_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a plain `pip install moeopt`."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(
        moeopt.InputError, match=r"needs Dask's distributed \(pip install distributed\)"
    ):
        moeopt.gap(INSTANCES[:1], ["greedy"], executor="dask://127.0.0.1:8786")


class Future:
    """A task that has ended; as Dask's, it calls whoever waits for it."""

    def __init__(self, ended: object) -> None:
        self._ended = ended

    def add_done_callback(self, call: Callable[[object], object]) -> None:
        """Call at once."""
        call(self)

    def result(self) -> object:
        """Return the results or raise what went wrong."""
        if isinstance(self._ended, Exception):
            raise self._ended
        return self._ended


class Client:
    """Stands for Dask's client: one worker, which a job of a certain name kills."""

    def __init__(self, deadly: str, most: int) -> None:
        self.deadly = deadly
        self.most = most
        self.tasks: list[int] = []

    def nthreads(self) -> dict[str, int]:
        """Return the one worker."""
        return {"worker": 1}

    def wait_for_workers(self, count: int, timeout: float) -> None:
        """Return: it is there."""

    def subscribe_topic(self, topic: str, call: object) -> None:
        """Tell nothing."""

    def submit(
        self, function: object, asked: list[Asked], packed: Packed, *rest: object, pure: bool
    ) -> Future:
        """Make the first few solves of a task, as a worker that has no time for more."""
        jobs = list(received(asked, packed))
        self.tasks.append(len(jobs))
        if any(job.instance.name == self.deadly for job in jobs):
            return Future(RuntimeError("worker died"))
        return Future([attempt(job) for job in jobs[: self.most]])


def test_tasks_of_many_solves_lose_and_double_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a worker did not come to is sent again; a solve that kills it fails alone."""
    instances = [random_instance(seed, experts=4) for seed in range(14)]
    client = Client(deadly=instances[7].name, most=5)
    dask = SimpleNamespace(Client=lambda *_, **__: client)
    monkeypatch.setattr(cluster_module, "import_module", lambda name: dask)
    place = Cluster("dask://here:1", Watch())
    settings = Settings(methods=("greedy", "brute-force"))
    jobs = list(make_plan(Campaign([Part(instances, settings)])).jobs())
    ended: list[tuple[Job, SolveRecord]] = []
    execute(place, jobs, lambda job: None, lambda *end: ended.append(end))
    assert sorted(job.key for job, _ in ended) == sorted(job.key for job in jobs)
    failed = {job.instance.name for job, end in ended if end.failed}
    assert failed == {instances[7].name}
    assert 5 < max(client.tasks) <= 2 * 5
