"""``moeopt generate PROBLEM``: make an instance; one subcommand per problem with its options."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from moeopt.cli.options import OUTPUT, Model, command, group, human, keyword, read_counts
from moeopt.core.errors import InputError
from moeopt.core.options import Options, option

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cyclopts import App

    from moeopt.core.envelope import InstanceEnvelope
    from moeopt.core.json_files import JsonObject
    from moeopt.sim.traces.trace import Trace

LATER_OUT = "File or folder for a second instance: the loads that come next."
LATER = "How many loads those are; default: as many as observed."


@dataclass(frozen=True, kw_only=True)
class GenerateOptions(Options):
    """Options of ``moeopt generate`` that every problem has."""

    group = "What is given"

    trace: Path | None = option(None, "Routing trace of any known format.")
    counts: Path | None = option(None, "Tokens per expert, for placement.")
    where: list[str] | None = option(
        None, "Rows of a CSV with further columns.", metavar="LABEL=VALUE"
    )
    workload: str | None = option(None, "Preset or JSON file.")
    seed: int = option(0, "Seed of everything random.", metavar="N")
    quantum_ns: int | None = option(
        None, "Round costs up to multiples; default 5000, or the problem's own."
    )
    name: str | None = option(None, "The instance's name.")
    out: Path | None = option(None, "File or folder; default: stdout.", group="Output")


SMALLER = {"cache": " --tokens 20", "joint": " --steps 2 --kv-bits 16,8", "placement": " --steps 2"}
"""Further options of examples, so that they end at once."""


def _app(problems: "Iterable[str]") -> "App":
    """Return the group of the commands of all problems."""
    from moeopt.cli.main import example, new_app

    app = new_app("generate", "Make an instance of a problem from a machine, a model and a trace.")
    for name in problems:
        line = f"moeopt generate {name} --machine trimoe --model mixtral-8x7b"
        line += f" --workload olmoe-1b-7b{SMALLER.get(name, '')} --out made.json"
        about = f"Make an instance of problem {name} from a machine, a model and a trace."
        app.command(f"{__name__}:{name}", name=name, help=about, help_epilogue=example(line))
    return app


def __getattr__(problem: str) -> "Callable[..., int] | App":
    """Return the command of a problem; its own options are `Options` of its ``generate.py``."""
    from moeopt.core.problem import Stretch
    from moeopt.problems.registry import PROBLEMS, get_problem

    if problem == "app":
        return _app(PROBLEMS)
    if problem not in PROBLEMS:
        raise AttributeError(problem)
    holdout, own = get_problem(problem).holdout, []
    if holdout is not None:
        own.append(keyword("later_out", Path | None, Parameter(help=LATER_OUT, group=OUTPUT)))
    if isinstance(holdout, Stretch):
        own.append(keyword("later", int | None, Parameter(help=LATER, group=OUTPUT)))
    for name, info in get_problem(problem).Options().model_fields.items():
        about = Parameter(help=info.description, group=group("Options"))
        kind: object = info.annotation
        kind = Annotated[kind, human(name, kind)]
        own.append(keyword(name, kind, about, info.default))
    return command(partial(_generate, problem), own)


def _generate(
    problem: str,
    *,
    machine: Annotated[str, Parameter(help="Preset, GPU+HOST, HOST or file.")],
    model: Model,
    options: GenerateOptions,
    more: dict[str, Any],
) -> int:
    import moeopt
    from moeopt.core.json_files import to_json
    from moeopt.sim.traces.count_sample import UNKNOWN
    from moeopt.sim.traces.files import read_routing
    from moeopt.sim.traces.trace import Counts

    out = options.out
    counts = read_counts(options.counts, options.where)
    trace = None if options.trace is None else read_routing(options.trace, read=moeopt.load_trace)
    if isinstance(trace, Counts):
        if counts is not None:
            raise InputError("--trace, --counts: at most one of the two may be given")
        trace, counts = None, trace
    later_out, later = more.pop("later_out", None), more.pop("later", None)
    given: JsonObject = {"machine": machine, "model": model, "workload": options.workload} | more
    given |= {"seed": options.seed, "quantum_ns": options.quantum_ns, "name": options.name}
    if later_out is not None:
        if counts is not None:
            raise InputError(
                "counts have no order, of which something comes later", field="--later-out"
            )
        instance, following = _twins(problem, trace, later, given)
        _save(following, later_out)
    elif later is not None:
        raise InputError("needs --later-out, the file for these loads", field="--later")
    else:
        instance = moeopt.generate(problem, trace=trace, counts=counts, **given)
    if counts is not None:
        print(f"moeopt: {counts.name}: {UNKNOWN}", file=sys.stderr)
    if out is None:
        print(to_json(instance.model_dump(mode="json")), end="")
    else:
        _save(instance, out)
    return 0


def _twins(
    problem: str, trace: "Trace | None", later: int | None, given: "JsonObject"
) -> "tuple[InstanceEnvelope, InstanceEnvelope]":
    """Return the instance of the observed loads and that of the next ones."""
    import moeopt
    from moeopt.core.problem import Phases
    from moeopt.problems.registry import get_problem

    holdout = get_problem(problem).holdout
    if isinstance(holdout, Phases):
        usual = get_problem(problem).Options().model_fields[holdout.option].default
        if given.pop(holdout.option) != usual:
            order = " and ".join(holdout.order)
            raise InputError(
                f"--{holdout.option}: cannot be combined with --later-out, which is for {order}"
            )
    if later is not None:
        given["later"] = later
    return moeopt.generate_twins(problem, trace=trace, **given)


def _save(instance: "InstanceEnvelope", out: Path) -> None:
    from moeopt.core.json_files import file_stem, save

    save(instance, out / f"{file_stem(instance.name)}.json" if out.is_dir() else out)
