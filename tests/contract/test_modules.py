"""Form of a module: one docstring, one block of imports, and class names that nobody else has."""

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.contract.statements import statements

TWO_SUMMARIES = {
    "certificates/emit.py",
    "certificates/forms.py",
    "cli/gantt.py",
    "cli/main.py",
    "core/json_files.py",
    "systems/planned.py",
    "systems/plan_run.py",
    "problems/balance/cpsat.py",
    "problems/balance/heuristics.py",
    "problems/cache/bounds.py",
    "problems/cache/instance.py",
    "problems/deferral/bounds.py",
    "problems/deferral/check.py",
    "problems/deferral/heuristics.py",
    "problems/joint/lagrangian/kernels.py",
    "problems/layout/check.py",
    "problems/layout/instance.py",
    "problems/layout/single_scenario/packing.py",
    "problems/layout/systems.py",
    "problems/placement/check.py",
    "problems/placement/lagrangian/relaxation.py",
    "problems/relayout/migrations.py",
    "problems/relayout/striped_reads/__init__.py",
    "problems/relayout/striped_reads/subproblem.py",
    "problems/replication/check.py",
    "problems/replication/eplb.py",
    "problems/replication/generate.py",
    "problems/split/generate.py",
    "problems/tri_domain/threshold/feasibility.py",
    "sim/engine/core.py",
    "sim/machines/profile.py",
    "sim/machines/system.py",
    "sim/presets/__init__.py",
    "sim/traces/files.py",
    "sim/traces/readers/checked.py",
    "sim/traces/trace.py",
    "solvers/verification.py",
}
"""Modules whose docstring has a second first line: most are two modules in one file.

The list only shrinks: a module that is cut, or whose docstring is joined, leaves it.
"""

OF_EACH_PROBLEM = {"Instance", "Model", "Options", "Solution"}
"""Names that every problem's package has, by the contract of a problem."""

SHARED_NAMES = {
    "Answer",
    "Arrays",
    "Assignment",
    "Box",
    "Bracket",
    "Claim",
    "Columns",
    "Counted",
    "Curve",
    "Device",
    "Expert",
    "HostMemory",
    "Job",
    "Known",
    "Labels",
    "Layer",
    "Limits",
    "Loads",
    "Migration",
    "Migrations",
    "Multipliers",
    "Outcome",
    "Packing",
    "Place",
    "Point",
    "Relaxation",
    "Relaxed",
    "Residual",
    "Row",
    "Rows",
    "Run",
    "Running",
    "Runs",
    "Scheduler",
    "Search",
    "Served",
    "Settings",
    "Sides",
    "Steps",
    "Stopped",
    "Stretch",
    "Task",
    "Trace",
    "Usage",
    "Verdict",
    "_Rows",
    "_Run",
}
"""Names that several classes have. The list only shrinks: one type, one name."""


def second_summaries(module: ast.Module) -> list[str]:
    """Return the later lines of a module's docstring that stand alone as a sentence.

    The first line of a docstring does so. A second one is where another module was glued on.
    """
    paragraphs = (ast.get_docstring(module) or "").split("\n\n")
    return [
        text
        for text in paragraphs[1:]
        if "\n" not in text and text.endswith(".") and not text.startswith(" ")
    ]


def glued(module: ast.Module) -> Iterator[str]:
    """Yield where a module seems to begin anew.

    A string that describes no constant, or imports after a definition or after the imports for
    types.
    """
    before: ast.stmt | None = None
    begun = False
    for node in module.body:
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        described = isinstance(before, ast.Assign | ast.AnnAssign | ast.AugAssign)
        if text and before is not None and not described:
            yield f"{node.lineno}: a string after no constant"
        if begun and isinstance(node, ast.Import | ast.ImportFrom):
            yield f"{node.lineno}: a second block of imports"
        typing = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        begun |= typing or isinstance(node, ast.FunctionDef | ast.ClassDef)
        before = node


def class_names(module: ast.Module) -> Iterator[str]:
    """Yield the names of a module's classes."""
    for node in statements(module):
        if isinstance(node, ast.ClassDef):
            yield node.name


def shared_names(modules: Iterable[ast.Module]) -> set[str]:
    """Return the names that several classes have."""
    names = Counter(name for module in modules for name in class_names(module))
    return {name for name, times in names.items() if times > 1}


def parsed(folder: Path) -> dict[str, ast.Module]:
    """Return the modules in a folder by their paths within it."""
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.py")}
    return {name: ast.parse(path.read_text()) for name, path in paths.items()}


@pytest.fixture(scope="module")
def package() -> dict[str, ast.Module]:
    """Return the modules of the package."""
    return parsed(Path(__file__).parents[2] / "moeopt")


def test_a_module_begins_once(package: dict[str, ast.Module]) -> None:
    """Its docstring, its imports, its definitions."""
    assert {name: places for name, module in package.items() if (places := [*glued(module)])} == {}


@pytest.mark.slow  # ruff sees the imports, E402
@pytest.mark.parametrize("folder", ["tests", "benchmarks", "instances"])
def test_so_does_a_test_or_a_benchmark(folder: str, root: Path) -> None:
    """By the same rule."""
    modules = parsed(root / folder)
    assert {name: places for name, module in modules.items() if (places := [*glued(module)])} == {}


@pytest.mark.parametrize(
    "source",
    [
        '"""Of it."""\nimport a\n\n\ndef f(): ...\n\n\nimport b',
        '"""Of it."""\nif TYPE_CHECKING:\n    import a\nimport b',
        '"""Of it."""\nimport a\n"""Of something else."""',
        '"""Of it."""\n"""Of something else."""',
    ],
)
def test_a_second_beginning_would_be_seen(source: str) -> None:
    """By its imports or its docstring."""
    assert list(glued(ast.parse(source)))


def test_a_docstring_has_one_summary(package: dict[str, ast.Module]) -> None:
    """One module, one concept."""
    found = {name for name, module in package.items() if second_summaries(module)}
    assert found - TWO_SUMMARIES == set(), "one summary line, and paragraphs of several lines"
    assert TWO_SUMMARIES - found == set(), "mended: take it off the list"
    glued_on = '"""Of it.\n\nOf something else.\n\nThat\ngoes on.\n"""'
    assert second_summaries(ast.parse(glued_on)) == ["Of something else."]


def test_a_class_has_its_name_alone(package: dict[str, ast.Module]) -> None:
    """Whoever reads the name knows which class it is."""
    found = shared_names(package.values()) - OF_EACH_PROBLEM
    assert found - SHARED_NAMES == set(), "another class has that name"
    assert SHARED_NAMES - found == set(), "mended: take it off the list"
    assert shared_names([ast.parse("class A: ..."), ast.parse("def f():\n    class A: ...")])
