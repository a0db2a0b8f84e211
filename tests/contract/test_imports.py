"""Imports point one way, and a judge knows nothing of solvers."""

import ast
import sys
from pathlib import Path

import pytest

from moeopt.problems.registry import PROBLEMS

ALLOWED = {
    "errors": set(),
    "numeric": {"numeric"},
    "problems": {"errors", "numeric", "problems"},
    "solvers": {"errors", "numeric", "problems", "solvers"},
    "sim": {"errors", "numeric", "problems", "sim"},
    "interop": {"errors", "problems", "sim", "interop"},
    "study": {"errors", "problems", "solvers", "sim", "study"},
    "reproduce": {"errors", "problems", "solvers", "sim", "interop", "reproduce"},
    "planner": {"errors", "problems", "solvers", "sim", "planner"},
    "__main__": {"cli"},
    "cli": {
        *("errors", "problems", "solvers", "sim", "interop", "study", "planner", "reproduce", "cli")
    },
}
"""Room -> the rooms it may import from: problems <- solvers <- study <- cli; problems <- sim.

`study` runs decisions on other loads, which is the simulator's work.
`numeric` is below all, and only cli imports planner and reproduce.
"""

SOLVERS = {"ortools", "pulp", "swiglpk", "scipy", "highspy"}


def imported(source: str, package: str = "") -> set[str]:
    """Return the full names of all modules a source imports, relative ones made absolute."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(f"{package}.{node.module or ''}" if node.level else node.module or "")
    return found


def rooms(names: set[str]) -> set[str]:
    """Return the rooms of the package that module names lie in."""
    return {name.split(".")[1] for name in names if name.startswith("moeopt.")}


def breaches(room: str, source: str) -> set[str]:
    """Return the rooms that a source in `room` imports although it may not."""
    return rooms(imported(source, f"moeopt.{room}")) - ALLOWED[room]


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
    """The rule can fail: also for an import inside a function."""
    assert breaches("problems", "def f():\n    from moeopt.solvers.run import solve") == {"solvers"}
    assert breaches("sim", "import moeopt.interop.traces") == {"interop"}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_judge_imports_only_its_own(problem: str, root: Path) -> None:
    """check.py: its own instance and solution, numpy, the standard library."""
    source = (root / "moeopt" / "problems" / problem / "check.py").read_text()
    own = {".instance", ".solution", "numpy"}
    foreign = {
        name
        for name in imported(source)
        if name not in own and name.split(".")[0] not in sys.stdlib_module_names
    }
    assert foreign == set()


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize(
    "part", ["instance", "solution", "check", "bounds", "heuristics", "oracle"]
)
def test_only_models_import_solvers(problem: str, part: str, root: Path) -> None:
    """Solvers are imported by cpsat.py and milp.py alone."""
    source = (root / "moeopt" / "problems" / problem / f"{part}.py").read_text()
    assert not {name.split(".")[0] for name in imported(source)} & SOLVERS


def test_highspy_is_never_imported(root: Path) -> None:
    """It cannot live in one process with ortools."""
    for path in (root / "moeopt").rglob("*.py"):
        assert "highspy" not in {name.split(".")[0] for name in imported(path.read_text())}
