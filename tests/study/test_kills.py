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
from moeopt.study.store import Store
from tests.problems.tri_domain.random_instances import random_instance
from tests.study.rows_compared import timeless

SOLVES = 120
METHODS = ("greedy", "trimoe", "cp-sat")


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """Return a campaign of 120 solves: milliseconds each, some tens for cp-sat."""
    (tmp_path / "family").mkdir()
    for seed in range(20):
        moeopt.save(random_instance(seed, experts=9), tmp_path / "family" / f"{seed}.json")
    path = tmp_path / "campaign.toml"
    names = ", ".join(f'"{name}"' for name in METHODS)
    path.write_text(
        f'campaign = "kills"\ninstances = ["family"]\nmethods = [{names}]\n'
        "seeds = [0, 1]\nwarm_start = false\n"
    )
    return path


def start(campaign: Path, store: Path, jobs: int) -> "subprocess.Popen[str]":
    """Start the campaign as a user does, in a process group of its own."""
    options = ["--store", str(store), "--resume", "--jobs", str(jobs), "--markdown"]
    return subprocess.Popen(
        [sys.executable, "-m", "moeopt", "gap", str(campaign), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: "subprocess.Popen[str]") -> str:
    """Wait for the campaign's regular end and return its table."""
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return out


def raw(store: Path) -> set[tuple[object, ...]]:
    """Return what tells stored solves apart, read without our own code: also when they ended."""
    if not store.exists():
        return set()
    connection = sqlite3.connect(store)
    try:
        [(count,)] = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'solve'")
        query = "SELECT id, instance, method, status, objective, solve_s, finished FROM solve"
        return set(connection.execute(query)) if count else set()
    finally:
        connection.close()


def kill_and_resume(campaign: Path, folder: Path, kills: int, jobs: int) -> None:
    """Kill the campaign so often, at random moments; a finished one starts anew."""
    began = monotonic()
    table = finish(start(campaign, folder / "whole.db", jobs))
    whole_s = monotonic() - began
    with Store(folder / "whole.db") as store:
        expected = timeless(store.rows())
    assert len(expected) == SOLVES
    rng = random.Random(8)
    seen: list[int] = []
    while len(seen) < kills:
        file = folder / f"killed-{len(seen)}.db"
        before: set[tuple[object, ...]] = set()
        while True:
            process = start(campaign, file, jobs)
            if len(seen) == kills or not killed_in_time(process, file, len(before), whole_s, rng):
                break
            now = raw(file)
            assert before <= now  # nothing is lost, nothing is solved again
            before = now
            seen.append(len(now))
        assert finish(process) == table
        assert before <= raw(file)
        with Store(file) as store:
            assert timeless(store.rows()) == expected
    print(f"solves in the store after each kill: {seen}")
    assert any(0 < count < SOLVES for count in seen)


def killed_in_time(
    process: "subprocess.Popen[str]", store: Path, stored: int, whole_s: float, rng: random.Random
) -> bool:
    """Kill a campaign, and tell whether it was still running.

    One in four at any moment since its start, the others soon after it has stored something new.
    """
    anywhere = rng.random() < 0.25
    while not anywhere and process.poll() is None and len(raw(store)) == stored:
        sleep(0.01)
    try:
        process.wait(rng.uniform(0, whole_s if anywhere else whole_s / 4))
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return True
    return False


def test_killed_and_resumed_is_as_if_never_killed(campaign: Path, tmp_path: Path) -> None:
    """Three kills of a campaign in one process."""
    kill_and_resume(campaign, tmp_path, kills=3, jobs=1)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_twenty_kills(campaign: Path, tmp_path: Path, jobs: int) -> None:
    """Twenty, and with a pool."""
    kill_and_resume(campaign, tmp_path, kills=20, jobs=jobs)


def wait_for_solves(store: Path, count: int) -> None:
    """Wait until a store has so many."""
    give_up = monotonic() + 120
    while len(raw(store)) < count:
        assert monotonic() < give_up
        sleep(0.02)


def test_ctrl_c_keeps_and_prints_what_is_done(campaign: Path, tmp_path: Path) -> None:
    """Of a pool: the terminal sends it to every process; no traceback, and resume goes on."""
    import os

    file = tmp_path / "results.db"
    process = start(campaign, file, jobs=2)
    wait_for_solves(file, 10)
    os.killpg(process.pid, signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    done = len(raw(file))
    assert process.returncode == 0
    assert errors.splitlines()[-1] == f"moeopt: interrupted: {done} of {SOLVES} solves done"
    assert "Traceback" not in errors
    assert "`trimoe`" in out
    finish(start(campaign, file, jobs=1))
    assert len(raw(file)) == SOLVES


def test_two_campaigns_on_one_store(campaign: Path, tmp_path: Path) -> None:
    """Both end, with the same table; every solve is there once."""
    file = tmp_path / "results.db"
    both = [start(campaign, file, jobs=1) for _ in range(2)]
    first, second = map(finish, both)
    assert first == second
    assert len(raw(file)) == SOLVES
    with Store(file) as store:
        rows = store.rows()
    assert len({row.key for row in rows}) == len(rows) == SOLVES
