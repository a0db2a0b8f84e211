"""Module paths of the package stand in `tests/rooms` and `benchmarks/rooms`, and nowhere else."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tests.contract.test_imports import FLOORS
from tests.rooms.problems import PROBLEMS

DEEP = re.compile(rf"\bmoeopt\.({'|'.join(FLOORS)})\b")

LINE = re.compile(r'^ +"(moeopt\.[\w.]+)', re.MULTILINE)
"""A room's line about a module."""

MAYBE = re.compile(rf"{DEEP.pattern}|from moeopt import")
"""What is worth parsing."""

FOLDERS = ("tests", "benchmarks", "instances")

TAUGHT = ("tests/contract/", "tests/rooms/", "benchmarks/rooms/", "instances/tools/rekey.py")
"""What knows module paths: rooms, the rules about them, a tool that runs code of old commits."""


def dotted(node: ast.expr) -> str:
    """Return ``a.b.c``, with nothing for what is no name."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def deep_names(source: str) -> Iterator[str]:
    """Yield what a source names below ``moeopt``: in imports, attributes and text, not docstrings.

    Text is what `setattr` patches, what ``python -m`` runs, and a program of its own.
    """
    told: set[int] = set()
    for node in ast.walk(ast.parse(source)):  # a statement comes before what it consists of
        names: list[str] = []
        if isinstance(node, ast.Expr):
            told.add(id(node.value))
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute):
            names = [dotted(node)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [] if id(node) in told else [node.value]
        for name in names:
            if found := DEEP.search(name):
                yield f"{node.lineno}: {found[0]}"


def test_only_rooms_know_module_paths(root: Path) -> None:
    """A module that moves changes its line in a room, and no test."""
    found = {}
    for folder in FOLDERS:
        for path in (root / folder).rglob("*.py"):
            name = path.relative_to(root).as_posix()
            text = path.read_text()
            if MAYBE.search(text) and not name.startswith(TAUGHT) and (deep := [*deep_names(text)]):
                found[name] = deep
    assert found == {}, "import it from tests/rooms or benchmarks/rooms, and enter it there"


@pytest.mark.parametrize(
    "source",
    [
        "from moeopt.core.clock import spend",
        "def f():\n    from moeopt.problems import layout",
        "from moeopt import core",
        "import moeopt.cli.main as main",
        "monkeypatch.setattr('moeopt.core.clock.perf_counter', None)",
        "run([sys.executable, '-m', 'moeopt.solvers.engines'])",
        "f'from moeopt.cli.main import {name}'",
        "moeopt.problems.registry.PROBLEMS",
    ],
)
def test_a_module_path_would_be_seen(source: str) -> None:
    """However it is written."""
    assert list(deep_names(source))


def test_public_names_and_docstrings_are_free() -> None:
    """What users write, and what is said about a module."""
    source = '''"""Of `moeopt.core.clock`."""\nfrom moeopt import layout, solve\n"moeopt.plan"'''
    assert not list(deep_names(source))


@pytest.mark.parametrize("folder", ["tests/rooms", "benchmarks/rooms"])
def test_rooms_offer_what_there_is_and_is_used(folder: str, root: Path) -> None:
    """Each name exists, lies in its own room, and is imported by somebody."""
    package = folder.replace("/", ".")
    offered: set[str] = set()
    for path in (root / folder).glob("*.py"):
        if path.stem == "lazily":
            continue
        within = f"problems.{path.stem}" if path.stem in PROBLEMS else path.stem
        for module in LINE.findall(path.read_text()):
            assert f"{module}.".startswith(f"moeopt.{within}."), path.name
        room = import_module(f"{package}.{path.stem}")
        for name in dir(room):
            getattr(room, name)
        offered |= {f"{path.stem}.{name}" for name in dir(room)}
    files = [path for part in FOLDERS for path in (root / part).rglob("*.py")]
    imports = re.compile(
        rf"^ *from {re.escape(package)}\.(\w+) import (\([^)]*\)|.*)", re.MULTILINE
    )
    used = {
        f"{of}.{name}"
        for path in files
        for of, names in imports.findall(path.read_text())
        for name in re.findall(r"(?:^|,)\s*(\w+)", names.strip("()"))
    }
    assert offered - used == set(), "nobody imports them"
    assert len(offered) > 100


def test_a_name_that_a_room_lacks_is_an_import_error() -> None:
    """So that collecting the tests finds it."""
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        exec("from tests.rooms.core import nothing")
