"""The page of mechanisms: 170 rows, each with a file that exists and a command that does too."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from benchmarks.papers.registry import FIGURES
from tests.rooms.problems import PROBLEMS, get_problem
from tests.rooms.solvers import problem_methods
from tests.rooms.systems import get_system

ROW = re.compile(
    r"^\| (\d+) \| (.*?) \| (.*?) \| (.*?) \| (.*?) \| (.*?) \| (.*?) ?\|$", re.MULTILINE
)
VERDICTS = ("yes", "partly", "no", "not meaningful")


@pytest.fixture
def rows(root: Path) -> list[tuple[str, ...]]:
    """Return the cells of each mechanism: number, where, what, code, command, verdict, remark."""
    return ROW.findall((root / "docs" / "mechanisms.md").read_text())


def test_there_are_170_with_a_verdict(rows: list[tuple[str, ...]], root: Path) -> None:
    """Numbered without gaps, counted in the table above; what is missing has a remark."""
    assert [int(row[0]) for row in rows] == list(range(1, 171))
    found = Counter(row[5] for row in rows)
    text = (root / "docs" / "mechanisms.md").read_text()
    for verdict in VERDICTS:
        assert f"| {verdict} | {found[verdict]} |" in text
    assert set(found) == set(VERDICTS)
    assert all(row[6] for row in rows if row[5] in ("partly", "no"))


@cache
def symbols_of(path: Path) -> set[str]:
    """Return what a module defines, methods with their class; of a JSON file its keys and ids."""
    if path.suffix == ".json":
        text = path.read_text()
        return set(re.findall(r'"(\w+)":', text)) | set(re.findall(r'"id": "(\w+)"', text))
    found = set[str]()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            inner = [one for one in node.body if isinstance(one, ast.FunctionDef)]
            found |= {f"{node.name}.{one.name}" for one in inner}
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {one.id for one in targets if isinstance(one, ast.Name)}
    return found


def test_files_and_symbols_exist(rows: list[tuple[str, ...]], root: Path) -> None:
    """Of all rows that are built, in part or whole."""
    for number, _, _, code, _, verdict, _ in rows:
        assert (code == "-") == (verdict in ("no", "not meaningful")), number
        if code != "-":
            file, _, symbol = code.strip("`").partition(":")
            assert symbol in symbols_of(root / file), (number, code)


def test_commands_exist(rows: list[tuple[str, ...]], root: Path) -> None:
    """Ids of figures, systems with their assumptions, methods of problems, subcommands."""
    reference = (root / "docs" / "commands.md").read_text()
    commands = set(re.findall(r"^#### `moeopt (.*)`$", reference, re.MULTILINE))
    for number, _, _, file, cell, _, _ in rows:
        assert (cell == "-") == (file == "-"), number
        first, _, rest = cell.strip("`").partition(" ")
        problem = first.removesuffix(":")
        if first == "papers":
            assert rest == "--report DIR" or set(rest.split()) <= set(FIGURES), number
        elif first == "compare":
            assert get_system(rest).title == rest, number
        elif problem in PROBLEMS:
            known = problem_methods(get_problem(problem))
            assert rest in known, number
        elif first == "moeopt":
            named = " ".join(word for word in rest.split()[:2])
            assert named in commands or rest.split()[0] in commands or rest == "--help", number
        else:
            assert cell == "-", number
