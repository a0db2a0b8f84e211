"""``moeopt trace``: convert, record and dedupe routing traces, say what is in them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moeopt.cli.options import Json, Seed
from moeopt.cli.trace_fit import fit_command
from moeopt.cli.trace_info import info_command
from moeopt.core.errors import InputError

if TYPE_CHECKING:
    from moeopt.sim.traces.trace import Trace

MAX_PROMPTS = 100_000

Out = Annotated[Path, typer.Option("--out", help="The trace (.npz).", show_default=False)]


def build_app() -> typer.Typer:
    """Return the group of the commands on traces."""
    app = typer.Typer(
        help="Convert, record, dedupe and describe routing traces.",
        no_args_is_help=True,
        rich_markup_mode=None,  # or the extra's brackets are taken for markup
    )
    app.command("convert")(convert_command)
    app.command("record")(record_command)
    app.command("info")(info_command)
    app.command("dedupe")(dedupe_command)
    app.command("fit")(fit_command)
    app.callback()(lambda: None)
    return app


def convert_command(
    source: Annotated[
        Path, typer.Argument(metavar="IN", help="File or folder.", show_default=False)
    ],
    out: Out,
    format: Annotated[
        str | None, typer.Option("--format", help="Its format; by default told from the file.")
    ] = None,
    top_k: Annotated[
        int | None, typer.Option("--top-k", help="Experts per token, where the file does not say.")
    ] = None,
) -> int:
    """Convert a trace of any known format to npz."""
    from moeopt.sim.traces.files import load_trace

    print(_save(load_trace(source, format, top_k), out))
    return 0


def record_command(
    model: Annotated[
        Path, typer.Option("--model", help="Model folder or config.json.", show_default=False)
    ],
    prompts: Annotated[
        Path,
        typer.Option(
            "--prompts", help="One prompt per line; .jsonl: token ids.", show_default=False
        ),
    ],
    out: Out,
    max_new_tokens: Annotated[
        int, typer.Option("--max-new-tokens", metavar="N", min=0, max=100_000, help="Per prompt.")
    ] = 64,
    random_weights: Annotated[
        bool, typer.Option("--random-weights", help="Make the weights up, to try things out.")
    ] = False,
    seed: Seed = 0,
) -> int:
    """Record the routing of a Hugging Face model (needs the extra: pip install 'moeopt[hf]')."""
    try:
        import torch  # type: ignore[import-not-found, unused-ignore]  # noqa: F401  # extra "hf"
        import transformers  # type: ignore[import-not-found, unused-ignore]  # noqa: F401
    except ImportError as error:
        package = error.name or "a package"
        raise InputError(f"trace record: {package} is missing: pip install 'moeopt[hf]'") from None
    from moeopt.sim.models.hf_models import load_model, read_prompts
    from moeopt.sim.traces.readers.recorder import record

    texts = read_prompts(prompts, MAX_PROMPTS)
    network, tokens = load_model(model, texts, random_weights, seed)
    facts: dict[str, Any] = {"prompts": prompts.name}
    if random_weights:
        facts["random_weights"] = {"seed": seed}
    print(_save(record(network, tokens, max_new_tokens, model.absolute().name, facts), out))
    return 0


def dedupe_command(
    file: Annotated[Path, typer.Argument(help="A routing trace.", show_default=False)],
    out: Out,
    min_run: Annotated[
        int, typer.Option("--min-run", metavar="N", min=1, help="Fewest equal tokens in a row.")
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
        import json

        told = {"name": trace.name, "tokens": trace.tokens, "kept": left.tokens}
        told |= {"min_run": min_run, "runs": [run._asdict() for run in found.runs]}
        print(json.dumps(told))
        return 0
    removed = trace.tokens - left.tokens
    print(f"{file}: {removed} of {trace.tokens} tokens removed, in {len(found.runs)} runs")
    print(line)
    return 0


def _save(trace: "Trace", out: Path) -> str:
    """Write a trace and return a line that says so."""
    from moeopt.sim.traces.readers.topk_npz import save_trace

    if out.suffix != ".npz":
        raise InputError(f"--out: {out} must end in .npz")
    save_trace(trace, out)
    _, _, top_k = trace.topk_ids.shape
    sequences = "" if trace.seq_len is None else f", {len(trace.seq_len)} sequences"
    return f"{out}: {trace.tokens} tokens, {trace.layers} layers, top-{top_k}{sequences}"
