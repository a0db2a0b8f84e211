"""``moeopt export``: hand a plan to the runtime that carries it out."""

import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from moeopt.cli.options import Json, LimitOptions, command, group, keyword, print_json, shown, warn
from moeopt.core.errors import InputError
from moeopt.core.options import arguments_of, option

if TYPE_CHECKING:
    from moeopt.core.envelope import InstanceEnvelope, SolutionEnvelope
    from moeopt.exporters.exported import Exported, OptionValue

LIBRARY = Path("instances")
"""The folder of instances, as it lies in a checkout: one folder per problem in it."""


@dataclass(frozen=True, kw_only=True)
class ExportOptions(LimitOptions):
    """Options of ``moeopt export`` that every target has."""

    instance: Path | None = option(None, "The solution's instance; default: looked for beside it.")
    model: str | None = option(
        None, "Preset, config.json, GGUF or JSON file; default: the instance's."
    )
    out: Path | None = option(None, "File or folder; default: stdout.")


def _own_options() -> list[inspect.Parameter]:
    """Return the targets' own options."""
    from moeopt.exporters.targets import all_targets

    kinds = {int: int | None, str: str | None, tuple: Path | None}
    own = {one.name: one for target in all_targets().values() for one in target.options}
    return [
        keyword(name, kinds[one.kind], Parameter(one.flag, help=one.help, group=group("Target")))
        for name, one in own.items()
    ]


def _export(
    source: Annotated[
        Path, Parameter(name="SOLUTION|INSTANCE", help="A solution, or an instance.")
    ],
    /,
    *,
    to: Annotated[str, Parameter(help="Target: see `moeopt list targets`.")],
    options: ExportOptions,
    more: Mapping[str, int | str | Path | None] = MappingProxyType({}),
    as_json: Json = False,
) -> int:
    """Write a plan in a runtime's format and print the flags that go with it.

    What the format costs, if the plan had to be changed for it, and why the runtime would ignore
    or change it, is said on stderr. With --out, notes are written beside the file, and a script
    that starts the runtime where there is one.
    """
    import moeopt
    from moeopt.exporters.exported import destination
    from moeopt.exporters.targets import get_target, known_target

    out = options.out
    known_target(to)
    given, problem = _loaded(source, options.instance)
    target = get_target(to, problem.problem)
    if out is not None:  # before anything is solved for nothing
        destination(out, problem.name, target.suffix, target.strict_suffix)
    values: dict[str, OptionValue] = {
        name: _with_instance(value) if isinstance(value, Path) else value
        for name, value in more.items()
        if value is not None
    }
    asked = arguments_of(options, moeopt.export)
    exported = moeopt.export(given, **asked | {"instance": problem, "to": to, "options": values})
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
            raise InputError(f"{source} is an instance itself", field="--instance")
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
    warn(*exported.warnings)


def _print_json(exported: "Exported", path: Path | None) -> None:
    files = {"file": None if path is None else str(path)}
    if path is None:
        files["content"] = exported.text
    print_json(files | exported.all_notes(path))


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
    from moeopt.core.json_files import file_stem

    folder = file.absolute().parent
    found = [path for path in _json_files(folder) if _holds(path, solution)]
    if not found:
        names = {file_stem(solution.instance), solution.instance}  # library names have a +
        below = {
            path
            for name in names
            for path in (LIBRARY / solution.problem).glob(f"*/{escape(name)}.json*")
        }
        found = [path for path in sorted(below) if _holds(path, solution)]
    if not found:
        places = f"neither {folder} nor {LIBRARY / solution.problem} holds it"
        raise InputError(f"instance {solution.instance!r} is not found: {places}; "
                         "give --instance", where=file)  # fmt: skip
    if len(found) > 1:
        both = " and ".join(map(str, found[:2]))
        raise InputError(f"instance {solution.instance!r} stands in {both}: "
                         "give --instance", where=file)  # fmt: skip
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


export_command = command(_export, _own_options())
"""The command with every target's options: imported only where it is asked for."""
