"""Native code's prints: dropped, while Python's stdout goes on."""

import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from moeopt.core.json_files import save
from tests.problems.placement.placement_random_instances import random_instance

NATIVE = """
import ctypes
import sys
import threading

from moeopt.core.native_output import drop_native_stdout, native_stdout_dropped


def native(text):
    ctypes.CDLL(None).printf(text)  # buffered by the C library, as in HiGHS


"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in which `native` prints as HiGHS does."""
    code = NATIVE + dedent(program)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600
    )


def test_inside_nothing_native_is_seen() -> None:
    """Neither on stdout nor on stderr, from any thread; what comes after is seen again."""
    done = run("""
        print("before")
        native(b"native before\\n")
        with native_stdout_dropped():
            print("inside")
            thread = threading.Thread(target=native, args=(b"from a thread\\n",))
            thread.start()
            thread.join()
            native(b"dropped\\n")
            with native_stdout_dropped():
                native(b"dropped, too\\n")
            native(b"and dropped\\n")
        print("after")
    """)
    assert done.stdout.splitlines() == ["before", "native before", "inside", "after"]
    assert done.stderr == ""


def test_a_thread_that_is_left_behind_closes_nothing() -> None:
    """It enters while the main thread is inside, and leaves after it, as a nested solve may."""
    done = run("""
        entered, left = threading.Event(), threading.Event()

        def nested():
            with native_stdout_dropped():
                entered.set()
                left.wait()

        thread, before = threading.Thread(target=nested), sys.stdout
        with native_stdout_dropped():
            thread.start()
            entered.wait()
        left.set()
        thread.join()
        assert sys.stdout is before
        with native_stdout_dropped():
            print("inside")
        print("after")
    """)
    assert done.stdout.splitlines() == ["inside", "after"]


def test_once_and_for_all() -> None:
    """Whatever native code prints at any time, also at the very end and inside another guard."""
    done = run("""
        drop_native_stdout()
        native(b"dropped\\n")
        with native_stdout_dropped():
            print("results")
        native(b"dropped at exit\\n")
        print("and more results")
    """)
    assert done.stdout == "results\nand more results\n"
    assert done.stderr == ""


def test_a_stdout_that_is_no_file_stays(capsys: pytest.CaptureFixture[str]) -> None:
    """As in a notebook: Python's prints stay where they are captured."""
    from moeopt.core.native_output import native_stdout_dropped

    with native_stdout_dropped():
        print("inside")
    assert capsys.readouterr().out == "inside\n"


def test_the_command_line_shows_results_alone(tmp_path: Path) -> None:
    """HiGHS prints a debug line in this instance, which `--json` and stderr are kept free of."""
    file = tmp_path / "p.json"
    save(random_instance(42, "slow offload").model_dump(mode="json"), file)
    command = [sys.executable, "-m", "moeopt", "solve", str(file), "--method", "milp", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(done.stdout)["status"] == "optimal"
    assert done.stderr == ""
