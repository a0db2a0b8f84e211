"""Every registered problem is complete, the template is, and a missing piece is noticed."""

import shutil
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from tests.contract.required_modules import REQUIRED_MODULES, Home, missing
from tests.rooms.problems import PROBLEMS, get_problem


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_problem_is_complete(name: str, root: Path) -> None:
    """No registered problem lacks anything."""
    problem = get_problem(name)
    home = Home(
        problem,
        import_module(f"moeopt.problems.{name}"),
        root / "formulations" / name,
        instances=root / "instances" / name,
        tests=root / "tests" / "problems" / name,
    )
    assert missing(home) == []


@pytest.mark.usefixtures("template_problem")
def test_the_template_is_complete(copied: Home) -> None:
    """What people copy to start a problem passes the contract itself."""
    assert missing(copied) == []


Edit = tuple[str, str, str]

INIT = "__init__.py"
EDITS: dict[str, Edit] = {
    "dp: no proof in the module's docstring": ("dynamic_program.py", "Proof.", "Idea."),
    "PROBLEM: dp goes on with dream, which is no model's method": (
        INIT, '".dynamic_program")', '".dynamic_program", then="dream")',
    ),
    "PROBLEM: holdout lacks, and absent is silent": (
        INIT, '"holdout": "the data', '"unheld": "the data',
    ),
    "PROBLEM: robust lacks, and absent is silent": (INIT, '"robust": "there', '"unsure": "there'),
    "PROBLEM: lanes is there, but absent says why not": (
        "view.py", "def facts(", "lanes = print\n\n\ndef facts(",
    ),
    "PROBLEM: published 'dream' is no heuristic": (
        INIT, 'published = "densest-first"', 'published = "dream"',
    ),
    "PROBLEM: densest-first: information must be one of none": (
        INIT, '"none", "sizes', '"dreams", "sizes',
    ),
    "PROBLEM: densest-first coincides with dream, which is no heuristic": (
        INIT, 'miss costs"),', 'miss costs", coincides_with="dream"),',
    ),
    "PROBLEM: densest-first needs dream, which is no field of the instance": (
        INIT, 'miss costs"),', 'miss costs", needs="dream"),',
    ),
    "PROBLEM: heuristics is empty": (INIT, "heuristics = (", "heuristics = () and ("),
    "heuristics' has no attribute 'dream'": (INIT, ":densest_first", ":dream"),
    "PROBLEM: unpriced ['TM-C9'] are no constraints": (
        INIT, "    absent:", '    unpriced: ClassVar = {"TM-C9": "x"}\n    absent:',
    ),
    "PROBLEM: restrictions ['least'] are no fields of the instance": (
        INIT, '{"min_kept": 0}', '{"least": 0}',
    ),
    "PROBLEM: sample_rule 'densest-first' must be a heuristic if there is a hold-out": (
        INIT, "    absent:", '    sample_rule = "densest-first"\n    absent:',
    ),
    "__init__.py: Instance is no public name": (
        INIT, "__getattr__, __dir__ =", "_getattr, _dir =",
    ),
    "generate.py: generate is missing": ("generate.py", "def generate(", "def other("),
    "view.py: differences is missing": ("view.py", "def differences(", "def other("),
    "view.py: changes is missing": ("view.py", "def changes(", "def other("),
    "Instance: the docstring has no example of from_arrays": (
        "instance.py", "Instance.from_arrays(", "Instance.of_arrays(",
    ),
    "instance.py: from_arrays does not declare min_kept": (
        "instance.py", "        min_kept: int = 0,\n", "",
    ),
    "instance.py: from_arrays: min_kept is not a typed argument by name": (
        "instance.py", "min_kept: int = 0,", "min_kept=0,",
    ),
    "Instance.size is missing": ("instance.py", "def size(", "def extent("),
    "must be frozen and forbid unknown keys": (
        "instance.py", "    capacity_bytes: Count\n",
        '    model_config = {"extra": "ignore", "frozen": True}\n    capacity_bytes: Count\n',
    ),
    "no proof in any docstring": ("bounds.py", "roof", "lan"),
    "spec.md: constraints ['TM-C2']": ("spec.md", "- **TM-C2**", "- TM-C3"),
    "TEMPLATE.mod: constraints ['TM-C2']": ("TEMPLATE.mod", "s.t. TM_C2", "s.t. other"),
    "check.py's violations: constraints ['TM-C1']": (
        "check.py", '(("TM-C1", f"', '(("TM-C2", f"',
    ),
    "cpsat.py: constraints ['TM-C2']": ("cpsat.py", "def tm_c2_", "def enough_"),
    "families.toml: does not say how ['many'] were made": (
        "instances/families.toml", 'name = "many"', 'name = "few"',
    ),
    "not in all of the folder, index.json and best_known.json": (
        "instances/best_known.json", '"many/', '"few/',
    ),
    "the checker does not confirm best_known.json": (
        "instances/best_known.json",
        '"objective": 42920000, "bound": 42920000', '"objective": 42919999, "bound": 42919999',
    ),
}  # fmt: skip
"""What is said -> a file of the package or of the formulation, and what of it is changed."""

REMOVED = {
    **{f"{module}.py is missing": f"{module}.py" for module in REQUIRED_MODULES},
    "spec.md is missing": "spec.md",
    "TEMPLATE.mod is missing": "TEMPLATE.mod",
    "tests: the problem has none of its own": "tests",
    "2 files, at least 3 are due": "instances/shares",
}
"""What is said -> a file or folder that is taken away."""

ADDED = {
    "PROBLEM: execute is there, but absent says why not": "execute.py",
    "later.py is there, but absent says why not": "later.py",
}
"""What is said -> a module that is added."""


@pytest.fixture
def copied(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch, template_problem: str
) -> Home:
    """Copy the template under a package name of its own, so that pieces can be removed."""
    package = f"template_copy_{tmp_path.name}"
    shutil.copytree(root / "formulations" / "TEMPLATE", tmp_path / "TEMPLATE")
    folder = tmp_path / "TEMPLATE"
    shutil.move(folder / "problem", folder / package)
    monkeypatch.syspath_prepend(str(tmp_path / "TEMPLATE"))
    copy = import_module(package)
    monkeypatch.setitem(PROBLEMS, template_problem, copy.PROBLEM)
    yield Home(copy.PROBLEM, copy, folder, instances=folder / "instances", tests=folder / "tests")
    for name in [name for name in sys.modules if name.startswith(package)]:
        del sys.modules[name]


def read_anew(home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Import the package of a copy again: its files have changed."""
    name = home.package.__name__
    for module in [m for m in sys.modules if m.startswith(name)]:
        del sys.modules[module]
    package = import_module(name)
    monkeypatch.setitem(PROBLEMS, home.problem.name, package.PROBLEM)
    return replace(home, problem=package.PROBLEM, package=package)


@pytest.mark.parametrize("expected", [*EDITS, *REMOVED, *ADDED])
def test_a_missing_piece_is_noticed(
    expected: str, copied: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Remove one piece from a complete problem: the contract names it."""
    file, old, new = EDITS.get(expected, ((REMOVED | ADDED).get(expected, ""), "", ""))
    package = Path(copied.package.__file__ or "").parent
    path = (package if file.endswith(".py") else copied.formulation) / file
    if expected in EDITS:
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))
    elif expected in ADDED:
        path.write_text('"""Nothing."""\n')
    else:
        path.unlink() if path.is_file() else shutil.rmtree(path)
    found = missing(read_anew(copied, monkeypatch))
    assert any(expected in sentence for sentence in found), found
