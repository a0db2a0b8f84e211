"""Form of a module: one docstring, one block of imports, and class names that nobody else has."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

TWO_SUMMARIES = {
    "certificates/emit.py",
    "certificates/forms.py",
    "cli/gantt.py",
    "cli/main.py",
    "cli/trace.py",
    "core/device_loads.py",
    "core/json_files.py",
    "planner/decode/decide.py",
    "planner/decode/run.py",
    "problems/balance/cpsat.py",
    "problems/balance/heuristics.py",
    "problems/bitwidth/bounds.py",
    "problems/bitwidth/multiple_choice_knapsack.py",
    "problems/cache/bounds.py",
    "problems/cache/instance.py",
    "problems/deferral/bounds.py",
    "problems/deferral/check.py",
    "problems/deferral/heuristics.py",
    "problems/holdout.py",
    "problems/joint/lagrangian/kernels.py",
    "problems/layout/check.py",
    "problems/layout/instance.py",
    "problems/layout/single_scenario/packing.py",
    "problems/layout/systems.py",
    "problems/placement/check.py",
    "problems/placement/lagrangian/layer_trees.py",
    "problems/placement/lagrangian/relaxation.py",
    "problems/relayout/migrations.py",
    "problems/relayout/striped_reads/__init__.py",
    "problems/relayout/striped_reads/subproblem.py",
    "problems/replication/check.py",
    "problems/replication/eplb.py",
    "problems/replication/generate.py",
    "problems/replication/later.py",
    "problems/split/generate.py",
    "problems/tri_domain/threshold/feasibility.py",
    "sim/engine/core.py",
    "sim/machines/profile.py",
    "sim/machines/system.py",
    "sim/models/expert_weights.py",
    "sim/models/loss_table.py",
    "sim/presets/__init__.py",
    "sim/traces/files.py",
    "sim/traces/readers/checked.py",
    "sim/traces/readers/json_traces.py",
    "sim/traces/readers/runtimes.py",
    "sim/traces/readers/text.py",
    "sim/traces/readers/topk_npz.py",
    "sim/traces/trace.py",
    "solvers/process.py",
    "solvers/verification.py",
    "study/attempt.py",
    "study/holdout.py",
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
    "Entry",
    "Expert",
    "HostMemory",
    "Job",
    "Known",
    "Labels",
    "Layer",
    "Limits",
    "Links",
    "Loads",
    "Matrix",
    "Migration",
    "Migrations",
    "Multipliers",
    "Outcome",
    "Packing",
    "Place",
    "Point",
    "Program",
    "Relaxation",
    "Relaxed",
    "Residual",
    "Row",
    "Rows",
    "Rules",
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
    "Summary",
    "Task",
    "Trace",
    "Usage",
    "Verdict",
    "_Incumbents",
    "_Rows",
    "_Run",
}
"""Names that several classes have. The list only shrinks: one type, one name."""


def second_summaries(source: str) -> list[str]:
    """Return the later lines of a module's docstring that stand alone as a sentence.

    The first line of a docstring does so. A second one is where another module was glued on.
    """
    paragraphs = (ast.get_docstring(ast.parse(source)) or "").split("\n\n")
    return [
        text
        for text in paragraphs[1:]
        if "\n" not in text and text.endswith(".") and not text.startswith(" ")
    ]


def glued(source: str) -> Iterator[str]:
    """Yield where a module seems to begin anew.

    A string that describes no constant, or imports after a definition or after the imports for
    types.
    """
    before: ast.stmt | None = None
    begun = False
    for node in ast.parse(source).body:
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        described = isinstance(before, ast.Assign | ast.AnnAssign | ast.AugAssign)
        if text and before is not None and not described:
            yield f"{node.lineno}: a string after no constant"
        if begun and isinstance(node, ast.Import | ast.ImportFrom):
            yield f"{node.lineno}: a second block of imports"
        typing = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        begun |= typing or isinstance(node, ast.FunctionDef | ast.ClassDef)
        before = node


def class_names(source: str) -> Iterator[str]:
    """Yield the names of a module's classes."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            yield node.name


def shared_names(sources: dict[str, str]) -> set[str]:
    """Return the names that several classes have."""
    names = Counter(name for text in sources.values() for name in class_names(text))
    return {name for name, times in names.items() if times > 1}


@pytest.fixture(scope="module")
def sources() -> dict[str, str]:
    """Return the text of every module of the package."""
    package = Path(__file__).parents[2] / "moeopt"
    return {
        path.relative_to(package).as_posix(): path.read_text() for path in package.rglob("*.py")
    }


def test_a_module_begins_once(sources: dict[str, str], root: Path) -> None:
    """Its docstring, its imports, its definitions."""
    folders = ("tests", "benchmarks", "instances")
    others = {str(path): path.read_text() for f in folders for path in (root / f).rglob("*.py")}
    every = sources | others
    assert {path: places for path, text in every.items() if (places := [*glued(text)])} == {}


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
    assert list(glued(source))


def test_a_docstring_has_one_summary(sources: dict[str, str]) -> None:
    """One module, one concept."""
    found = {path for path, text in sources.items() if second_summaries(text)}
    assert found - TWO_SUMMARIES == set(), "one summary line, and paragraphs of several lines"
    assert TWO_SUMMARIES - found == set(), "mended: take it off the list"
    assert second_summaries('"""Of it.\n\nOf something else.\n\nThat\ngoes on.\n"""')


def test_a_class_has_its_name_alone(sources: dict[str, str]) -> None:
    """Whoever reads the name knows which class it is."""
    found = shared_names(sources) - OF_EACH_PROBLEM
    assert found - SHARED_NAMES == set(), "another class has that name"
    assert SHARED_NAMES - found == set(), "mended: take it off the list"
    assert shared_names({"a": "class A: ...", "b": "def f():\n    class A: ..."}) == {"A"}
