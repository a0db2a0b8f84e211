"""``moeopt report``: a store as a page in the browser while a campaign fills it."""

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moeopt.cli.options import Json
from moeopt.core.errors import InputError

if TYPE_CHECKING:
    from moeopt.study.execute import Watch
    from moeopt.study.live import Server


def report_command(
    stores: Annotated[list[Path], typer.Argument(help="Stores of campaigns.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Write the report and gap.csv into a folder."),
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Show the stores in a browser, until Ctrl-C.")
    ] = False,
    port: Annotated[int, typer.Option("--port", help="Of --serve; 0: any that is free.")] = 0,
    as_json: Json = False,
) -> int:
    """Write the report of a store, or show stores live: read-only, on the loopback address."""
    from moeopt.cli.gap_report import write_report
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
