"""``moeopt report``: a store as a page in the browser while a campaign fills it."""

import json
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moeopt.core.errors import InputError

from .options import Json

if TYPE_CHECKING:
    from moeopt.study.attempt import Watch
    from moeopt.study.live import Server
    from moeopt.study.rows import Row
    from moeopt.study.store import Store


def report_command(
    stores: Annotated[list[Path], typer.Argument(help="Stores of campaigns.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write the report and gap.csv into a folder.")
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Show the stores in a browser, until Ctrl-C.")
    ] = False,
    port: Annotated[int, typer.Option(help="Of --serve; 0: any that is free.")] = 0,
    as_json: Json = False,
) -> int:
    """Write the report of a store, or show stores live: read-only, on the loopback address."""
    from moeopt.study.schema import is_writable
    from moeopt.study.store import Store

    if (out is None) == (not serve):
        raise InputError("either --out DIR or --serve is needed")
    if out is None:
        from moeopt.study.live import Server

        with Server(stores, port=port) as server:
            _announce(server)
            server.serve_forever()
        return 0
    if len(stores) != 1:
        raise InputError("--out: takes one store")
    with Store(stores[0], create=False, read_only=not is_writable(stores[0])) as store:
        command = shlex.join(["moeopt", "report", str(stores[0]), "--out", str(out)])
        rows = store.rows()
        write_report(rows, store, out, command)
    if as_json:
        files = [str(path) for name in ("index.html", "gap.csv") if (path := out / name).exists()]
        print(json.dumps({"store": str(stores[0]), "solves": len(rows), "files": files}))
    return 0


def shown_live(store: Path, shown: "Watch") -> "Watch":
    """Serve a campaign's store until the command ends, and return what is to be told of it."""
    from moeopt.study.live import Live, Server
    from moeopt.study.store import Store

    Store(store).close()
    live = Live(shown)
    server = Server([store], live)
    _announce(server)
    server.in_background()
    return live


def _announce(server: "Server") -> None:
    print(f"moeopt: {server.url}", file=sys.stderr, flush=True)


def write_report(
    rows: "Sequence[Row]",
    kept: "Path | Store",
    folder: Path,
    command: str,
    settled: "Mapping[tuple[str, str], str] | None" = None,
) -> None:
    """Write a report on rows into a folder, which is made if need be.

    Parameters
    ----------
    kept
        The store that the rows come from.
    command
        What makes the report again, which it names.
    settled
        Median excess over settlements, if it is known.

    Raises
    ------
    InputError
        If a file cannot be written.
    """
    from moeopt.core.json_files import write_bytes
    from moeopt.study.export import to_csv
    from moeopt.study.report.write import FILE, missing
    from moeopt.study.report.write import write_report as write_html

    if folder.exists() and not folder.is_dir():
        raise InputError(f"--report: {folder} is a file: must be a folder")
    with _made("--report", folder):
        write_bytes(to_csv(rows).encode(), folder / "gap.csv")
        if absent := missing():
            print(
                f"moeopt: note: {folder / FILE} needs {' and '.join(absent)}: "
                "pip install 'moeopt[report]'",
                file=sys.stderr,
            )
            return
        with opened(kept) as store:
            write_html(rows, store, folder, command, settled)


@contextmanager
def _made(flag: str, folder: Path) -> Iterator[None]:
    """Make a folder, and tell why it cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise InputError(f"{flag}: {folder}: {error.strerror}") from None


def need_extra(option: str) -> None:
    """Refuse an option before anything is solved if its extra is not installed.

    Raises
    ------
    InputError
        If a package is missing.
    """
    from moeopt.study.report.write import missing

    if absent := missing():
        raise InputError(f"{option}: needs {' and '.join(absent)}: pip install 'moeopt[report]'")


def write_figures(rows: "Sequence[Row]", kept: "Path | Store", folder: Path) -> None:
    """Write the report's figures into a folder, which is made if need be.

    Raises
    ------
    InputError
        If a file cannot be written.
    """
    from moeopt.study.report.write import write_figures as write_all

    with _made("--figures", folder), opened(kept) as store:
        write_all(rows, store, folder)


def opened(kept: "Path | Store") -> "AbstractContextManager[Store]":
    """Return a store that is left as it was: closed if it was a file."""
    from moeopt.study.store import Store

    return nullcontext(kept) if isinstance(kept, Store) else Store(kept, create=False)
