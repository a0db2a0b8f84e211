"""``moeopt generate PROBLEM``: make an instance; one subcommand per problem with its options."""

import sys
from collections.abc import Callable
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moeopt.cli.options import Seed, Where, file_name, human, read_counts

if TYPE_CHECKING:
    from moeopt.core.envelope import InstanceEnvelope
    from moeopt.sim.traces.trace import Trace

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

LATER_OUT: tuple[Any, Any] = (
    Annotated[
        Path | None,
        typer.Option(help="File or folder for a second instance: the loads that come next."),
    ],
    None,
)

LATER: tuple[Any, Any] = (
    Annotated[
        int | None, typer.Option(help="How many loads those are; default: as many as observed.")
    ],
    None,
)


def build_app(complete: bool) -> typer.Typer:
    """Return the group; its subcommands need the generators, so they are built on demand only."""
    app = typer.Typer(
        help="Make an instance of a problem from a machine, a model and a trace.",
        no_args_is_help=True,
    )
    if not complete:
        app.callback()(lambda: None)
        return app
    from moeopt.problems.generate import generator_of
    from moeopt.problems.registry import PROBLEMS

    for problem in PROBLEMS:
        options = generator_of(problem).options.model_fields
        app.command(problem)(_command(problem, options))
    app.callback()(lambda: None)
    return app


def _command(problem: str, fields: dict[str, Any]) -> Callable[..., int]:
    """Return the subcommand of a problem, its signature made of the common and its own options."""

    def command(**given: Any) -> int:
        return _generate(problem, given)

    from moeopt.core.problem import Stretch
    from moeopt.problems.registry import get_problem

    annotations, holdout = dict(COMMON), get_problem(problem).holdout
    if holdout is not None:
        annotations["later_out"] = LATER_OUT
    if isinstance(holdout, Stretch):
        annotations["later"] = LATER
    for name, info in fields.items():
        option = typer.Option(help=info.description, parser=human(name, info.annotation))
        annotations[name] = (Annotated[info.annotation, option], info.default)
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
    from moeopt.core.errors import InputError
    from moeopt.core.json_files import to_json
    from moeopt.sim.traces.count_sample import UNKNOWN
    from moeopt.sim.traces.files import read_routing
    from moeopt.sim.traces.trace import Counts

    out: Path | None = given.pop("out")
    trace: Path | None = given.pop("trace")
    counts = read_counts(given.pop("counts"), given.pop("where"))
    found = None if trace is None else read_routing(trace, read=moeopt.load_trace)
    if isinstance(found, Counts):
        if counts is not None:
            raise InputError("--trace, --counts: at most one of the two may be given")
        found, counts = None, found
    later_out, later = given.pop("later_out", None), given.pop("later", None)
    if later_out is not None:
        if counts is not None:
            raise InputError("--later-out: counts have no order, of which something comes later")
        instance, following = _twins(problem, found, later, given)
        _save(following, later_out)
    elif later is not None:
        raise InputError("--later: needs --later-out, the file for these loads")
    else:
        instance = moeopt.generate(problem, trace=found, counts=counts, **given)
    if counts is not None:
        print(f"moeopt: {counts.name}: {UNKNOWN}", file=sys.stderr)
    if out is None:
        print(to_json(instance.model_dump(mode="json")), end="")
    else:
        _save(instance, out)
    return 0


def _twins(
    problem: str, trace: "Trace | None", later: int | None, given: dict[str, Any]
) -> "tuple[InstanceEnvelope, InstanceEnvelope]":
    """Return the instance of the observed loads and that of the next ones."""
    import moeopt
    from moeopt.core.errors import InputError
    from moeopt.core.problem import Phases
    from moeopt.problems.generate import generator_of
    from moeopt.problems.registry import get_problem

    holdout = get_problem(problem).holdout
    if isinstance(holdout, Phases):
        usual = generator_of(problem).options.model_fields[holdout.option].default
        if given.pop(holdout.option) != usual:
            order = " and ".join(holdout.order)
            raise InputError(f"--{holdout.option}: goes not with --later-out, which is for {order}")
    if later is not None:
        given["later"] = later
    return moeopt.generate_twins(problem, trace=trace, **given)


def _save(instance: "InstanceEnvelope", out: Path) -> None:
    import moeopt

    moeopt.save(instance, out / file_name(instance.name) if out.is_dir() else out)
