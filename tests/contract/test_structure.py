"""Rules of the house that a machine can check; `/` is the repository's root."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import moeopt
from benchmarks.studies.ablation import ROWS
from tests.contract.statements import statements
from tests.rooms.core import InFloats
from tests.rooms.problems import PROBLEMS, get_problem

MOST_PARAMETERS = 8

PRIVATE = re.compile(r"numba\.core|caching\._|dispatcher\.compile")
"""What other packages keep to themselves."""

BY_NAME = re.compile(r'find_spec\(|\.part\("(?!(?:gpu|cpu|ndp)")|getattr\(import_module\(f')
"""Parts of a problem found by a module's name; what computes on a device is no such part."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@pytest.fixture(scope="module")
def sources() -> dict[Path, str]:
    """Return the text of every file of the package."""
    package = Path(moeopt.__file__).parent
    return {path.relative_to(package): path.read_text() for path in package.rglob("*.py")}


def test_nothing_is_found_by_a_modules_name(sources: dict[Path, str]) -> None:
    """A problem is one typed object of callables."""
    readers = Path("sim", "traces", "files.py")  # of files, not of problems
    found = [str(p) for p, text in sources.items() if BY_NAME.search(text) and p != readers]
    assert found == []
    assert BY_NAME.search('known.part("check")')
    problems = [text for path, text in sources.items() if path.parts[0] == "problems"]
    assert len(problems) > 100
    assert not any("import_module(" in text for text in problems)


def parameters(function: Function) -> int:
    """Return how many parameters a function has, without `self` and `cls`."""
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def too_wide(path: Path, text: str) -> Iterator[str]:
    """Yield the functions with too many parameters.

    Not kernels, which take no objects, and what hands them columns of arrays; nor what a user calls
    with names: commands, whose options the parameters are, `from_arrays`, and the functions of
    `moeopt` itself.
    """
    for node in statements(ast.parse(text)):
        if not isinstance(node, Function) or parameters(node) <= MOST_PARAMETERS:
            continue
        kernel = any(ast.unparse(d) in ("compiled", "inner", "part") for d in node.decorator_list)
        kernel |= ast.unparse(node.args).count(": Ints") >= 5
        command = path.parts[0] == "cli" and node.name.endswith("_command")
        if not (kernel or command or node.name == "from_arrays" or node.name in moeopt.__all__):
            yield f"{path}: {node.name}"


def test_functions_have_few_parameters(sources: dict[Path, str]) -> None:
    """Beyond eight there is a class of options."""
    assert [one for path, text in sources.items() for one in too_wide(path, text)] == []
    wide = "def f(a, b, c, d, e, *, f, g, h, i): ..."
    assert list(too_wide(Path("core/x.py"), wide)) == ["core/x.py: f"]
    assert not list(too_wide(Path("core/x.py"), f"@compiled\n{wide}"))


def test_no_private_interface_of_a_dependency(sources: dict[Path, str]) -> None:
    """They change without notice."""
    assert [str(path) for path, text in sources.items() if PRIVATE.search(text)] == []


def calls(text: str, name: str) -> int:
    """Return how often a function is called by its plain or last name."""
    if f"{name}(" not in text:  # as formatted code has it; parsing is dear
        return 0
    found = (one.func for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Call))
    names = (getattr(one, "id", None) or getattr(one, "attr", None) for one in found)
    return sum(one == name for one in names)


def test_the_library_never_prints(sources: dict[Path, str]) -> None:
    """The command line does, and the checker of certificates where it is a program of its own."""
    programs = {Path("certificates", "certificate.py")}
    library = {p: text for p, text in sources.items() if p.parts[0] != "cli" and p not in programs}
    assert [str(path) for path, text in library.items() if calls(text, "print")] == []
    assert calls("print(1)", "print") == 1


def test_loggers_are_made_in_one_place(sources: dict[Path, str]) -> None:
    """With the null handler; the command line adds one that writes, a cluster silences Dask's."""
    made = {path.as_posix() for path, text in sources.items() if calls(text, "getLogger")}
    assert made == {"core/logs.py", "cli/main.py", "study/cluster.py"}


def test_a_model_is_written_in_integers() -> None:
    """As rows of CP-SAT's; `moeopt.core.linear` alone turns them into a MILP."""
    for name in PROBLEMS:
        model = get_problem(name).Model("milp")
        assert isinstance(model, type), name
        assert issubclass(model, InFloats), name


def test_rows_of_the_ablation_name_what_there_is() -> None:
    """A sub-method that moves takes its row along."""
    places = [place for row in ROWS for place in row.without.items()]
    assert len(places) > 20

    def is_there(owner: Any, name: str, value: object) -> bool:
        of_instances = isinstance(value, property) and name in owner.__init__.__code__.co_names
        return hasattr(owner, name) or of_instances

    assert [name for (owner, name), value in places if not is_there(owner, name, value)] == []
