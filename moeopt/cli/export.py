"""``moeopt export``: hand a plan to the runtime that carries it out."""

import re
import sys
from collections.abc import Callable
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moeopt.cli.options import Json, OwnTimeLimit, WorkLimit, shown
from moeopt.core.errors import InputError

if TYPE_CHECKING:
    from moeopt.core.envelope import InstanceEnvelope, SolutionEnvelope
    from moeopt.exporters.exported import Exported, OptionValue
    from moeopt.exporters.target import Option
    from moeopt.solvers.arguments import Limits

LIBRARY = Path("instances")
"""The folder of instances, as it lies in a checkout: one folder per problem in it."""

COMMON: dict[str, tuple[Any, Any]] = {
    "source": (
        Annotated[
            Path,
            typer.Argument(
                metavar="SOLUTION|INSTANCE", help="A solution, or an instance.", show_default=False
            ),
        ],
        Parameter.empty,
    ),
    "to": (
        Annotated[str, typer.Option("--to", help="See `moeopt list targets`.", show_default=False)],
        Parameter.empty,
    ),
    "instance": (
        Annotated[
            Path | None,
            typer.Option(help="The solution's instance; default: looked for beside it."),
        ],
        None,
    ),
    "model": (
        Annotated[
            str | None,
            typer.Option(help="Preset, config.json, GGUF or JSON file; default: the instance's."),
        ],
        None,
    ),
    "time_limit": (OwnTimeLimit, None),
    "work_limit": (WorkLimit, None),
    "out": (Annotated[Path | None, typer.Option(help="File or folder; default: stdout.")], None),
    "as_json": (Json, False),
}
"""Option -> annotation and default; no default means required."""


def build_command(complete: bool) -> Callable[..., int]:
    """Return the command; its targets' own options are added on demand only."""
    from_targets: dict[str, Option] = {}
    if complete:
        from moeopt.exporters.targets import all_targets

        for target in all_targets().values():
            from_targets |= {option.name: option for option in target.options}

    def command(**given: Any) -> int:
        from moeopt.solvers import arguments

        options = {name: given.pop(name) for name in from_targets}
        limits = arguments.limits(given.pop("time_limit"), given.pop("work_limit"))
        options = {name: value for name, value in options.items() if value is not None}
        return _export(**given, limits=limits, options=options)

    annotations = COMMON | {name: _annotation(option) for name, option in from_targets.items()}
    command.__signature__ = Signature(  # type: ignore[attr-defined]
        [
            Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
            for name, (annotation, default) in annotations.items()
        ]
    )
    command.__doc__ = """Write a plan in a runtime's format and print the flags that go with it.

    What the format costs, if the plan had to be changed for it, and why the runtime would ignore
    or change it, is said on stderr. With --out, notes are written beside the file, and a script
    that starts the runtime where there is one.
    """
    return command


def _annotation(option: "Option") -> tuple[Any, Any]:
    kind: Any = {int: int, str: str, tuple: Path}[option.kind]
    return Annotated[kind | None, typer.Option(help=option.help)], None


def _export(
    source: Path,
    to: str,
    instance: Path | None,
    model: str | None,
    limits: "Limits",
    out: Path | None,
    as_json: bool,
    options: dict[str, Any],
) -> int:
    import moeopt
    from moeopt.exporters.targets import get_target

    given, problem = _loaded(source, instance)
    target = get_target(to, problem.problem)
    if out is not None:  # before anything is solved for nothing
        target.destination(out, problem.name)
    values: dict[str, OptionValue] = {
        name: _with_instance(value) if isinstance(value, Path) else value
        for name, value in options.items()
    }
    exported = moeopt.export(given, problem, to=to, model=model, options=values, **limits.asked)
    path = None if out is None else exported.save(out)[0]
    _print_notes(exported)
    if as_json:
        _print_json(exported, path)
    elif path is None:
        print(exported.text, end="")
    else:
        print(path if exported.flags is None else exported.flags(path))
    return 0


def _loaded(
    source: Path, instance: Path | None
) -> tuple["SolutionEnvelope | InstanceEnvelope", "InstanceEnvelope"]:
    """Return what the file holds, and the instance, which may be the same."""
    import moeopt
    from moeopt.core.json_files import read_object

    if "instance" not in read_object(source):
        if instance is not None:
            raise InputError(f"--instance: {source} is an instance itself")
        found = moeopt.load(source)
        return found, found
    solution = moeopt.load_solution(source)
    return solution, (
        _find_instance(solution, source) if instance is None else moeopt.load(instance)
    )


def _with_instance(file: Path) -> tuple["SolutionEnvelope", "InstanceEnvelope"]:
    import moeopt

    solution = moeopt.load_solution(file)
    return solution, _find_instance(solution, file)


def _print_notes(exported: "Exported") -> None:
    if (loss := exported.loss) is not None:
        given, found = (shown(loss.problem, value) for value in (loss.given, loss.exported))
        print(f"moeopt: note: {loss}: {given} becomes {found}", file=sys.stderr)
    if exported.same_as is not None:
        print(f"moeopt: note: the same: {exported.same_as}", file=sys.stderr)
    for warning in exported.warnings:
        print(f"moeopt: warning: {warning}", file=sys.stderr)


def _print_json(exported: "Exported", path: Path | None) -> None:
    import json

    files = {"file": None if path is None else str(path)}
    if path is None:
        files["content"] = exported.text
    print(json.dumps(files | exported.all_notes(path)))


def _find_instance(solution: "SolutionEnvelope", file: Path) -> "InstanceEnvelope":
    """Return the instance of a solution: from the solution's folder, or below ``./instances``.

    In the solution's folder any name of file will do. In the library a file is called like its
    instance, and only such files are looked at.

    Raises
    ------
    InputError
        If there is none, or several.
    """
    from moeopt import load

    folder = file.absolute().parent
    found = [path for path in _json_files(folder) if _holds(path, solution)]
    if not found:
        stem = re.sub(r"[^\w.-]+", "-", solution.instance).lstrip(".")
        below = (LIBRARY / solution.problem).glob(f"*/{stem}.json*")
        found = [path for path in sorted(below) if _holds(path, solution)]
    if not found:
        places = f"neither {folder} nor {LIBRARY / solution.problem} holds it"
        raise InputError(f"{file}: instance {solution.instance!r} is not found: {places}; "
                         "give --instance")  # fmt: skip
    if len(found) > 1:
        both = " and ".join(map(str, found[:2]))
        raise InputError(f"{file}: instance {solution.instance!r} stands in {both}: "
                         "give --instance")  # fmt: skip
    return load(found[0])


def _json_files(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.glob("*.json*")
        if path.suffix in (".json", ".gz") and path.is_file()
    )


def _holds(path: Path, solution: "SolutionEnvelope") -> bool:
    """Tell whether a file holds the instance; one that cannot be read does not."""
    from moeopt.core.json_files import read_object

    try:
        data = read_object(path)
    except InputError:
        return False
    return data.get("name") == solution.instance and data.get("problem") == solution.problem
