"""Dask: a real cluster of two worker processes gives what this process gives."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import moeopt
from moeopt.problems.objective import Objective
from moeopt.study.execute import Watch
from moeopt.study.plan import Job
from moeopt.study.store import Store
from tests.problems.deferral.random_schedules import random_instance as random_deferral
from tests.problems.tri_domain.random_instances import random_instance
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
    process.communicate("\n", timeout=60)


@pytest.mark.filterwarnings("ignore")  # Dask's own
def test_dask_gives_what_this_process_gives(cluster: str, tmp_path: Path) -> None:
    """Two problems, heuristics, an exact method, and a rule from a file that fails on one."""
    files = tmp_path / "here.db", tmp_path / "dask.db"
    (tmp_path / "rules.py").write_text("def cpu(instance): return ['cpu'] * len(instance.experts)")
    methods = ["heuristics", "cp-sat", f"{tmp_path}/rules.py:cpu"]
    moeopt.gap(INSTANCES, methods, store=files[0])
    moeopt.gap(INSTANCES, methods, executor=cluster, store=files[1])
    with Store(files[0]) as here, Store(files[1]) as sent:
        assert timeless(here.rows()) == timeless(sent.rows())
        assert len(sent.rows()) > 40
        mine = [row.result.status for row in sent.rows() if row.key.method == "rules.py:cpu"]
    assert sorted(mine) == ["failed"] * 2 + ["feasible"] * 4


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


@pytest.mark.filterwarnings("ignore")
def test_incumbents_come_while_a_worker_solves(cluster: str) -> None:
    """Also those of several entries; none is better than what is found in the end."""
    listener = Listener()
    searched = [*INSTANCES[:4], random_deferral(23), random_deferral(26)]
    rows = moeopt.gap(searched, ["cp-sat"], executor=cluster, watch=listener)
    found = {row.result.instance: row.result.objective for row in rows}
    names = {name for name, _, _ in listener.heard}
    assert {searched[0].name, searched[-1].name} <= names
    for name, objective, bound in listener.heard:
        assert objective is None or objective >= found[name]
        assert bound is None or bound <= found[name]


@pytest.mark.parametrize(
    "address", ["dask://", "dask://host", "tcp://host:1", "dask://host:x", "dask://h:1/path", "x"]
)
def test_a_wrong_address_is_said(address: str) -> None:
    """Before anything is imported."""
    with pytest.raises(moeopt.InputError, match="executor: must be dask://HOST:PORT, not"):
        moeopt.gap(INSTANCES[:1], ["greedy"], executor=address)


@pytest.mark.filterwarnings("ignore")
def test_nobody_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line with the address."""
    from moeopt.study import cluster

    monkeypatch.setattr(cluster, "REACH_S", 0.2)
    with pytest.raises(moeopt.InputError, match="no Dask scheduler answers there"):
        moeopt.gap(INSTANCES[:1], ["greedy"], executor="dask://127.0.0.1:1")


def test_without_distributed_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a plain `pip install moeopt`."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(moeopt.InputError, match="needs Dask's distributed, the extra 'dask'"):
        moeopt.gap(INSTANCES[:1], ["greedy"], executor="dask://127.0.0.1:8786")
