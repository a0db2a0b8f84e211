"""Errors: their parts, exit codes and causes, and what stands in the way of losing them."""

import copy
import json
import pickle
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import moeopt
from tests.raising_cli import call
from tests.rooms.cli import build_app, usage_error
from tests.rooms.core import about
from tests.rooms.sim import get_model
from tests.rooms.study import Store
from tests.test_documents import PYTHON

FILE = "instances/tri_domain/esft-window/window-law-layer4-batch256.json"
SOLUTION = "instances/tri_domain/solutions/esft-window/window-law-layer4-batch256.json"

Parts = tuple[str | None, str | None, str | None]


def parts(function: Callable[..., Any], *arguments: Any, **named: Any) -> Parts:
    """Return where, field and suggestion of an error of input, whose message is made of them."""
    with pytest.raises(moeopt.InputError) as caught:
        function(*arguments, **named)
    error = caught.value
    known = [part for part in (error.where, error.field, error.reason) if part]
    assert str(error) == ": ".join(known)
    return error.where, error.field, error.suggestion


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (moeopt.InputError, 2),
        (moeopt.HeuristicError, 2),
        (moeopt.StoreError, 2),
        (moeopt.InfeasibleError, 3),
        (moeopt.LimitError, 4),
        (moeopt.ContradictionError, 5),
    ],
)
def test_exit_codes_are_those_of_the_documents(
    error: type[moeopt.MoeoptError], code: int, root: Path
) -> None:
    """In the table of docs/python.md each class stands with its own."""
    assert issubclass(error, moeopt.MoeoptError)
    assert error.exit_code == code
    page = (root / "docs" / "python.md").read_text()
    [row] = [line for line in page.splitlines() if line.startswith(f"| `{error.__name__}` |")]
    assert row.endswith(f"| {code} |")
    told = (root / "docs" / "commands.md").read_text().partition("**Exit codes**: ")[2]
    assert f"{code} " in told.partition("130 after")[0]


def test_parts_survive_processes_and_places() -> None:
    """Pickled, copied, and put behind a file's name."""
    error = moeopt.InputError("is no key; did you mean b?", where="a", field="c", suggestion="b")
    for same in (error, pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert str(same) == "a: c: is no key; did you mean b?"
        assert (same.where, same.field, same.suggestion) == ("a", "c", "b")
    with pytest.raises(moeopt.InputError) as caught, about(Path("file")):
        raise error
    assert (caught.value.where, caught.value.field) == ("file: a", "c")
    plain = moeopt.InputError("all that is known")
    assert (str(plain), plain.reason, plain.where) == (*2 * ("all that is known",), None)
    failed = moeopt.HeuristicError("raised ValueError", "mine")
    again = pickle.loads(pickle.dumps(failed))
    assert (str(again), again.reason, again.heuristic) == (str(failed), failed.reason, "mine")


def renamed(file: str, place: list[str | int], old: str, new: str, out: Path) -> Path:
    """Write a JSON file with another key at a place."""
    data = part = json.loads(Path(file).read_text())
    for key in place:
        part = part[key]
    part[new] = part.pop(old)
    out.write_text(json.dumps(data))
    return out


@pytest.mark.parametrize(
    ("load", "file", "place", "old", "new"),
    [
        (moeopt.load, FILE, ["experts", 3], "gpu_ns", "gpu_nss"),
        (moeopt.load, FILE, [], "experts", "expert"),
        (moeopt.load, FILE, [], "provenance", "provenence"),  # which may be left out
        (moeopt.load, FILE, [], "schema_version", "shema_version"),
        (get_model, "moeopt/sim/presets/models/mixtral-8x7b.json", [], "hidden_size", "hiden_size"),
        (moeopt.load_solution, SOLUTION, [], "assignment", "assignments"),
        (
            moeopt.get_machine,
            "moeopt/sim/presets/machines/trimoe.json",
            ["devices", 0, "memory"],
            "gb_s",
            "gbs",
        ),
    ],
)
def test_a_misspelled_key_of_a_file(
    load: Callable[[Path], object],
    file: str,
    place: list[str | int],
    old: str,
    new: str,
    tmp_path: Path,
) -> None:
    """The file, the key that stands there, and the right one; below a machine with its path."""
    path = renamed(file, place, old, new, tmp_path / "file.json")
    where, field, suggestion = parts(load, path)
    assert where == str(path)
    if load is moeopt.get_machine:
        assert (field, suggestion) == ("devices[0].memory.gbs", "devices[0].memory.gb_s")
    else:
        at = "".join(f"[{key}]" if isinstance(key, int) else key for key in place)
        assert (field, suggestion) == (f"{at}.{new}" if at else new, old)


@pytest.mark.parametrize(
    ("function", "arguments", "named", "expected"),
    [
        (moeopt.get_machine, ["trimo"], {}, (None, "machine", "trimoe")),
        (moeopt.get_machine, ["rtx4009+ryzen-am5"], {}, (None, "machine", "rtx4090+ryzen-am5")),
        (moeopt.get_machine, [{"name": 3}], {}, (None, "machine", None)),
        (moeopt.predict, ["trimoe", "mixtral-8x7"], {}, (None, "model", "mixtral-8x7b")),
        (moeopt.load, ["nowhere.json"], {}, ("nowhere.json", None, None)),
        (moeopt.methods, ["tri-domain"], {}, (None, "problem", "tri_domain")),
        (moeopt.gap, [[FILE]], {"methods": ["trimo"]}, (None, "method", "trimoe")),
        (moeopt.gap, [[FILE]], {"seed": -1}, (None, "seeds[0]", None)),
    ],
)
def test_arguments_and_names(
    function: Callable[..., Any], arguments: list[Any], named: dict[str, Any], expected: Parts
) -> None:
    """The argument is the field, and the name that was meant is the suggestion."""
    assert parts(function, *arguments, **named) == expected


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ({"method": "treshold"}, ("method", "threshold")),
        ({"method": "trimoe[tie_ordr=gpu]"}, ("method", "tie_order")),
        ({"method": "milp", "engine": "higs"}, ("engine", "highs")),
        ({"time_limit_s": "long"}, ("time_limit_s", None)),
        ({"seed": -1}, ("seed", None)),
    ],
)
def test_arguments_of_solve(named: dict[str, Any], expected: tuple[str, str | None]) -> None:
    """As of any function."""
    assert parts(moeopt.solve, moeopt.load(FILE), **named)[1:] == expected


def test_keys_of_instances_made_in_code() -> None:
    """Constructors and `from_arrays` name fields as they are given."""
    given = {"gpu_ns": [3], "cpu_ns": [5], "ndp_ns": [-1], "dimm": [-1], "dimms": 1}
    made = moeopt.tri_domain.Instance.from_arrays
    assert parts(made, **given, quantum=3) == (None, "quantum", "quantum_ns")
    assert parts(made, **given | {"gpu_ns": [-3]})[1] == "gpu_ns[0]"
    solution = moeopt.tri_domain.Solution
    assert parts(solution, instance="a", asignment=["gpu"]) == (None, "asignment", "assignment")


@pytest.mark.parametrize(
    ("words", "field", "suggestion"),
    [
        (["slove", "a"], "slove", "solve"),
        (["solve", FILE, "--metod", "greedy"], "--metod", "--method"),
        (["solve", FILE, "--seed", "x"], "--seed", None),
        (["gap", FILE, "--points", "3"], "--points", "moeopt sensitivity --points"),
    ],
)
def test_a_command_line_that_cannot_be_read(
    words: list[str], field: str, suggestion: str | None
) -> None:
    """What is printed is an error with parts, too."""
    app = build_app()
    with pytest.raises(Exception) as caught:  # noqa: PT011 - cyclopts's own
        call(words)
    error = usage_error(app, caught.value, words)  # type: ignore[arg-type]
    assert (error.field, error.suggestion) == (field, suggestion)


@pytest.mark.parametrize(
    ("words", "field", "suggestion"),
    [
        (["export", FILE, "--to", "llamacpp"], "--to", "llama.cpp"),
        (["list", "machine"], "list", "machines"),
        (["solve", FILE, "--out", "nowhere/x/s.json"], "--out", None),
    ],
)
def test_options_of_commands(words: list[str], field: str | None, suggestion: str | None) -> None:
    """Options are the fields of their errors."""
    assert parts(call, words)[1:] == (field, suggestion)


def test_a_store_has_its_own_error(tmp_path: Path) -> None:
    """Opened, or used while somebody breaks it."""
    (tmp_path / "s.db").write_text("no store")
    with pytest.raises(moeopt.StoreError, match="not a store of moeopt"):
        Store(tmp_path / "s.db")
    with pytest.raises(moeopt.StoreError, match="cannot be used"):
        moeopt.gap([FILE], ["greedy"], store=tmp_path)


def test_the_page_says_what_happens(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program of docs/python.md prints what stands there."""
    [(source, expected)] = PYTHON.findall((root / "docs" / "python.md").read_text())
    (tmp_path / "instances").symlink_to(root / "instances")
    (tmp_path / "program.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    runpy.run_path("program.py", run_name="__main__")
    assert capsys.readouterr().out == expected
