"""Commands on published traces: ``convert`` into npz, ``fit`` a synthetic workload."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from benchmarks.rooms.cli import (
    Json,
    Seed,
    Where,
    command,
    labels,
    main,
    new_app,
    print_table,
    run_app,
)


def convert_command(
    format: Annotated[str, Parameter(help="Name in benchmarks/traces/formats.py.")],
    source: Annotated[Path, Parameter(help="File or folder.")],
    out: Annotated[Path, Parameter(help="The trace (.npz).")],
    /,
    *,
    top_k: Annotated[
        int | None, Parameter(metavar="K", help="Experts per token, where the file is silent.")
    ] = None,
) -> int:
    """Convert a published trace to the npz that commands take with --trace."""
    from benchmarks.traces.formats import read_published
    from moeopt import InputError, save_trace

    if out.suffix != ".npz":
        raise InputError(f"{out}: must end in .npz")
    trace = read_published(source, format, top_k)
    save_trace(trace, out)
    print(f"{out}: {trace.tokens} tokens, {trace.layers} layers, top-{trace.topk_ids.shape[2]}")
    return 0


def fit_command(
    file: Annotated[Path, Parameter(help="A trace, or counts.")],
    /,
    *,
    where: Where = None,
    top_k: Annotated[
        int | None, Parameter(metavar="K", help="Experts per token, for counts.")
    ] = None,
    out: Annotated[Path | None, Parameter(help="Save the workload to this JSON file.")] = None,
    name: Annotated[str | None, Parameter(help="Of the workload; default: the file's.")] = None,
    experts: Annotated[
        int | None, Parameter(metavar="E", help="Per layer; default: highest id plus one.")
    ] = None,
    evaluations: Annotated[int, Parameter(metavar="N", help="Synthetic traces tried.")] = 60,
    seed: Seed = 0,
    as_json: Json = False,
) -> int:
    """Fit a synthetic workload to a trace and print both side by side.

    Of counts the popularity of experts is fitted; order, topics and affinity are not in them.
    """
    from benchmarks.rooms.sim import Trace, read_routing
    from benchmarks.traces.fitting import fit_counts, fit_trace
    from moeopt import InputError, load_trace, save

    if out is not None and not out.parent.is_dir():
        raise InputError(f"--out: {out.parent} is not a folder")
    found = read_routing(file, labels(where), load_trace)
    called = name or (out or file).stem
    if isinstance(found, Trace):
        if top_k is not None:
            raise InputError("--top-k: is for counts; a trace says it itself")
        fit = fit_trace(found, experts=experts, name=called, seed=seed, evaluations=evaluations)
    else:
        if top_k is None:
            raise InputError(f"{file}: --top-k: is missing: counts do not say experts per token")
        fit = fit_counts(found, top_k=top_k, experts=experts, name=called, seed=seed)
    if out is not None:
        save(fit.workload.facts(), out)
    if as_json:
        figures = [
            {"figure": row.figure, "real": row.real, "synthetic": row.synthetic} for row in fit.rows
        ]
        print(json.dumps({"workload": fit.workload.facts(), "figures": figures}))
        return 0
    title = f"{fit.workload.name}, {fit.workload.source}; a synthetic trace beside it"
    rows = (
        (row.figure, f"{row.real:.3f}", f"{row.synthetic:.3f}", f"{row.error:+.3f}")
        for row in fit.rows
    )
    print_table(("figure", "real", "synthetic", "error"), rows, title, width=120)
    return 0


def run(argv: Sequence[str]) -> int:
    """Run a command line; return its exit code."""
    app = new_app(
        "python -m benchmarks.traces",
        "Convert published traces; fit synthetic workloads to traces.",
    )
    for name, function in {"convert": convert_command, "fit": fit_command}.items():
        app.command(command(function), name=name)
    return run_app(app, argv)


if __name__ == "__main__":
    main(run=run)
