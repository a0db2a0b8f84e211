"""``moeopt export``: hand a plan to the runtime that carries it out."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moeopt.cli.options import Json, TimeLimit, shown
from moeopt.errors import InputError

if TYPE_CHECKING:
    from moeopt.exporters.exported import Exported
    from moeopt.problems.envelope import InstanceEnvelope, SolutionEnvelope


def export_command(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOLUTION|INSTANCE", help="A solution, or an instance.", show_default=False
        ),
    ],
    to: Annotated[str, typer.Option("--to", help="See `moeopt list targets`.", show_default=False)],
    instance: Annotated[
        Path | None,
        typer.Option(help="The solution's instance; default: looked for beside it."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="Preset, config.json, GGUF or JSON file; default: the instance's."),
    ] = None,
    model_class: Annotated[
        str | None, typer.Option(help="The model's class in vLLM; default: config.json's.")
    ] = None,
    ep_size: Annotated[
        int, typer.Option(metavar="N", help="Devices over which a layer's experts are spread.")
    ] = 1,
    deferral: Annotated[
        Path | None, typer.Option(help="Deferral solution whose flag goes along (ktransformers).")
    ] = None,
    time_limit: TimeLimit = 60.0,
    out: Annotated[
        Path | None, typer.Option("--out", help="File or folder; default: stdout.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Write a plan in a runtime's format and print the flags that go with it.

    What the format costs, if the plan had to be changed for it, is said on stderr. With --out, a
    file of notes is written beside the file.
    """
    import moeopt
    from moeopt.exporters.targets import get_target

    if not 0 < time_limit < float("inf"):
        raise InputError(f"--time-limit: must be a positive number of seconds, not {time_limit}")
    given, problem = _loaded(source, instance)
    if out is not None:  # before anything is solved for nothing
        get_target(to, problem.problem).destination(out, problem.name)
    exported = moeopt.export(
        given,
        problem,
        to=to,
        model=model,
        model_class=model_class,
        ep_size=ep_size,
        deferral=None if deferral is None else _deferral(deferral),
        time_limit_s=time_limit,
    )
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
    from moeopt.exporters.find import find_instance
    from moeopt.problems.json_files import read_object

    if "instance" not in read_object(source):
        if instance is not None:
            raise InputError(f"--instance: {source} is an instance itself")
        found = moeopt.load(source)
        return found, found
    solution = moeopt.load_solution(source)
    return solution, (
        find_instance(solution, source) if instance is None else moeopt.load(instance)
    )


def _deferral(file: Path) -> tuple["SolutionEnvelope", "InstanceEnvelope"]:
    import moeopt
    from moeopt.exporters.find import find_instance

    solution = moeopt.load_solution(file)
    return solution, find_instance(solution, file)


def _print_notes(exported: "Exported") -> None:
    if (loss := exported.loss) is not None:
        given, found = (shown(loss.problem, value) for value in (loss.given, loss.exported))
        print(f"moeopt: note: {loss}: {given} becomes {found}", file=sys.stderr)
    if exported.same_as is not None:
        print(f"moeopt: note: the same: {exported.same_as}", file=sys.stderr)


def _print_json(exported: "Exported", path: Path | None) -> None:
    import json

    files = {"file": None if path is None else str(path)}
    if path is None:
        files["content"] = exported.text
    print(json.dumps(files | exported.all_notes(path)))
