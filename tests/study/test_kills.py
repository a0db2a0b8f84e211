"""kill -9 at random moments, Ctrl-C, two campaigns at once: nothing is lost, nothing doubled."""

import random
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import pytest

import moeopt
from tests.problems.tri_domain.random_instances import random_instance
from tests.rooms.study import GapTable, Store
from tests.study.rows_compared import timeless
from tests.study.test_cluster import cluster as cluster

INSTANCES = 8
METHODS = ("greedy", "brute-force", "rules.py:waits")
SOLVES = INSTANCES * len(METHODS) * 2
FREE = SOLVES - len(METHODS) * 2
"""The solves that come before the last instance, whose rule waits for the file ``go``."""

RULES = """
from pathlib import Path
from time import sleep

def waits(instance):
    sleep(0.02)
    while instance.name == LAST and not Path(GO).exists():
        sleep(0.02)
    return ["cpu"] * len(instance.experts)
"""

ENOUGH_S = 600
"""What no wait takes, however busy the machine is."""


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """Return a campaign of 48 solves that cannot end before :func:`let_end`."""
    return make_campaign(tmp_path, METHODS)


def make_campaign(folder: Path, methods: tuple[str, ...]) -> Path:
    """Return a campaign file with two seeds of the methods on all instances."""
    (folder / "family").mkdir()
    for seed in range(INSTANCES):
        instance = random_instance(seed, experts=5)
        moeopt.save(instance, folder / "family" / f"{seed:02}.json")
    rules = RULES.replace("LAST", repr(instance.name)).replace("GO", repr(str(folder / "go")))
    (folder / "rules.py").write_text(rules)
    path = folder / "campaign.toml"
    names = ", ".join(f'"{name}"' for name in methods)
    path.write_text(
        f'campaign = "kills"\ninstances = ["family"]\nmethods = [{names}]\n'
        "seeds = [0, 1]\nwarm_start = false\n"
    )
    return path


def let_end(campaign: Path) -> None:
    """Let the last instance's rule return."""
    (campaign.parent / "go").touch()


def start(campaign: Path, store: Path, jobs: int | str) -> "subprocess.Popen[str]":
    """Start the campaign as a user does, in a process group of its own, or on a cluster."""
    place = ["--executor", jobs] if isinstance(jobs, str) else ["--jobs", str(jobs)]
    options = ["--store", str(store), "--resume", *place, "--markdown"]
    return subprocess.Popen(
        [sys.executable, "-m", "moeopt", "gap", str(campaign), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: "subprocess.Popen[str]") -> str:
    """Wait for the campaign's regular end and return its table."""
    out, errors = process.communicate(timeout=ENOUGH_S)
    assert process.returncode == 0, errors
    return out


def raw(store: Path) -> set[tuple[object, ...]]:
    """Return what tells stored solves apart, read without our own code: also when they ended."""
    if not store.exists():
        return set()
    connection = sqlite3.connect(store)
    try:
        [(count,)] = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'solve'")
        query = "SELECT key, method, status, objective_0, solve_s, finished FROM solve"
        return set(connection.execute(query)) if count else set()
    finally:
        connection.close()


def wait_for_solves(store: Path, count: int) -> None:
    """Wait until a store has so many."""
    give_up = monotonic() + ENOUGH_S
    while len(raw(store)) < count:
        assert monotonic() < give_up
        sleep(0.02)


def kill_and_resume(campaign: Path, folder: Path, kills: int, jobs: int | str) -> None:
    """Kill the campaign so often, at random moments of it; then let it end."""
    file = folder / "killed.db"
    rng = random.Random(8)
    before: set[tuple[object, ...]] = set()
    seen: list[int] = []
    for _ in range(kills):
        process = start(campaign, file, jobs)
        more = rng.randint(0, 2 * FREE // kills)
        wait_for_solves(file, min(len(before) + more, FREE))
        sleep(rng.uniform(0, 0.1 if more else 1.0))
        process.kill()  # or it has ended: on a cluster nothing keeps it
        process.communicate()
        now = raw(file)
        assert before <= now  # nothing is lost, nothing is solved again
        before = now
        seen.append(len(now))
    print(f"solves in the store after each kill: {seen}")
    assert any(0 < count < SOLVES for count in seen)
    let_end(campaign)
    table = finish(start(campaign, file, jobs))
    assert before <= raw(file)
    assert table == finish(start(campaign, folder / "whole.db", jobs))
    with Store(file) as resumed, Store(folder / "whole.db") as whole:
        assert timeless(GapTable(resumed.frame())) == timeless(GapTable(whole.frame()))
        assert len(whole.frame()) == SOLVES


def test_killed_and_resumed_is_as_if_never_killed(campaign: Path, tmp_path: Path) -> None:
    """A campaign in one process, killed once."""
    kill_and_resume(campaign, tmp_path, kills=1, jobs=1)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_twenty_kills(tmp_path: Path, jobs: int) -> None:
    """Twenty, with a solver's library loaded in each process, and with a pool."""
    campaign = make_campaign(tmp_path, ("trimoe", "cp-sat", "rules.py:waits"))
    kill_and_resume(campaign, tmp_path, kills=20, jobs=jobs)


@pytest.mark.slow
@pytest.mark.parametrize("kills", [20])
def test_kills_of_a_campaign_on_a_cluster(tmp_path: Path, cluster: str, kills: int) -> None:
    """The cluster outlives them; what its workers were at is made again by the next campaign.

    No rule waits: a task of many solves would keep the others' results back.
    """
    campaign = make_campaign(tmp_path, ("trimoe", "cp-sat", "rules.py:waits"))
    let_end(campaign)
    kill_and_resume(campaign, tmp_path, kills, cluster)


@pytest.mark.parametrize(
    "stop",
    [pytest.param(stop, marks=pytest.mark.slow) for stop in (signal.SIGINT, signal.SIGTERM)],
)
def test_what_is_done_is_kept_and_printed(
    campaign: Path, tmp_path: Path, stop: signal.Signals
) -> None:
    """Of a pool: the terminal sends Ctrl-C to every process, others SIGTERM to the first alone.

    No traceback, and resume goes on. The signal comes after the first solves and surely before the
    last.
    """
    import os

    file = tmp_path / "results.db"
    process = start(campaign, file, jobs=2)
    wait_for_solves(file, 10)
    (os.killpg if stop == signal.SIGINT else os.kill)(process.pid, stop)
    out, errors = process.communicate(timeout=ENOUGH_S)
    done = len(raw(file))
    assert process.returncode == (130 if stop == signal.SIGINT else 143)
    assert errors.splitlines()[-1] == f"moeopt: interrupted: {done} of {SOLVES} solves done"
    assert "Traceback" not in errors
    assert "`brute-force`" in out  # exact methods come first
    let_end(campaign)
    finish(start(campaign, file, jobs=1))
    assert len(raw(file)) == SOLVES


@pytest.mark.slow
def test_two_campaigns_on_one_store(campaign: Path, tmp_path: Path) -> None:
    """Both end, with the same table; every solve is there once."""
    file = tmp_path / "results.db"
    let_end(campaign)
    both = [start(campaign, file, jobs=1) for _ in range(2)]
    first, second = map(finish, both)
    assert first == second
    assert len(raw(file)) == SOLVES
    with Store(file) as store:
        solves = store.frame()
    assert solves.key.nunique() == len(solves) == SOLVES
