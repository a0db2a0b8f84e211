"""``moeopt trace``: convert and dedupe routing traces, say what is in them."""

from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from moeopt.core.errors import InputError

from .options import (
    Json,
    Where,
    command,
    labels,
    print_json,
    print_table,
    rich_console,
    rich_text,
)

if TYPE_CHECKING:
    from moeopt.sim.traces.repeats import Repeats
    from moeopt.sim.traces.statistics.routing import Routing
    from moeopt.sim.traces.statistics.summary import Summary
    from moeopt.sim.traces.trace import Trace


FileFormat = Annotated[str | None, Parameter(help="Its format; by default told from the file.")]
Experts = Annotated[
    int | None, Parameter(metavar="E", help="Per layer; default: highest id plus one.")
]


POLICIES = ("lru", "fifo", "random", "static", "belady", "retention_bound")


@command
def info_command(
    file: Annotated[Path, Parameter(help="A routing trace.")],
    /,
    *,
    layer: Annotated[int | None, Parameter(metavar="L", help="Only this layer, from 0.")] = None,
    batch: Annotated[int, Parameter(metavar="B", help="Tokens per decode step.")] = 256,
    experts: Experts = None,
    where: Where = None,
    format: FileFormat = None,
    as_json: Json = False,
) -> int:
    """Print a trace's size, repeats, skew, reuse, similarities and cache hit rates.

    A file that holds counts only has skew and shares, nothing that needs the order of tokens.
    """
    from moeopt.sim.traces.files import format_of, get_format

    if where or not get_format(format_of(file, format)).trace:
        sizes, summary = _of_counts(file, layer, experts, labels(where), format)
        repeats = None
    else:
        sizes, summary, repeats = _of_trace(file, layer, batch, experts, format)
    if as_json:
        again = None if repeats is None else repeats.to_dict()
        print_json(sizes | {"layer": layer, "repeats": again} | summary.to_dict())
        return 0
    console = rich_console(width=get_terminal_size((120, 24)).columns)
    listed = ", ".join(f"{value} {name}" for name, value in list(sizes.items())[1:])
    console.print(rich_text(f"{sizes['name']}: {listed}"), highlight=False, soft_wrap=True)
    if repeats is not None:
        console.print(rich_text(repeats.in_words()), highlight=False, soft_wrap=True)
    _print_figures(summary)
    if summary.hits:
        _print_hits(summary)
    return 0


def _of_trace(
    file: Path, layer: int | None, batch: int, experts: int | None, format: str | None
) -> tuple[dict[str, str | int], "Summary", "Repeats"]:
    from moeopt.sim.traces.files import read_trace
    from moeopt.sim.traces.repeats import find_repeats
    from moeopt.sim.traces.statistics.routing import Routing
    from moeopt.sim.traces.statistics.summary import summarise

    trace = read_trace(file, format)
    routing = Routing.of(trace, experts, None if layer is None else [layer])
    return _sizes(trace, routing), summarise(routing, batch), find_repeats(trace)


def _of_counts(
    file: Path,
    layer: int | None,
    experts: int | None,
    where: dict[str, str],
    format: str | None,
) -> tuple[dict[str, str | int], "Summary"]:
    from moeopt.sim.traces.files import load_counts
    from moeopt.sim.traces.statistics.summary import summarise_counts

    found = load_counts(file, format, experts=experts, where=where)
    uses = found.counts.sum(axis=0)
    if layer is not None:
        if not 0 <= layer < len(uses):
            raise InputError(f"must be from 0 to {len(uses) - 1}, not {layer}", field="layer")
        uses = uses[[layer]]
    sizes: dict[str, str | int] = {"name": found.name, "layers": len(uses)}
    sizes |= {"experts": uses.shape[1], "accesses": int(uses.sum())}
    return sizes, summarise_counts(uses)


def _sizes(trace: "Trace", routing: "Routing") -> dict[str, str | int]:
    return {
        "name": trace.name,
        "tokens": routing.tokens,
        "layers": routing.layers,
        "experts": routing.experts,
        "k": routing.top_k,
        "sequences": int(routing.starts.sum()),
    }


def _print_figures(summary: "Summary") -> None:
    rows = []
    for figure in summary.figures:
        known = figure.layers[figure.layers == figure.layers].tolist()
        least, most = (min(known), max(known)) if known else (None, None)
        mean = figure.mean if known else None
        rows.append([figure.meaning, *map(_number, (mean, least, most))])
    for name, value in zip(("same quota per layer", "global"), summary.coverage, strict=True):
        covered = f"accesses covered by the hottest 25 % of the experts, {name}"
        rows.append([covered, _number(value), "", ""])
    columns = ("statistic", "mean", "least", "most")
    print_table(columns, rows, "Mean and range over the layers", width=120)


def _print_hits(summary: "Summary") -> None:
    from moeopt.sim.traces.statistics.routing import average

    lru, rows = summary.hits["lru"], []
    for capacity in summary.hits["fifo"].capacities.tolist():
        rates = (summary.hits[policy] for policy in POLICIES)
        row = [average(of.each[:, of.at(capacity)]) for of in rates]
        column = lru.at(capacity)
        row += [average(lru.any[:, column]), average(lru.all[:, column])]
        rows.append([str(capacity), *map(_number, row)])
    title = "Hit rates per access by experts cached in each layer; any, all: per token, LRU"
    columns = ("cached", *(policy.replace("_", " ") for policy in POLICIES), "any", "all")
    print_table(columns, rows, title, width=120)


def _number(value: float | None) -> str:
    return "-" if value is None or value != value else f"{value:.3f}"


Out = Annotated[Path, Parameter("--out", help="The trace (.npz).")]


@command
def convert_command(
    source: Annotated[Path, Parameter(help="File or folder.")],
    /,
    *,
    out: Out,
    format: FileFormat = None,
    top_k: Annotated[
        int | None, Parameter(help="Experts per token, where the file does not say.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Convert a trace of any known format to npz."""
    from moeopt.sim.traces.files import load_trace

    trace = load_trace(source, format, top_k)
    if top_k is not None and top_k != (own := trace.topk_ids.shape[2]):
        raise InputError(f"has no effect: the file says that there are {own}", field="--top-k")
    line = _save(trace, out)
    if as_json:
        sizes = {"tokens": trace.tokens, "layers": trace.layers, "k": trace.topk_ids.shape[2]}
        print_json({"file": str(out), "name": trace.name} | sizes)
    else:
        print(line)
    return 0


@command
def dedupe_command(
    file: Annotated[Path, Parameter(help="A routing trace.")],
    /,
    *,
    out: Out,
    min_run: Annotated[
        int, Parameter(validator=Number(gte=1), help="Fewest equal tokens in a row.")
    ] = 20,
    as_json: Json = False,
) -> int:
    """Remove the second and later occurrences of runs of tokens, so that hold-outs are new."""
    from moeopt.sim.traces.files import read_trace
    from moeopt.sim.traces.repeats import find_repeats, without

    trace = read_trace(file)
    found = find_repeats(trace, min_run)
    left = without(trace, found)
    line = _save(left, out)
    if as_json:
        told = {"name": trace.name, "tokens": trace.tokens, "kept": left.tokens}
        told |= {"min_run": min_run, "runs": [run._asdict() for run in found.runs]}
        print_json(told)
        return 0
    removed = trace.tokens - left.tokens
    print(f"{file}: {removed} of {trace.tokens} tokens removed, in {len(found.runs)} runs")
    print(line)
    return 0


def _save(trace: "Trace", out: Path) -> str:
    """Write a trace and return a line that says so."""
    from moeopt.sim.traces.readers.topk_npz import save_trace

    if out.suffix != ".npz":
        raise InputError(f"{out} must end in .npz", field="--out")
    save_trace(trace, out)
    _, _, top_k = trace.topk_ids.shape
    sequences = "" if trace.seq_len is None else f", {len(trace.seq_len)} sequences"
    return f"{out}: {trace.tokens} tokens, {trace.layers} layers, top-{top_k}{sequences}"
