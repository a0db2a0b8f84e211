"""Native code's prints: the command line's results are free of them.

The library leaves alone what its caller prints on.
"""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent

import pytest

from moeopt import save
from tests.problems.balance import balance_random_instances as balance
from tests.problems.placement import placement_random_instances as placement
from tests.rooms.core import drop_native_stdout

NATIVE = (
    f"from {drop_native_stdout.__module__} import drop_native_stdout\n"
    + """
import ctypes
import os
import sys
import threading
import time


def native(text):
    ctypes.CDLL(None).printf(text)  # buffered by the C library, as in HiGHS


"""
)

SOLVES = dedent("""
    import moeopt
    from tests.problems.placement.placement_random_instances import random_instance

    instance = random_instance(42, "slow offload")
    before, led = sys.stdout, os.fstat(1)


    def solve(engine="highs"):
        return moeopt.solve(instance, "milp", engine=engine, verify=False, warm_start=False)


    def unchanged():
        assert sys.stdout is before and sys.__stdout__ is before and not before.closed
        assert os.path.samestat(os.fstat(1), led)


""")


def run(program: str, closed: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program in which `native` prints as HiGHS does; ``closed``: see `shell`."""
    code = NATIVE + dedent(program)
    return shell([sys.executable, "-c", code], closed)


def shell(command: Sequence[str], closed: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command by a shell that closes some of its streams, such as ``>&-``."""
    words = ["sh", "-c", f'exec "$@" {closed}', "sh", *command]
    return subprocess.run(words, capture_output=True, text=True, timeout=600)


def moeopt(*words: str, closed: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command line."""
    return shell([sys.executable, "-m", "moeopt", *words], closed)


def seen(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the lines of the caller's own; all went well."""
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


# A program of ours


def test_nothing_native_is_seen() -> None:
    """Whatever native code prints after, in any thread and at the very end; not what it did before.

    Python's prints go on where they did, line by line or not, as Python was told.
    """
    done = run("""
        print("before")
        native(b"native before\\n")
        drop_native_stdout()
        native(b"dropped\\n")
        thread = threading.Thread(target=native, args=(b"from a thread\\n",))
        thread.start()
        thread.join()
        print("results")
        drop_native_stdout()
        native(b"dropped at exit\\n")
        print("and more results")
    """)
    assert done.stdout.splitlines() == ["before", "native before", "results", "and more results"]
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_lead_to_nothing(closed: str, tmp_path: Path) -> None:
    """What is opened next is no standard stream, which would be printed into."""
    file = tmp_path / "opened"
    done = run(
        f"""
        drop_native_stdout()
        opened = open({str(file)!r}, "w")
        print("to stdout")
        print("to stderr", file=sys.stderr)
        native(b"native")
        os.write(1, b"native, too")
        os.system("echo a child; echo its errors >&2")
        opened.write(f"{{opened.fileno() > 2}}")
        """,
        closed,
    )
    assert done.returncode == 0
    assert file.read_text() == "True"
    assert done.stdout == ("" if ">&-" in closed.split() else "to stdout\n")
    assert done.stderr == ("" if "2>&-" in closed else "to stderr\nits errors\n")


def test_a_stdout_that_is_no_file_stays() -> None:
    """As in a notebook: Python's prints stay where they are captured."""
    done = run("""
        import io
        sys.stdout = io.StringIO()
        drop_native_stdout()
        print("inside")
        assert sys.stdout.getvalue() == "inside\\n"
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# The command line


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Return files of instances in which HiGHS prints."""
    instances = [placement.random_instance(42, "slow offload"), balance.random_instance(3)]
    paths = [tmp_path / f"{number}.json" for number in range(len(instances))]
    for path, instance in zip(paths, instances, strict=True):
        save(instance.model_dump(mode="json"), path)
    return list(map(str, paths))


@pytest.mark.slow
def test_the_command_line_shows_results_alone(files: list[str]) -> None:
    """HiGHS prints a debug line, which `--json` and stderr are kept free of."""
    done = moeopt("solve", *files, "--method", "milp", "--json")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [of["status"] for of in found] == ["optimal"] * len(files)
    assert done.stderr == ""


@pytest.mark.parametrize(
    "closed", ["2>&-", "<&- >&- 2>&-", pytest.param(">&-", marks=pytest.mark.slow)]
)
def test_the_command_line_with_closed_streams(
    closed: str, files: list[str], tmp_path: Path
) -> None:
    """What is written to a file is whole, and nobody sees a traceback."""
    out = tmp_path / "out.json"
    method = "milp" if closed == "2>&-" else "frequency"  # HiGHS writes to what is open yet
    done = moeopt("solve", files[0], "--method", method, "--out", str(out), closed=closed)
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) == (closed == "2>&-")
    assert json.loads(out.read_text())["problem"] == "placement"


def test_a_mistake_with_a_closed_stream() -> None:
    """Has its exit code."""
    assert moeopt("solve", "nothing.json", closed=">&-").returncode == 2


def test_a_file_that_is_stdout(files: list[str]) -> None:
    """The solution goes where the results go."""
    done = moeopt("solve", files[0], "--out", "/dev/stdout", "--json")
    solution, _, result = done.stdout.removesuffix("\n").rpartition("\n")
    assert json.loads(solution)["instance"] == json.loads(result)["instance"]


# The library


@pytest.mark.slow
def test_solves_in_threads_while_others_print() -> None:
    """No line of the caller is lost or goes elsewhere, and none of the engines' is seen."""
    done = run(
        SOLVES
        + dedent("""
        threads = [threading.Thread(target=solve, args=(e,)) for e in ("highs", "scip", "highs")]
        for thread in threads:
            thread.start()
        for number in range(1000):
            print("line", number)
        solve()
        for thread in threads:
            thread.join()
        unchanged()
        print("the end")
        """)
    )
    assert seen(done) == [*(f"line {number}" for number in range(1000)), "the end"]


@pytest.mark.slow
def test_any_stdout_will_do() -> None:
    """A notebook's, a test's, or none."""
    done = run(
        SOLVES
        + dedent("""
        import io
        for mine in (None, io.StringIO(), open(os.devnull, "w")):
            sys.stdout = mine
            assert solve().bound is not None
            assert sys.stdout is mine and not getattr(mine, "closed", False)
        sys.stdout = before
        unchanged()
        print("the end")
        """)
    )
    assert seen(done) == ["the end"]


def test_stdout_may_be_closed() -> None:
    """By the caller's shell: no traceback, nothing elsewhere."""
    done = run(
        """
        import moeopt
        from tests.problems.placement.placement_random_instances import random_instance

        assert sys.stdout is None
        found = moeopt.solve(random_instance(3), "milp", verify=False, warm_start=False)
        assert found.bound is not None
        print("for nobody")
        """,
        ">&-",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_library_touches_no_stream(root: Path) -> None:
    """Only programs do: the command line, and processes that the package starts."""
    touching = re.compile(r"os\.dup|drop_native_stdout\(|sys\.std(?:out|err)\b.* = |redirect_std")
    found = {
        str(file.relative_to(root / "moeopt"))
        for file in (root / "moeopt").rglob("*.py")
        if touching.search(file.read_text())
    }
    programs = {"core/native_output.py", "solvers/process.py"}
    assert {of for of in found if not of.startswith("cli/")} == programs
