"""``moeopt generate PROBLEM``: make an instance; one subcommand per problem with its options."""

import sys
from collections.abc import Callable
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

import typer

from moeopt.cli.options import Seed, Where, file_name, read_counts

COMMON: dict[str, tuple[Any, Any]] = {
    "machine": (Annotated[str, typer.Option(help="Preset or JSON file.")], Parameter.empty),
    "model": (
        Annotated[str, typer.Option(help="Preset, config.json, GGUF or JSON file.")],
        Parameter.empty,
    ),
    "trace": (
        Annotated[Path | None, typer.Option(help="Routing trace of any known format.")],
        None,
    ),
    "counts": (
        Annotated[Path | None, typer.Option(help="Tokens per expert, for placement.")],
        None,
    ),
    "where": (Where, None),
    "workload": (Annotated[str | None, typer.Option(help="Preset or JSON file.")], None),
    "seed": (Seed, 0),
    "quantum_ns": (
        Annotated[
            int | None,
            typer.Option(help="Round costs up to multiples; default 5000, or the problem's own."),
        ],
        None,
    ),
    "name": (Annotated[str | None, typer.Option(help="The instance's name.")], None),
    "out": (Annotated[Path | None, typer.Option(help="File or folder; default: stdout.")], None),
}
"""Option -> annotation and default; no default means required."""


def build_app(complete: bool) -> typer.Typer:
    """Return the group; its subcommands need the generators, so they are built on demand only."""
    app = typer.Typer(
        help="Make an instance of a problem from a machine, a model and a trace.",
        no_args_is_help=True,
    )
    if not complete:
        app.callback()(lambda: None)
        return app
    from moeopt.problems.registry import PROBLEMS
    from moeopt.sim.generate import generator_of

    for problem in PROBLEMS:
        options = generator_of(problem).Options.model_fields
        app.command(problem)(_command(problem, options))
    app.callback()(lambda: None)
    return app


def _command(problem: str, fields: dict[str, Any]) -> Callable[..., int]:
    """Return the subcommand of a problem, its signature made of the common and its own options."""

    def command(**given: Any) -> int:
        return _generate(problem, given)

    annotations = dict(COMMON)
    for name, info in fields.items():
        option = Annotated[info.annotation, typer.Option(help=info.description)]  # type: ignore[name-defined]
        annotations[name] = (option, info.default)
    command.__signature__ = Signature(  # type: ignore[attr-defined]
        [
            Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
            for name, (annotation, default) in annotations.items()
        ]
    )
    command.__doc__ = f"Make a {problem} instance."
    return command


def _generate(problem: str, given: dict[str, Any]) -> int:
    import moeopt
    from moeopt.errors import InputError
    from moeopt.interop.traces import read_routing
    from moeopt.problems.json_files import to_json
    from moeopt.sim.count_sample import UNKNOWN
    from moeopt.sim.trace import Counts

    out: Path | None = given.pop("out")
    trace: Path | None = given.pop("trace")
    counts = read_counts(given.pop("counts"), given.pop("where"))
    found = None if trace is None else read_routing(trace, read=moeopt.load_trace)
    if isinstance(found, Counts):
        if counts is not None:
            raise InputError("--trace, --counts: at most one of the two may be given")
        found, counts = None, found
    instance = moeopt.generate(problem, trace=found, counts=counts, **given)
    if counts is not None:
        print(f"moeopt: {counts.name}: {UNKNOWN}", file=sys.stderr)
    if out is None:
        print(to_json(instance.model_dump(mode="json")), end="")
    else:
        moeopt.save(instance, out / file_name(instance.name) if out.is_dir() else out)
    return 0
