"""Full disks, folders that cannot be written, stores behind links, workers that memory ends.

Each time one line, the exit code that docs/commands.md says, and nothing that was there is lost.
"""

import ctypes
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import moeopt
from tests.problems.tri_domain.random_instances import random_instance
from tests.rooms.cli import run
from tests.rooms.study import Store

Capture = pytest.CaptureFixture[str]

WITHOUT_RIGHTS = (
    "import ctypes, os, sys; [ctypes.CDLL(None).prctl(24, right) for right in (1, 2)];"
    "os.execv(sys.executable, [sys.executable, '-m', 'moeopt', *sys.argv[1:]])"
)
"""Runs moeopt so that folders' permissions bind it also where it is root's."""


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Return an instance's file."""
    moeopt.save(random_instance(1, experts=5), tmp_path / "i.json")
    return str(tmp_path / "i.json")


@contextmanager
def full_disk(most: int) -> Iterator[None]:
    """Let no file grow beyond so many bytes, as a full disk does; the error is another number.

    Python itself would keep half a module's bytecode then.
    """
    keeps, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        sys.dont_write_bytecode = keeps


def lines(capsys: Capture) -> list[str]:
    """Return what was said on stderr."""
    return capsys.readouterr().err.splitlines()


def test_a_full_disk_leaves_the_old_file(file: str, tmp_path: Path, capsys: Capture) -> None:
    """And no part of the new one."""
    out = tmp_path / "out.json"
    assert run(["solve", file]) == 0
    out.write_text("old")
    capsys.readouterr()
    with full_disk(64):
        assert run(["solve", file, "--out", str(out)]) == 2
    [line] = lines(capsys)
    assert line.endswith("out.json: cannot be written: File too large")
    assert out.read_text() == "old"
    assert not list(tmp_path.glob(".*.tmp"))


def test_a_full_disk_loses_no_result(file: str, tmp_path: Path, capsys: Capture) -> None:
    """What the store had, it has; what could not be stored is solved when there is room."""
    store = tmp_path / "s.db"
    gap = ["gap", file, "--store", str(store), "--resume"]
    assert run([*gap, "--methods", "greedy"]) == 0
    capsys.readouterr()
    with full_disk(store.stat().st_size):
        assert run(gap) == 2
    said = lines(capsys)[-1]
    assert said.startswith(f"moeopt: error: {store}: the store cannot be used: ")
    with Store(store) as kept:
        before = set(kept.frame().key)
    assert len(before) >= 1
    assert run(gap) == 0
    with Store(store) as kept:
        assert before < set(kept.frame().key)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_output_to_a_full_disk_is_a_line() -> None:
    """No traceback, and none on leaving."""
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "moeopt", "list", "problems"]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr == "moeopt: error: output: No space left on device\n"


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "prctl"), reason="rights are given up by prctl")
def test_a_folder_that_cannot_be_written(file: str, tmp_path: Path) -> None:
    """Its store is read; nothing is written into it."""
    closed = tmp_path / "closed"
    closed.mkdir()
    moeopt.gap([moeopt.load(file)], ["greedy"], store=closed / "s.db")
    before = sorted(closed.iterdir())
    assert run(["report", str(closed / "s.db"), "--out", str(tmp_path / "report")]) == 0
    closed.chmod(0o555)
    commands = {
        ("report", str(closed / "s.db"), "--out", str(tmp_path / "report")): 0,
        ("report", str(closed / "s.db"), "--out", str(closed / "report")): 2,
        ("gap", file, "--store", str(closed / "s.db")): 2,
        ("solve", file, "--out", str(closed / "o.json")): 2,
    }
    for words, code in commands.items():
        command = [sys.executable, "-c", WITHOUT_RIGHTS, *words]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (ended.returncode, len(ended.stderr.splitlines())) == (code, code // 2), words
    assert sorted(closed.iterdir()) == before


def test_a_store_behind_a_link(file: str, tmp_path: Path, capsys: Capture) -> None:
    """The file that it leads to is the store; a link to itself is a line."""
    link, loop = tmp_path / "link.db", tmp_path / "loop.db"
    link.symlink_to("real.db")
    loop.symlink_to(loop.name)
    gap = ["gap", file, "--methods", "greedy", "--resume", "--store"]
    assert run([*gap, str(link)]) == 0
    assert link.is_symlink()
    with Store(tmp_path / "real.db", create=False) as store:
        assert len(store.frame()) == 2
    capsys.readouterr()
    assert run([*gap, str(loop)]) == 2
    assert len(lines(capsys)) == 1


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory in use is in /proc")
def test_too_little_memory_is_a_line(capsys: Capture) -> None:
    """Half a gigabyte of tokens where there are 64 MiB: no traceback, nothing was found."""
    command = ["simulate", "--machine", "rtx4090+ryzen-am5", "--model", "mixtral-8x7b"]
    command += ["--workload", "hdmoe-mixtral", "--steps", "2"]
    assert run([*command, "--batch", "1"]) == 0
    capsys.readouterr()
    in_use = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (in_use + 2**26, hard))
    try:
        assert run([*command, "--batch", "500000"]) == 4
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
    assert lines(capsys) == ["moeopt: error: this machine's memory is too small for it"]


@pytest.mark.slow
def test_a_worker_that_memory_ends(file: str, tmp_path: Path, capsys: Capture) -> None:
    """The system kills the process that took too much: its solve is a line, the others are kept."""
    rules = tmp_path / "rules.py"
    rules.write_text(
        "import os, signal\n"
        "def killed(instance):\n    os.kill(os.getppid(), signal.SIGKILL)\n"
        "def gpu(instance):\n    return ['gpu'] * len(instance.experts)\n"
    )
    store = tmp_path / "s.db"
    named = [word for name in ("killed", "gpu") for word in ("--with", f"{rules}:{name}")]
    command = ["gap", file, "--methods", "greedy", *named, "--jobs", "2", "--store", str(store)]
    assert run(command) == 4
    said = [line for line in lines(capsys) if "killed" in line]
    assert "its process was ended by SIGKILL" in said[0]
    with Store(store) as kept:
        [failed] = [one for one in kept.records() if one.failed]
        assert failed.method.endswith(":killed")
        assert failed.failure == "died"
        assert kept.frame().objective.notna().sum() == 3
