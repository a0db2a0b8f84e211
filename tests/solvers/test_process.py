"""Processes that can be ended, and what is said of those that end themselves."""

import _thread
import os
import subprocess
import sys
import threading
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import pytest

import moeopt
from tests.problems.cache.cache_random_instances import random_instance
from tests.rooms.solvers import (
    Process,
    ProcessEndedError,
    end_all,
    engines,
    kept,
    rule_process,
    serve_pipes,
)


def test_who_is_ended_answers_no_more() -> None:
    """Who waits for its answer is told."""
    child = Process(engines.__name__)
    assert child.alive
    child.end()
    assert not child.alive
    with pytest.raises(ProcessEndedError, match="SIGKILL"):
        child.ask({"file": "x"})


def test_who_ends_itself_is_told_by_its_code() -> None:
    """Here for a module that does not exist."""
    with pytest.raises(ProcessEndedError, match="exit code 1"):
        Process("moeopt.no_such_module")


INSTANCE = random_instance(3)


def milp(**options: Any) -> Any:
    """Solve an instance with HiGHS alone."""
    return moeopt.solve(INSTANCE, "milp", verify=False, warm_start=False, **options)


def test_a_child_is_started_once_and_kept() -> None:
    """One that was killed gives no answer, and the next solve has another."""
    end_all()
    first = milp()
    with kept("engines", no_other) as child:
        kept_pid = child.running.pid
    assert milp().bound == first.bound
    with kept("engines", no_other) as child:
        assert child.running.pid == kept_pid
        child.running.kill()
        with pytest.raises(ProcessEndedError, match="SIGKILL"):
            child.ask({"any": "thing"})
    assert milp().bound == first.bound
    with kept("engines", no_other) as child:
        assert child.running.pid != kept_pid


def no_other() -> Process:
    """Refuse to start another child."""
    raise AssertionError("there is none that is kept")


def test_who_is_late_is_ended() -> None:
    """At the limit, however long the answer would take; the process that asks goes on."""
    stalls = "tests.solvers.stalling_child"
    child = Process(stalls)
    begin = perf_counter()
    assert child.ask({"seconds": 600}, limit_s=0.2) is None
    assert perf_counter() - begin < 60
    assert not child.alive
    child = Process(stalls)
    assert child.ask({"seconds": 0}, b"some bytes", limit_s=600) == {"bytes": 10}
    assert child.alive
    child.end()


def test_ctrl_c_ends_the_child_and_not_this_process() -> None:
    """The answer is for nobody then."""
    child = Process("tests.solvers.stalling_child")
    threading.Timer(0.3, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        child.ask({"seconds": 600})
    assert not child.alive


def test_no_thread_stays_behind() -> None:
    """Whether a limit cuts in or not."""
    before = threading.active_count()
    child = Process("tests.solvers.stalling_child")
    child.ask({"seconds": 600}, limit_s=0.1)
    milp()
    milp(time_limit_s=600)
    moeopt.solve(INSTANCE, "cp-sat")
    until = perf_counter() + 60
    while threading.active_count() > before and perf_counter() < until:
        sleep(0.01)  # a timer that was cancelled ends a moment later
    assert threading.active_count() == before


UNGUARDED = """
import moeopt
from tests.problems.cache.cache_random_instances import random_instance
print("this script runs")
print(moeopt.solve(random_instance(3), "milp", engine="scip").status)
"""


def test_a_script_needs_no_guard(tmp_path: Path, root: Path) -> None:
    """Children do not run the caller's script, and nothing that SCIP prints is seen."""
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(root)},
        timeout=600,
    )
    assert (done.stdout.split("\n"), done.stderr) == (["this script runs", "optimal", ""], "")


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
serving = "import time; from {serve_pipes.__module__} import serve_pipes; serve_pipes(lambda *_: time.sleep(600))"
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
