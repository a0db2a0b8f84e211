"""``moeopt gap``: methods against the optimum, as tables, CSV and Parquet."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from moeopt.cli.campaign import (
    REPORT,
    CampaignOptions,
    campaign_of,
    command_line,
    refuse,
    solved,
)
from moeopt.cli.options import command, given, print_json
from moeopt.cli.report import write_report
from moeopt.core.errors import InputError
from moeopt.core.options import option

if TYPE_CHECKING:
    import pandas as pd

    from moeopt.study.store import Store


@dataclass(frozen=True, kw_only=True)
class GapOptions(CampaignOptions):
    """Options of ``moeopt gap``."""

    group = "Output"

    store: Path | None = option(
        None, "Keep every result in this file.", metavar="FILE", group="Campaign"
    )
    report: Path | None = option(None, REPORT, metavar="DIR")
    csv: Path | None = option(None, "Every number, as CSV.", metavar="FILE")
    parquet: Path | None = option(None, "Every number, as Parquet.", metavar="FILE")
    by: str | None = option(
        None, "Split families in the printed tables by a fact, such as batch.", metavar="FACT"
    )
    markdown: bool = option(False, "Print the summary as Markdown, without times.")
    instances: bool = option(False, "Print also each instance and each family.")
    held_out: bool = option(
        False, "Print also what decisions cost on test loads, where train instances have some."
    )
    as_json: bool = option(False, "Print one JSON object per solve (docs/json.md).", flag="--json")


@command
def gap_command(
    paths: Annotated[
        list[Path] | None,
        Parameter(help="Instance files or folders; or one campaign (.toml, .json)."),
    ] = None,
    /,
    *,
    options: GapOptions,
) -> int:
    """Print how far methods are above the optimum, per instance and per family."""
    from moeopt.study.store import Store

    if options.as_json:
        shown = {"--by": options.by, "--markdown": options.markdown}
        shown |= {"--instances": options.instances, "--held-out": options.held_out}
        for flag in (flag for flag, value in shown.items() if value):
            raise InputError("cannot be combined with --json, which has every solve", field=flag)
    if options.resume and options.store is None:
        raise InputError("needs --store, the file to go on with", field="--resume")
    with Store() as memory:
        kept = options.store or memory
        if paths:
            rows, code = solved(campaign_of(paths, options), kept, options)
        elif options.store is not None:
            refuse(given(options, CampaignOptions), "without paths the store decides that")
            with Store(options.store, create=False) as store:
                rows, code = store.frame(), 0
        else:
            raise InputError("PATHS: is missing: instances, a campaign, or --store FILE")
        if options.report is not None:
            write_report(rows, kept, options.report, command_line("gap", paths, options))
        _write(rows, options)
        _print(rows, kept, options)
    return code


def _write(solves: "pd.DataFrame", options: GapOptions) -> None:
    from moeopt.study.export import export_csv, export_parquet

    if options.csv is not None:
        export_csv(solves, options.csv)
    if options.parquet is not None:
        export_parquet(solves, options.parquet)


def _print(solves: "pd.DataFrame", kept: "Path | Store", options: GapOptions) -> None:
    from moeopt.cli.gap_tables import print_later, print_tables
    from moeopt.study.export import records
    from moeopt.study.table import front_markdown, split_by, standings, summarise, to_markdown

    if options.as_json:
        for record in records(solves):
            print_json(record)
        return
    unknown: InputError | None = None
    if options.by is not None:
        try:
            solves = split_by(solves, options.by)
        except InputError as error:  # what was solved is printed all the same
            unknown = error
    if not options.markdown:
        print_tables(solves, everything=options.instances)
    else:
        if solves.problem.nunique() > 1:
            print(front_markdown(standings(solves)))
        print(to_markdown(summarise(solves)), end="")
    if options.held_out:
        print_later(solves, kept, options.markdown)
    if unknown is not None:
        raise unknown
