"""Directions of imports: rooms stand on floors, and a checker knows nothing of solvers."""

import ast
import importlib
import sys
from collections.abc import Collection
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

from tests.contract.statements import statements
from tests.rooms.problems import PROBLEMS

ROOT = "moeopt"
"""The public face: ``import moeopt`` and what is imported from it."""

BENCHMARKS = "benchmarks"
"""What is not installed."""

FLOORS = (
    *("core", "algorithms", "sim", "problems", "certificates", "solvers", "exporters"),
    *("systems", "planner", "study", "cli", "__main__"),
)
"""Rooms from the ground up: each may import from those below it. Not all of them exist yet.

What of a problem knows `sim` (generate, holdout, execute) is imported when it is used: solving a
file imports no simulator.
"""

SOLVERS = {"ortools", "pulp", "scipy", "highspy"}


@cache
def import_statements(source: str) -> list[ast.Import | ast.ImportFrom]:
    """Return a source's imports, those in functions included."""
    nodes = statements(ast.parse(source))
    return [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]


def imported(source: str, package: str = "", modules: Collection[str] = ()) -> set[str]:
    """Return the full names of all modules a source imports, relative ones made absolute.

    ``from a import b`` gives ``a`` and ``a.b``: whether `b` is a module, the text does not say. If
    `a.b` is among `modules`, it gives that alone.
    """
    found: set[str] = set()
    for node in import_statements(source):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        else:
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, base] if base else parents)
            names = {f"{base}.{alias.name}" for alias in node.names}
            found |= names if names <= {*modules} else {base, *names}
    return found


def rooms(names: set[str]) -> set[str]:
    """Return the rooms of the package that module names lie in; `ROOT` for ``import moeopt``."""
    inside = {name.split(".")[1] for name in names if name.startswith("moeopt.")}
    return (
        (inside & set(FLOORS))
        | ({name.split(".")[0] for name in names} & {BENCHMARKS})
        | (names & {ROOT})
    )


def breaches(room: str, source: str) -> set[str]:
    """Return the rooms that a source in `room` imports although it may not.

    The public face is for who stands above all rooms: the command line.
    """
    below = {*FLOORS[: FLOORS.index(room) + 1]} | ({ROOT} if room == "cli" else set())
    return rooms(imported(source, f"moeopt.{room}")) - below


def test_imports_point_one_way(root: Path) -> None:
    """No room imports from a room above it."""
    package = root / "moeopt"
    files = [path for path in package.rglob("*.py") if path != package / "__init__.py"]
    assert len(files) > 30
    found = {}
    for path in files:
        room = path.relative_to(package).parts[0].removesuffix(".py")
        if wrong := breaches(room, path.read_text()):
            found[str(path)] = wrong
    assert found == {}


def test_a_wrong_import_would_be_seen() -> None:
    """The rule can fail: for an import inside a function, and for the public face."""
    assert breaches("problems", "def f():\n    from moeopt.solvers.run import solve") == {"solvers"}
    assert breaches("sim", "import moeopt.problems.twins") == {"problems"}
    assert breaches("study", "def f():\n    import moeopt") == {ROOT}
    assert breaches("study", "import benchmarks.papers") == {BENCHMARKS}
    assert breaches("planner", "from moeopt import solve") == {ROOT}
    assert breaches("exporters", "from moeopt import study") == {"study", ROOT}
    assert breaches("sim", "from moeopt.core import clock") == set()
    assert breaches("cli", "import moeopt") == set()


def imports_between(package: Path) -> nx.DiGraph:
    """Return the graph of the imports between a package's modules, those in functions included.

    A module that is only the face of others, as ``moeopt/__init__.py`` is, has no arrows.
    """
    files = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    graph = nx.DiGraph()
    for name, path in files.items():
        if name == package.name:
            continue
        own = name if path.name == "__init__.py" else name.rpartition(".")[0]
        found = imported(path.read_text(), own, files)
        graph.add_edges_from((name, other) for other in found if other in files and other != name)
    return graph


def circles(package: Path) -> list[list[str]]:
    """Return the groups of modules that import each other, however indirectly."""
    parts = nx.strongly_connected_components(imports_between(package))
    return sorted(sorted(part) for part in parts if len(part) > 1)


def test_no_modules_import_each_other(root: Path) -> None:
    """Whatever imports can be read from the bottom up."""
    assert circles(root / "moeopt") == []


def test_a_circle_would_be_seen(tmp_path: Path) -> None:
    """Also through a package, a relative import and an import inside a function."""
    room = tmp_path / "made" / "room"
    room.mkdir(parents=True)
    (tmp_path / "made" / "__init__.py").write_text("from made.room import first")
    (room / "__init__.py").write_text("")
    (room / "first.py").write_text("from . import second")
    (room / "second.py").write_text("def f():\n    import made.room.third")
    (room / "third.py").write_text("")
    assert circles(tmp_path / "made") == []
    (room / "third.py").write_text("from made.room.first import anything")
    assert circles(tmp_path / "made") == [[f"made.room.{n}" for n in ("first", "second", "third")]]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_checker_imports_only_its_own(problem: str, root: Path) -> None:
    """check.py: its own instance and solution, numpy, the standard library."""
    source = (root / "moeopt" / "problems" / problem / "check.py").read_text()
    own = {".instance", ".solution", "numpy"}
    foreign = {
        name
        for name in imported(source)
        if not any(name == mine or name.startswith(f"{mine}.") for mine in own)
        and name.split(".")[0] not in sys.stdlib_module_names
    }
    assert foreign == set()


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("part", ["instance", "check", "bounds", "heuristics"])
def test_only_models_import_solvers(problem: str, part: str, root: Path) -> None:
    """Solvers are imported by models alone."""
    source = (root / "moeopt" / "problems" / problem / f"{part}.py").read_text()
    assert not {name.split(".")[0] for name in imported(source)} & SOLVERS


@pytest.mark.parametrize("folder", ["benchmarks", "docs"])
def test_what_no_test_runs_imports_what_there_is(folder: str, root: Path) -> None:
    """Studies and the site's hook: names of the package that moved would be found by nobody."""
    missing = []
    for path in (root / folder).rglob("*.py"):
        for node in statements(ast.parse(path.read_text())):
            name = node.module if isinstance(node, ast.ImportFrom) else None
            if name is None or name.split(".")[0] not in ("moeopt", "benchmarks", "instances"):
                continue
            assert isinstance(node, ast.ImportFrom)
            for one in node.names:
                try:
                    found = importlib.import_module(name)
                    hasattr(found, one.name) or importlib.import_module(f"{name}.{one.name}")
                except ImportError:
                    missing.append(f"{path.relative_to(root)}:{node.lineno}: {name}.{one.name}")
    assert missing == []


def test_highspy_is_never_imported(root: Path) -> None:
    """It cannot live in one process with ortools."""
    for path in (root / "moeopt").rglob("*.py"):
        assert "highspy" not in {name.split(".")[0] for name in imported(path.read_text())}
