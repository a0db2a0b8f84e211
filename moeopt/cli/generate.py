"""``moeopt generate PROBLEM``: make instances; one subcommand per problem with its options."""

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from moeopt.cli.options import (
    OUTPUT,
    Json,
    Model,
    command,
    flag_of,
    group,
    human,
    keyword,
    print_json,
    read_counts,
)
from moeopt.core.errors import InputError
from moeopt.core.options import Options, option

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cyclopts import App

    from moeopt.core.envelope import InstanceEnvelope
    from moeopt.core.json_files import JsonObject
    from moeopt.sim.models.model_shape import ModelShape
    from moeopt.sim.traces.trace import Counts, Trace

LATER_OUT = "File or folder for a second instance: the loads that come next."
LATER = "How many loads those are; default: as many as observed."

SEVERAL = ("layer", "batch")
"""Options of problems that take several values: every combination is an instance, in a folder."""

MOST_INSTANCES = 4096
"""Most instances of one call."""


@dataclass(frozen=True, kw_only=True)
class GenerateOptions(Options):
    """Options of ``moeopt generate`` that every problem has."""

    group = "What is given"

    trace: Path | None = option(None, "Routing trace of any known format.")
    counts: Path | None = option(None, "Tokens per expert, for placement.")
    format: str | None = option(
        None, "Format of --trace or --counts; by default told from the file."
    )
    where: list[str] | None = option(
        None, "Rows of a CSV with further columns.", metavar="LABEL=VALUE"
    )
    workload: str | None = option(None, "Preset or JSON file.")
    seed: int = option(0, "Seed of everything random.", metavar="N")
    quantum_ns: int | None = option(
        None, "Round costs up to multiples; default 5000, or the problem's own."
    )
    name: str | None = option(None, "The instance's name.")
    out: str | None = option(
        None,
        "File, which is replaced, or folder (DIR/ is made); default: stdout.",
        group="Output",
    )


SMALLER = {
    "cache": " --tokens 20",
    "deferral": " --batch 4",
    "joint": " --steps 2 --kv-bits 16,8",
    "placement": " --steps 2",
    "threads": " --threads 32",
}
"""Further options of examples: so that they end at once, or that the machine does not state."""


def _app(problems: "Iterable[str]") -> "App":
    """Return the group of the commands of all problems."""
    from moeopt.cli.main import example, new_app
    from moeopt.problems.registry import get_problem

    app = new_app("generate", "Make instances of a problem from a machine, a model and a trace.")
    for name in problems:
        of = get_problem(name)
        line = f"moeopt generate {name}"
        line += " --machine trimoe" * bool(of.machine_parts) + " --model mixtral-8x7b"
        line += " --workload olmoe-1b-7b" * of.from_routing
        line += f"{SMALLER.get(name, '')} --out made.json"
        about = f"Make instances of problem {name} from a machine, a model and a trace."
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
        own.append(keyword("later_out", str | None, Parameter(help=LATER_OUT, group=OUTPUT)))
    if isinstance(holdout, Stretch):
        own.append(keyword("later", int | None, Parameter(help=LATER, group=OUTPUT)))
    for name, info in get_problem(problem).Options().model_fields.items():
        about, default = info.description, info.default
        kind: object = info.annotation
        if name in SEVERAL:
            every = ", or all" if name == "layer" else ""
            about, default, kind = f"{about}; several: 1,5-7{every}", str(default), str
        kind = Annotated[kind, human(name, kind)]
        own.append(keyword(name, kind, Parameter(help=about, group=group("Options")), default))
    function = partial(_generate, problem)
    if not get_problem(problem).machine_parts:  # nothing is read of one: there is no such option
        function = partial(_generate, problem, machine=None)
        whole = inspect.signature(function, eval_str=True)
        rest = [one for one in whole.parameters.values() if one.name != "machine"]
        function.__signature__ = whole.replace(parameters=rest)  # type: ignore[attr-defined]
    return command(function, own)


def _generate(
    problem: str,
    *,
    machine: Annotated[str | None, Parameter(help="Preset, GPU+HOST, HOST or file.")],
    model: Model,
    options: GenerateOptions,
    more: dict[str, Any],
    as_json: Json = False,
) -> int:
    from moeopt.core.json_files import check_folder, to_json
    from moeopt.problems.generate import refuse_unfelt
    from moeopt.sim.presets import get_model
    from moeopt.sim.traces.count_sample import UNKNOWN

    shape = get_model(model)
    trace, counts = _routing(problem, options, shape)
    later_out = more.pop("later_out", None)
    if later_out is None and "later" in more:
        raise InputError("needs --later-out, the file for these loads", field="--later")
    if later_out is not None and counts is not None:
        raise InputError(
            "counts have no order, of which something comes later", field="--later-out"
        )
    if as_json and options.out is None:
        raise InputError("needs --out: without it the instance itself is printed", field="--json")
    source = trace or counts
    layers = _drawn_layers(options.workload, shape) if source is None else source.layers
    choices = _choices(more, layers)
    several = len(choices) > 1
    given: JsonObject = {"machine": machine, "model": shape, "workload": options.workload} | more
    given |= {"seed": options.seed, "quantum_ns": options.quantum_ns, "trace": trace}
    outs = {"--out": options.out} | ({} if later_out is None else {"--later-out": later_out})
    for flag, out in outs.items():
        if several and (out is None or not _is_folder(out)):
            needed = f"must be a folder for {len(choices)} instances, with a slash at its end: DIR/"
            raise InputError(needed, field=flag)
    written: list[tuple[Path, InstanceEnvelope, dict[str, int]]] = []
    instance: InstanceEnvelope | None = None
    source_of: dict[str, Any] = {
        "model": shape,
        "trace": trace,
        "workload": options.workload,
        "counts": counts,
    }
    for chosen in choices:
        own = {name: value for name, value in (more | chosen).items() if name != "later"}
        twin = 0 if later_out is None else more.get("later") or 1
        refuse_unfelt(problem, **source_of, seed=options.seed, later=twin, options=own)
        name = options.name and "-".join([options.name, *_said(chosen if several else {})])
        made = _made(problem, given | chosen | {"name": name}, counts, later_out is not None)
        instance = made[0]
        for one, out in zip(made, outs.values(), strict=True):
            if out is not None:
                written.append((_place(out, one, chosen if several else {}), one, chosen))
    folders = {flag: out for flag, out in outs.items() if out is not None and _is_folder(out)}
    _check_new(written, folders.values())
    if counts is not None:
        print(f"moeopt: {counts.name}: {UNKNOWN}", file=sys.stderr)
    for flag, folder in folders.items():
        check_folder(flag, Path(folder))
    for path, one, chosen in written:
        _save(problem, path, one, chosen, as_json)
    if options.out is None and instance is not None:
        print(to_json(instance.model_dump(mode="json")), end="")
    return 0


def _routing(
    problem: str, options: GenerateOptions, model: "ModelShape"
) -> "tuple[Trace | None, Counts | None]":
    """Return the trace and the counts that are given; a trace must be the model's."""
    import moeopt
    from moeopt.problems.registry import get_problem
    from moeopt.sim.traces.files import read_routing
    from moeopt.sim.traces.of_model import check_trace
    from moeopt.sim.traces.trace import Counts

    if not get_problem(problem).from_routing:
        counted = () if get_problem(problem).from_counts else ("counts",)
        for name in ("trace", "workload", *counted):
            if getattr(options, name) is not None:
                raise InputError(
                    f"has no effect: {problem} does not depend on which experts tokens choose",
                    field=flag_of(name),
                )
    if options.format is not None and options.trace is None and options.counts is None:
        raise InputError("is of a file of --trace or --counts, which is missing", field="--format")
    counts = read_counts(options.counts, options.where, options.format)
    if options.trace is None:
        return None, counts
    read = partial(moeopt.load_trace, format=options.format)
    trace = read_routing(options.trace, read=read, format=options.format)
    if not isinstance(trace, Counts):
        check_trace(trace, model)
        return trace, counts
    if counts is not None:
        raise InputError("--trace, --counts: at most one of the two may be given")
    return None, trace


def _made(
    problem: str, given: "JsonObject", counts: "Counts | None", twins: bool
) -> "tuple[InstanceEnvelope, ...]":
    """Return the instance of a combination of options, with that of later loads if asked for."""
    import moeopt

    if twins:
        return _twins(problem, given)
    return (moeopt.generate(problem, counts=counts, **given),)


def _twins(problem: str, given: "JsonObject") -> "tuple[InstanceEnvelope, InstanceEnvelope]":
    """Return the instance of the observed loads and that of the next ones."""
    import moeopt
    from moeopt.core.problem import Phases
    from moeopt.problems.registry import get_problem

    holdout = get_problem(problem).holdout
    if isinstance(holdout, Phases):
        usual = get_problem(problem).Options().model_fields[holdout.option].default
        if given.pop(holdout.option, usual) != usual:
            order = " and ".join(holdout.order)
            raise InputError(
                f"--{holdout.option}: cannot be combined with --later-out, which is for {order}"
            )
    return moeopt.generate_twins(problem, **given)


def _drawn_layers(workload: str | None, model: "ModelShape") -> int:
    """Return how many layers are drawn from a workload: of a plain law one stands for all."""
    from moeopt.sim.presets import find
    from moeopt.sim.traces.workload import Workload

    if workload is not None and find("workloads", Workload, workload).is_plain:
        return 1
    return len(model.moe_layers)


def _choices(more: dict[str, Any], layers: int) -> list[dict[str, int]]:
    """Take what `more` says of layers and batches, and return every combination."""
    lists = [
        [(name, value) for value in _numbers(name, more.pop(name), layers)]
        for name in SEVERAL
        if name in more
    ]
    found = [dict(chosen) for chosen in product(*lists)]
    if len(found) > MOST_INSTANCES:
        raise InputError(f"{len(found)} instances are more than {MOST_INSTANCES} at once")
    return found


def _numbers(name: str, text: str, layers: int) -> list[int]:
    """Return the numbers of a list such as ``1,5-7``; ``all`` is every layer."""
    if name == "layer" and text.strip() == "all":
        return list(range(layers))
    found = [number for part in text.split(",") for number in _range(name, part.strip())]
    twice = next((number for number in found if found.count(number) > 1), None)
    if twice is not None:
        raise InputError(f"{twice} stands twice in {text!r:.60}", field=flag_of(name))
    return found


def _range(name: str, part: str) -> "Iterator[int]":
    from moeopt.core.units import whole_of

    first, dash, last = part.partition("-")
    if not first:  # a negative number is refused where its range is known
        first, dash = part, ""
    try:
        low = whole_of(flag_of(name), first)
        high = whole_of(flag_of(name), last) if dash else low
    except InputError:
        low, high = 1, 0
    if not low <= high < low + MOST_INSTANCES:
        every = " or all" if name == "layer" else ""
        wanted = f"must be whole numbers and ranges such as 1,5-7{every}"
        raise InputError(f"{wanted}, not {part!r:.60}", field=flag_of(name))
    yield from range(low, high + 1)


def _said(chosen: Mapping[str, int]) -> list[str]:
    """Return the parts of a name that say which layer and batch."""
    return [f"{name}{value}" for name, value in chosen.items()]


def _is_folder(out: str) -> bool:
    """Tell whether a path is a folder: there is one, or a slash says so."""
    return out.endswith("/") or Path(out).is_dir()


def _place(out: str, instance: "InstanceEnvelope", chosen: Mapping[str, int]) -> Path:
    """Return the file of an instance; in a folder its name, which says layer and batch."""
    from moeopt.core.json_files import file_stem

    if not _is_folder(out):
        return Path(out)
    parts = instance.name.split("-")
    missing = [part for part in _said(chosen) if part not in parts]
    return Path(out) / f"{file_stem('-'.join([instance.name, *missing]))}.json"


def _check_new(
    written: "list[tuple[Path, InstanceEnvelope, dict[str, int]]]", folders: "Iterable[str]"
) -> None:
    """Raise InputError if a file in a folder is there already, or two instances have one name."""
    places = [path for path, _, _ in written if path.parent in map(Path, folders)]
    there = [path for path in places if path.exists()]
    if there:
        more = f" and {len(there) - 1} more" if len(there) > 1 else ""
        raise InputError(f"is there already{more}: nothing was written", where=there[0])
    twice = next((path for path in places if places.count(path) > 1), None)
    if twice is not None:
        raise InputError("would hold several instances: give --name", where=twice)


def _save(
    problem: str,
    path: Path,
    instance: "InstanceEnvelope",
    chosen: dict[str, int],
    as_json: bool,
) -> None:
    """Write an instance and print its file."""
    from moeopt.core.json_files import STDOUT, save

    save(instance, path)
    if as_json:
        said: JsonObject = {"file": str(path), "name": instance.name, "problem": problem}
        print_json(said | chosen)
    elif str(path) not in STDOUT:
        print(path)
