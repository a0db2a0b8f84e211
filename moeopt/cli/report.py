"""``moeopt report``: the report of a campaign's store."""

import shlex
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from moeopt.core.errors import InputError

from .options import Json, command, print_json

if TYPE_CHECKING:
    import pandas as pd

    from moeopt.study.store import Store


@command
def report_command(
    store: Annotated[Path, Parameter(help="A campaign's store.")],
    /,
    *,
    out: Annotated[
        Path,
        Parameter(metavar="DIR", help="Folder for index.html and gap.csv."),
    ],
    as_json: Json = False,
) -> int:
    """Write the report of a store: a page that sorts and filters, and every number as CSV."""
    from moeopt.study.schema import is_writable
    from moeopt.study.store import Store

    with Store(store, create=False, read_only=not is_writable(store)) as kept:
        command = shlex.join(["moeopt", "report", str(store), "--out", str(out)])
        solves = kept.frame()
        write_report(solves, kept, out, command)
    if as_json:
        files = [str(path) for name in ("index.html", "gap.csv") if (path := out / name).exists()]
        print_json({"store": str(store), "solves": len(solves), "files": files})
    return 0


def write_report(
    solves: "pd.DataFrame",
    kept: "Path | Store",
    folder: Path,
    command: str,
    assumed: "Mapping[tuple[str, str], str] | None" = None,
) -> None:
    """Write a report on solves into a folder, which is made if need be.

    Parameters
    ----------
    kept
        The store that the solves come from.
    command
        What makes the report again, which it names.
    assumed
        Median excess over assumptions, if it is known.

    Raises
    ------
    InputError
        If a file cannot be written.
    """
    from moeopt.core.json_files import write_bytes
    from moeopt.core.wording import package
    from moeopt.study.export import to_csv
    from moeopt.study.report.write import FILE, missing
    from moeopt.study.report.write import write_report as write_html

    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: must be a folder", field="--report")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}", field="--report") from None
    write_bytes(to_csv(solves).encode(), folder / "gap.csv")
    if absent := missing():
        print(
            f"moeopt: note: {folder / FILE} needs {' and '.join(map(package, absent))}",
            file=sys.stderr,
        )
        return
    with opened(kept) as store:
        write_html(solves, store, folder, command, assumed)


def opened(kept: "Path | Store") -> "AbstractContextManager[Store]":
    """Return a store that is left as it was: closed if it was a file."""
    from moeopt.study.store import Store

    return nullcontext(kept) if isinstance(kept, Store) else Store(kept, create=False)
