"""Processes that can be ended, and what is said of those that end themselves."""

import subprocess
import sys

import pytest

import moeopt
from tests.problems.cache.cache_random_instances import random_instance
from tests.rooms.solvers import Process, ProcessEndedError, engines, rule_process, serve_pipes


def test_who_is_ended_answers_no_more() -> None:
    """Who waits for its answer is told."""
    process = Process(engines.__name__)
    assert process.alive
    process.end()
    assert not process.alive
    with pytest.raises(ProcessEndedError, match="SIGKILL"):
        process.ask({"file": "x"})


def test_who_ends_itself_is_told_by_its_code() -> None:
    """Here for a module that does not exist."""
    with pytest.raises(ProcessEndedError, match="exit code 1"):
        Process("moeopt.no_such_module")


def test_a_large_program_is_solved_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """HiGHS in a process of its own says what it says here; one that ends is no answer."""
    instance = random_instance(3)
    here = moeopt.solve(instance, "milp", verify=False, warm_start=False)
    monkeypatch.setattr(engines, "LARGE", 0)
    there = moeopt.solve(instance, "milp", verify=False, warm_start=False)
    assert (there.objective, there.bound) == (here.objective, here.bound)
    assert len(engines._idle) == 1
    engines._idle[0].running.kill()
    ended = moeopt.solve(instance, "milp", verify=False, warm_start=False)
    assert ended.solution is None
    assert "SIGKILL" in ended.raw_status
    assert not engines._idle
    assert moeopt.solve(instance, "milp", verify=False, warm_start=False).bound == here.bound


def test_nobody_to_answer_is_no_error() -> None:
    """Who asked may have been ended meanwhile, by Ctrl-C say."""
    process = subprocess.Popen(
        [sys.executable, "-m", rule_process.__name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"{}\n")
    process.stdin.flush()
    process.stdout.readline()
    process.stdout.close()
    process.stdin.write(b'{"spec": "nothing.py:none"}\n')
    process.stdin.flush()
    assert process.wait() == 0
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stdin.close()
    process.stderr.close()


ASKER = f"""
import subprocess, sys
serving = "import time; from {serve_pipes.__module__} import serve_pipes; serve_pipes(lambda _: time.sleep(600))"
asked = subprocess.Popen([sys.executable, "-c", serving], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
asked.stdin.write(b'{{}}\\n')
asked.stdin.flush()
asked.stdout.readline()
asked.stdin.write(b'{{"for": "ever"}}\\n')
asked.stdin.flush()
print(flush=True)
asked.wait()
"""  # noqa: E501


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot wait for the end of a pipe")
def test_no_process_outlives_a_killed_parent() -> None:
    """It has its parent's stderr, which would stay open: also in the midst of an endless answer."""
    command = [sys.executable, "-c", ASKER]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert parent.stdout
    parent.stdout.readline()
    parent.kill()
    assert parent.communicate(timeout=300) == (b"", b"")
