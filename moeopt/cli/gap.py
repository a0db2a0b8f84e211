"""``moeopt gap``: methods against the optimum, as tables, CSV and Parquet."""

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from moeopt.cli.options import Workers

if TYPE_CHECKING:
    from moeopt.study.campaign import Campaign
    from moeopt.study.rows import Row
    from moeopt.study.store import Store

T = TypeVar("T", int, float)

COMMA = re.compile(r",(?![^\[]*\])")
"""A comma between methods, not one between the settlements in a method's brackets."""

DONE = 0


def gap_command(
    ctx: typer.Context,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Instance files or folders; or one campaign (.toml, .json)."),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            "--methods",
            help="Comma-separated names, `heuristics`, `published` (the rule of the problem's "
            "paper), `exact`, or rules as in --with; default: every heuristic.",
        ),
    ] = None,
    rules: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="RULE",
            help="A heuristic of one's own beside the methods: FILE.py:function or "
            "package.module:function; repeatable.",
        ),
    ] = None,
    time_limit: Annotated[
        str | None,
        typer.Option(
            "--time-limit",
            metavar="S[,S]",
            help="Seconds for each solve; default: 60, or none with --work-limit.",
        ),
    ] = None,
    work_limit: Annotated[
        str | None,
        typer.Option(
            "--work-limit",
            metavar="W[,W]",
            help="Units of work for each solve, each about a second of one core: the same table "
            "on every machine.",
        ),
    ] = None,
    seed: Annotated[
        str, typer.Option("--seed", metavar="N[,N]", help="Seeds; every method runs with each.")
    ] = "0",
    workers: Workers = 1,
    jobs: Annotated[
        int, typer.Option("--jobs", metavar="N", help="Solves at once, each in a process.")
    ] = 1,
    executor: Annotated[
        str | None,
        typer.Option("--executor", metavar="dask://HOST:PORT", help="Solve on a Dask cluster."),
    ] = None,
    store: Annotated[
        Path | None, typer.Option("--store", metavar="FILE", help="Keep every result in this file.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Do not repeat what the store has already.")
    ] = False,
    prove_again: Annotated[
        bool,
        typer.Option(
            "--prove-again",
            help="Run exact methods also where best_known.json of the instance's library has the "
            "proof.",
        ),
    ] = False,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="DIR",
            help="Folder for gap.csv and, with the extra `report`, index.html; without the extra "
            "a note on stderr says so, and the exit code stays.",
        ),
    ] = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Every number, as CSV.")
    ] = None,
    parquet: Annotated[
        Path | None, typer.Option("--parquet", metavar="FILE", help="Every number, as Parquet.")
    ] = None,
    latex: Annotated[
        Path | None,
        typer.Option("--latex", metavar="FILE", help="The summary as a LaTeX table (booktabs)."),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(
            "--figures", metavar="DIR", help="The report's figures, as PDF and SVG files."
        ),
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the summary as Markdown, without times.")
    ] = False,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Show the store in a browser while it fills; see `report`."),
    ] = False,
    held_out: Annotated[
        bool,
        typer.Option(
            "--held-out",
            help="Print also what decisions cost on later loads, where instances have later twins.",
        ),
    ] = False,
    settlements: Annotated[
        bool,
        typer.Option(
            "--settlements",
            help="Instead: excess under every reading of what the papers leave open, one at a "
            "time; --methods takes heuristics.",
        ),
    ] = False,
    all_settlements: Annotated[
        bool,
        typer.Option(
            "--settlements-all",
            help="Also `--settlements all`: all settlements at once, on a grid; worst and best.",
        ),
    ] = False,
    points: Annotated[
        int, typer.Option("--points", metavar="N", help="Of that grid, at most; random ones.")
    ] = 64,
    traces: Annotated[
        Path | None,
        typer.Option(
            "--traces",
            metavar="DIR",
            help="With --settlements: the instances' traces, for other batches of them.",
        ),
    ] = None,
) -> int:
    """Print how far methods are above the optimum, per instance and per family.

    With --store and no paths: of what the store holds.
    """
    from moeopt.cli.gap_report import command_of, need_extra, write_figures, write_report
    from moeopt.core.errors import InputError
    from moeopt.study.store import Store

    if resume and store is None:
        raise InputError("--resume: needs --store, the file to go on with")
    if watch and (store is None or not paths):
        raise InputError("--watch: needs --store, the file that is shown, and what is solved")
    if figures is not None:
        need_extra("--figures")
    if traces is not None and not (settlements or all_settlements):
        raise InputError("--traces: goes with --settlements")
    if all_settlements:
        from moeopt.cli.gap_settlements import JOINTLY, joint_command

        _refuse_others(ctx, JOINTLY, "--settlements all")
        seconds, work = _limits(time_limit, work_limit)
        return joint_command(
            paths or [],
            None if methods is None else [name.strip() for name in COMMA.split(methods)],
            points=points,
            time_limit_s=None if seconds is None else seconds[0],
            work_limit=None if work is None else work[0],
            jobs=jobs,
            traces=traces,
            csv=csv,
        )
    if settlements:
        from moeopt.cli.gap_settlements import SOLVING, settlements_command

        _refuse_others(ctx, SOLVING, "--settlements")
        chosen = None if methods is None else [name.strip() for name in COMMA.split(methods)]
        seconds, work = _limits(time_limit, work_limit)
        with Store() as memory:
            kept = store or memory
            readings, code = settlements_command(
                paths or [],
                chosen,
                None if seconds is None else seconds[0],
                None if work is None else work[0],
                store=kept,
                resume=resume,
                jobs=jobs,
                csv=csv,
                markdown=markdown,
                traces=traces,
            )
            if report is not None:
                from moeopt.study.settlements import spans

                given = _campaign(
                    ctx, paths or [], methods, [], (time_limit, work_limit), seed, workers
                )
                rows, _ = _run(given, kept, resume=True, jobs=jobs, executor=None, watch=False)
                write_report(rows, kept, report, command_of(ctx), spans(readings))
        return code
    with Store() as memory:
        kept = store or memory
        if paths:
            campaign = _campaign(
                ctx, paths, methods, rules or [], (time_limit, work_limit), seed, workers
            )
            campaign = campaign.proving_again() if prove_again else campaign
            rows, code = _run(campaign, kept, resume, jobs, executor, watch=watch)
        elif store is not None:
            rows, code = _stored(ctx, store), DONE
        else:
            raise InputError("Missing argument 'PATHS': instances, a campaign, or --store FILE")
        if report is not None:
            write_report(rows, kept, report, command_of(ctx))
        if figures is not None:
            write_figures(rows, kept, figures)
        _write(rows, csv, parquet, latex)
        _print(rows, markdown)
        if held_out:
            from moeopt.cli.gap_held_out import print_held_out

            print_held_out(rows, kept, markdown)
    return code


def _campaign(
    ctx: typer.Context,
    paths: Sequence[Path],
    methods: str | None,
    rules: Sequence[str],
    limits: tuple[str | None, str | None],
    seed: str,
    workers: int,
) -> "Campaign":
    """Return the campaign in a file, with the rules beside it, or the one of the options."""
    from moeopt.core.errors import InputError
    from moeopt.study.campaign import Campaign, Part, is_campaign, make_settings, read_campaign

    files = [path for path in paths if is_campaign(path)]
    if files:
        if len(paths) > 1:
            raise InputError(f"{files[0]}: a campaign goes alone, without other paths")
        _refuse(
            ctx,
            ("methods", "time_limit", "work_limit", "seed", "workers"),
            f"{files[0]}: the campaign decides that",
        )
        return read_campaign(files[0]).beside(rules)
    seconds, work = _limits(*limits)
    settings = make_settings(
        methods=None if methods is None else [name.strip() for name in COMMA.split(methods)],
        time_limits_s=seconds,
        work_limits=work,
        seeds=_numbers("--seed", seed, int),
        workers=workers,
        rules=rules,
    )
    return Campaign([Part(paths, settings)])


def _refuse_others(ctx: typer.Context, known: Sequence[str], who: str) -> None:
    """Refuse every option but those that are known."""
    _refuse(ctx, [name for name in ctx.params if name not in known], f"goes not with {who}")


def _refuse(ctx: typer.Context, options: Sequence[str], who: str) -> None:
    """Refuse options that would be overruled by what a file says."""
    from moeopt.cli.gap_report import flag
    from moeopt.core.errors import InputError

    for option in options:
        source = ctx.get_parameter_source(option)
        if source is not None and source.name == "COMMANDLINE":
            raise InputError(f"{flag(option)}: {who}")


def _limits(
    time_limit: str | None, work_limit: str | None
) -> tuple[list[float] | None, list[float] | None]:
    """Return what both options say, seconds and units of work."""
    seconds = None if time_limit is None else _numbers("--time-limit", time_limit, float)
    return seconds, None if work_limit is None else _numbers("--work-limit", work_limit, float)


def _numbers(option: str, text: str, number: Callable[[str], T]) -> list[T]:
    from moeopt.core.errors import InputError
    from moeopt.core.wording import shown

    try:
        return [number(part) for part in text.split(",")]
    except ValueError:
        raise InputError(
            f"{option}: must be numbers, separated by commas, not {shown(text)}"
        ) from None


def _run(
    campaign: "Campaign",
    store: "Path | Store",
    resume: bool,
    jobs: int,
    executor: str | None,
    *,
    watch: bool,
) -> tuple[list["Row"], int]:
    """Solve, and return the rows and the exit code: that of the gravest failure."""
    from moeopt.cli.campaign_progress import showing
    from moeopt.cli.report import shown_live
    from moeopt.study.pool import oversubscribed
    from moeopt.study.study import run_campaign

    warning = None if executor else oversubscribed(jobs, campaign.workers)
    if warning:
        print(f"moeopt: warning: {warning}", file=sys.stderr)
    with showing() as shown:
        told = shown_live(store, shown) if watch and isinstance(store, Path) else shown
        rows = run_campaign(
            campaign, store=store, resume=resume, jobs=jobs, executor=executor, watch=told
        )
    return rows, shown.exit_code


def _stored(ctx: typer.Context, path: Path) -> list["Row"]:
    from moeopt.study.store import Store

    others = (
        *("methods", "rules", "time_limit", "work_limit", "seed", "workers", "prove_again"),
        *("jobs", "executor", "resume"),
    )
    _refuse(ctx, others, "without paths the store decides that")
    with Store(path, create=False) as store:
        return store.rows()


def _write(
    rows: "Sequence[Row]", csv: Path | None, parquet: Path | None, latex: Path | None
) -> None:
    from moeopt.study.export import export_csv, export_latex, export_parquet

    if csv is not None:
        export_csv(rows, csv)
    if parquet is not None:
        export_parquet(rows, parquet)
    if latex is not None:
        export_latex(rows, latex)


def _print(rows: "Sequence[Row]", markdown: bool) -> None:
    if markdown:
        from moeopt.study.table import front_markdown, standings, summarise, to_markdown

        if len({row.result.problem for row in rows}) > 1:
            print(front_markdown(standings(rows)))
        print(to_markdown(summarise(rows)), end="")
    else:
        from moeopt.cli.gap_tables import print_tables

        print_tables(rows)
