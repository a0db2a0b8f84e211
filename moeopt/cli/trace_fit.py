"""``moeopt trace fit``: parameters of a synthetic workload that behaves like a real trace."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moeopt.cli.options import Json, Seed, Where, labels, print_table

if TYPE_CHECKING:
    from moeopt.sim.traces.fit.fitting import Fit


def fit_command(
    file: Annotated[
        Path | None, typer.Argument(help="A routing trace, or counts.", show_default=False)
    ] = None,
    counts: Annotated[
        Path | None, typer.Option("--counts", help="Instead: tokens per expert.")
    ] = None,
    where: Where = None,
    top_k: Annotated[
        int | None, typer.Option("--top-k", metavar="K", help="Experts per token, for counts.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Save the workload to this JSON file.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Of the workload; default: the file's.")
    ] = None,
    experts: Annotated[
        int | None,
        typer.Option("--experts", metavar="E", help="Per layer; default: highest id plus one."),
    ] = None,
    evaluations: Annotated[
        int, typer.Option("--evaluations", metavar="N", help="Synthetic traces tried.")
    ] = 60,
    seed: Seed = 0,
    as_json: Json = False,
) -> int:
    """Fit a synthetic workload to a trace and print both side by side; exit 2 on bad input.

    Of counts the popularity of experts is fitted; order, topics and affinity are not in them.
    """
    from moeopt.core.errors import InputError
    from moeopt.core.json_files import save
    from moeopt.sim.traces.files import load_counts, load_trace, read_routing
    from moeopt.sim.traces.fit.fitting import fit_counts, fit_trace
    from moeopt.sim.traces.trace import Trace

    if out is not None and not out.parent.is_dir():
        raise InputError(f"--out: {out.parent} is not a folder")
    if (path := file or counts) is None or None not in (file, counts):
        raise InputError("FILE, --counts: exactly one of the two must be given")
    chosen = labels(where)
    if counts is None:
        found = read_routing(path, chosen, load_trace)
    else:
        found = load_counts(counts, where=chosen)
    called = name or (out or path).stem
    if isinstance(found, Trace):
        if top_k is not None:
            raise InputError("--top-k: is for counts; a trace says it itself")
        fit = fit_trace(found, experts=experts, name=called, seed=seed, evaluations=evaluations)
    else:
        if top_k is None:
            raise InputError(f"{path}: --top-k: is missing: counts do not say experts per token")
        fit = fit_counts(found, top_k=top_k, experts=experts, name=called, seed=seed)
    if out is not None:
        save(fit.workload.facts(), out)
    if as_json:
        _print_json(fit)
    else:
        _print_table(fit)
    return 0


def _print_json(fit: "Fit") -> None:
    import json

    rows = [
        {"figure": row.figure, "real": row.real, "synthetic": row.synthetic} for row in fit.rows
    ]
    print(json.dumps({"workload": fit.workload.facts(), "figures": rows}))


def _print_table(fit: "Fit") -> None:
    title = f"{fit.workload.name}, {fit.workload.source}; a synthetic trace beside it"
    rows = (
        (row.figure, f"{row.real:.3f}", f"{row.synthetic:.3f}", f"{row.error:+.3f}")
        for row in fit.rows
    )
    print_table(("figure", "real", "synthetic", "error"), rows, title, width=120, numbers=True)
