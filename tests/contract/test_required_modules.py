"""Every registered problem is complete, the template is, and a missing piece is noticed."""

import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from moeopt.problems.registry import PROBLEMS, get_problem
from tests.contract.required_modules import REQUIRED_MODULES, Home, missing


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_problem_is_complete(name: str, root: Path) -> None:
    """No registered problem lacks anything."""
    problem = get_problem(name)
    home = Home(
        problem,
        import_module(f"moeopt.problems.{name}"),
        problem.formulation_dir,
        instances=root / "instances" / name,
        tests=root / "tests" / "problems" / name,
    )
    assert missing(home) == []


@pytest.mark.usefixtures("template_problem")
def test_the_template_is_complete(copied: Home) -> None:
    """What people copy to start a problem passes the contract itself."""
    assert missing(copied) == []


PIECES: dict[str, Callable[[Home], None]] = {}


def _removal(expected: str) -> Callable[[Callable[[Home], None]], Callable[[Home], None]]:
    def register(function: Callable[[Home], None]) -> Callable[[Home], None]:
        PIECES[expected] = function
        return function

    return register


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def _package(home: Home) -> Path:
    return Path(home.package.__file__ or "").parent


for _module in REQUIRED_MODULES:
    PIECES[f"{_module}.py is missing"] = lambda home, m=_module: (
        _package(home) / f"{m}.py"
    ).unlink()


@_removal("spec.md is missing")
def _remove_spec(home: Home) -> None:
    (home.formulation / "spec.md").unlink()


@_removal("TEMPLATE.mod is missing")
def _remove_mod(home: Home) -> None:
    (home.formulation / "TEMPLATE.mod").unlink()


@_removal("dp: no proof in the module's docstring")
def _remove_proof(home: Home) -> None:
    _edit(_package(home) / "dynamic_program.py", "Proof.", "Idea.")


@_removal("PROBLEM: dp goes on with dream, which is no model's method")
def _go_on_with_nothing(home: Home) -> None:
    _edit(_package(home) / "__init__.py", "(_dynamic_program)", '(_dynamic_program, then="dream")')


@_removal("PROBLEM: holdout lacks, and absent is silent")
def _leave_the_holdout_unexplained(home: Home) -> None:
    _edit(_package(home) / "__init__.py", '"holdout": "the data', '"unheld": "the data')


@_removal("PROBLEM: robust lacks, and absent is silent")
def _leave_robust_unexplained(home: Home) -> None:
    _edit(_package(home) / "__init__.py", '"robust": "there', '"unsure": "there')


@_removal("PROBLEM: robust is there, but absent says why not")
def _claim_to_be_robust(home: Home) -> None:
    _edit(_package(home) / "__init__.py", "    absent={", "    robust=print,\n    absent={")


@_removal("PROBLEM: lanes is there, but absent says why not")
def _draw_lanes(home: Home) -> None:
    _edit(_package(home) / "__init__.py", "check, view)", "check, view, lanes=print)")


@_removal("PROBLEM: executor is there, but absent says why not")
def _add_an_executor(home: Home) -> None:
    _edit(_package(home) / "__init__.py", "    absent={", "    executor=print,\n    absent={")


@_removal("PROBLEM: published_rule 'dream' is no heuristic")
def _publish_a_dream(home: Home) -> None:
    _edit(_package(home) / "__init__.py", '_rule="densest-first"', '_rule="dream"')


@_removal("PROBLEM: knows must say what each heuristic decides by, and of none else")
def _leave_unsaid_what_a_rule_knows(home: Home) -> None:
    _edit(_package(home) / "__init__.py", '"densest-first": "sizes', '"dream": "sizes')


@_removal("PROBLEM: unpriced ['TM-C9'] are no constraints")
def _leave_unpriced_what_is_not_there(home: Home) -> None:
    _edit(
        _package(home) / "__init__.py", "    absent={", '    unpriced={"TM-C9": "x"},\n    absent={'
    )


@_removal("PROBLEM: restrictions ['least'] are no fields of the instance")
def _restrict_what_is_not_there(home: Home) -> None:
    _edit(_package(home) / "__init__.py", '{"min_kept": 0}', '{"least": 0}')


@_removal("PROBLEM: holdout: ['first'] are no options of the generator")
def _hold_out_by_an_unknown_option(home: Home) -> None:
    stretch = "holdout=__import__('moeopt.core.problem').core.problem.Stretch('layer', 'first')"
    _edit(_package(home) / "__init__.py", "holdout=None", stretch)


@_removal("PROBLEM: sample_rule 'densest-first' must be a heuristic if there is a hold-out")
def _sample_what_is_not_held_out(home: Home) -> None:
    _edit(
        _package(home) / "__init__.py", "holdout=None", 'holdout=None, sample_rule="densest-first"'
    )


@_removal("has no attribute 'generate'")
def _remove_generate(home: Home) -> None:
    _edit(_package(home) / "generate.py", "def generate(", "def other(")


@_removal("view.py: differences is missing")
def _remove_differences(home: Home) -> None:
    _edit(_package(home) / "view.py", "def differences(", "def other(")


@_removal("view.py: changes is missing")
def _remove_changes(home: Home) -> None:
    _edit(_package(home) / "view.py", "def changes(", "def other(")


@_removal("Instance: the docstring has no example of from_arrays")
def _remove_the_example(home: Home) -> None:
    _edit(_package(home) / "instance.py", "Instance.from_arrays(", "Instance.of_arrays(")


@_removal("Instance.size is missing")
def _remove_size(home: Home) -> None:
    _edit(_package(home) / "instance.py", "def size(", "def extent(")


@_removal("__init__.py: Instance is no public name")
def _remove_the_public_names(home: Home) -> None:
    _edit(_package(home) / "__init__.py", "__getattr__, __dir__ =", "_getattr, _dir =")


@_removal("tests: the problem has none of its own")
def _remove_tests(home: Home) -> None:
    shutil.rmtree(home.tests)


@_removal("HEURISTICS is empty")
def _remove_heuristics(home: Home) -> None:
    _edit(_package(home) / "heuristics.py", '{"densest-first": densest_first}', "{}")


@_removal("no proof in any docstring")
def _remove_proof(home: Home) -> None:
    _edit(_package(home) / "bounds.py", "Proof", "Idea")
    _edit(_package(home) / "bounds.py", "proof", "idea")


@_removal("spec.md: constraints ['TM-C2']")
def _remove_constraint_from_spec(home: Home) -> None:
    _edit(home.formulation / "spec.md", "- **TM-C2**", "- TM-C3")


@_removal("TEMPLATE.mod: constraints ['TM-C2']")
def _remove_constraint_from_mod(home: Home) -> None:
    _edit(home.formulation / "TEMPLATE.mod", "s.t. TM_C2", "s.t. other")


@_removal("check.py's violations: constraints ['TM-C1']")
def _remove_constraint_from_checker(home: Home) -> None:
    _edit(_package(home) / "check.py", '(("TM-C1", f"', '(("TM-C2", f"')


@_removal("cpsat.py: constraints ['TM-C2']")
def _remove_constraint_from_cpsat(home: Home) -> None:
    _edit(_package(home) / "cpsat.py", "def tm_c2_", "def enough_")


@_removal("2 files, at least 3 are due")
def _remove_instances(home: Home) -> None:
    for file in sorted(home.instances.glob("shares/*.json")):
        file.unlink()


@_removal("families.toml: does not say how ['many'] were made")
def _remove_a_family(home: Home) -> None:
    _edit(home.instances / "families.toml", 'name = "many"', 'name = "few"')


@_removal("not in all of the folder, index.json and best_known.json")
def _remove_best_known(home: Home) -> None:
    (home.instances / "best_known.json").write_text("{}")


@_removal("the checker does not confirm best_known.json")
def _lower_best_known(home: Home) -> None:
    _edit(
        home.instances / "best_known.json",
        '"objective": 42920000, "bound": 42920000',
        '"objective": 42919999, "bound": 42919999',
    )


@_removal("must be frozen and forbid unknown keys")
def _allow_unknown_keys(home: Home) -> None:
    _edit(
        _package(home) / "instance.py",
        "    capacity_bytes: Count\n",
        '    model_config = {"extra": "ignore", "frozen": True}\n    capacity_bytes: Count\n',
    )


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


@pytest.mark.parametrize("expected", PIECES)
def test_a_missing_piece_is_noticed(
    expected: str, copied: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Remove one piece from a complete problem: the contract names it."""
    PIECES[expected](copied)
    found = missing(read_anew(copied, monkeypatch))
    assert any(expected in sentence for sentence in found), found
