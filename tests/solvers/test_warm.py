"""`moeopt warm`: all kernels compiled, once."""

from importlib import import_module
from pathlib import Path

import pytest

from tests.rooms.cli import run
from tests.rooms.core import KERNELS, PACKAGE, compiled, kernel_folder
from tests.rooms.problems import PROBLEMS
from tests.rooms.replication import annealing
from tests.rooms.solvers import warm
from tests.rooms.solvers import warm_module as module


def missing(names: set[str], folder: Path) -> list[str]:
    """Return the kernels that a folder lacks."""
    kept = {index.name.partition("-")[0] for index in folder.rglob("*.nbi")}
    return sorted(name for name in names if name.replace("<locals>", "_locals_") not in kept)


def test_every_kernel_is_in_the_cache() -> None:
    """Whatever is compiled anywhere in the package, for one combination of types at least."""
    for path in PACKAGE.rglob("*.py"):
        if f"from {compiled.__module__} import" in path.read_text(encoding="utf-8"):
            parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
            import_module(".".join(parts).removesuffix(".__init__"))
    ours = {
        ".".join([kernel.py_func.__module__.rpartition(".")[2], kernel.py_func.__qualname__])
        for kernel in KERNELS
        if kernel.py_func.__module__.startswith("moeopt.")
    }
    assert 30 < len(ours) <= 60
    folder = Path(kernel_folder())
    if missing(ours, folder):  # else several workers have begun with all of them
        folder = warm().folder
    assert not missing(ours, folder), (
        "python -m tests.warm_instances finds instances for them, or says so"
    )


def test_it_comes_to_exchanges_of_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only large instances do; the folder may have their kernel from another test."""
    exchange, calls = annealing.exchange, []
    monkeypatch.setattr(
        annealing, "exchange", lambda *of, **how: calls.append(exchange(*of, **how))
    )
    for instance in module.warm_instances("replication"):
        module.solve_with_all(instance, PROBLEMS["replication"])
    assert calls


@pytest.fixture
def deferral_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Leave one problem, and give kernels a folder of their own."""
    monkeypatch.setattr(module, "PROBLEMS", {"deferral": PROBLEMS["deferral"]})
    monkeypatch.setattr(module, "_call_others", lambda: None)
    monkeypatch.setattr(module, "kernel_folder", lambda: str(tmp_path))
    return tmp_path


def test_done_once_it_solves_nothing(
    deferral_only: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is there says so; another version of the sources has another folder."""
    assert run(["warm", "--jobs", "1"]) == 0
    told = capsys.readouterr()
    assert told.err.startswith("moeopt: 1/2 deferral: ")
    assert f"kept in {deferral_only}" in told.out
    assert run(["warm", "--jobs", "1"]) == 0
    told = capsys.readouterr()
    assert (told.err, told.out[:20]) == ("", "0 kernels compiled i")


def test_errors_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No folder, no number of processes."""
    assert run(["warm", "--jobs", "0"]) == 2
    assert "jobs: must be from 1 to 1024, not 0" in capsys.readouterr().err
    monkeypatch.setattr(module, "kernel_folder", lambda: "")
    assert run(["warm"]) == 2
    assert "set MOEOPT_CACHE_DIR" in capsys.readouterr().err
