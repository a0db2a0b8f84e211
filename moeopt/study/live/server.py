"""A web server on the loopback address that shows stores: it only reads, and only for this machine.

A page elsewhere could point a name of its own at 127.0.0.1 and read what the server says (DNS
rebinding), so that requests are answered only if they name this address or localhost.
"""

import hashlib
import html
import json
import threading
from base64 import b64encode
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from moeopt.core.errors import InputError
from moeopt.problems.critical_lanes import critical_lanes
from moeopt.study.live.running import Live
from moeopt.study.live.stored import need_store, rows_after, schedule_of

ADDRESS = "127.0.0.1"
NAMES = (ADDRESS, "localhost")
LARGEST_NUMBER = 2**62

HERE = Path(__file__).parent

STYLE = """
:root { --ink: #1d2733; --soft: #5a6675; --paper: #fff; --line: #d5dbe1; --link: #1f5fa8; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e9ee; --soft: #a3afbb; --paper: #14191f; --line: #36414c; --link: #8cbcf2; }
  svg { filter: invert(1) hue-rotate(180deg); }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 80rem; padding: 0 1rem 3rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin: 1.6rem 0 .3rem; }
a { color: var(--link); } .soft { color: var(--soft); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
progress { width: 100%; height: 1rem; accent-color: var(--link); }
label, input, select { font: inherit; color: inherit; }
input, select { background: var(--paper); border: 1px solid var(--soft); border-radius: .3rem;
  padding: .3rem .5rem; max-width: 100%; }
.controls { display: flex; flex-wrap: wrap; gap: .3rem .8rem; align-items: baseline; }
.box { overflow-x: auto; } svg { display: block; width: 100%; min-width: 40rem; height: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .55rem; text-align: right;
  white-space: nowrap; }
th:first-child { text-align: left; } th { font-weight: normal; }
thead th { color: var(--soft); border-bottom: 2px solid var(--line); }
"""

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{title}</title><style>{style}</style></head>
<body><main>{body}</main></body></html>
"""

CAMPAIGN = """<h1>{title}</h1>
<progress id="progress" aria-label="solves done"></progress>
<p id="said" role="status">Reading the store</p>
<div class="controls"><label for="family">Family</label><select id="family"><option value="">all
</option></select><label for="filter">Filter</label>
<input id="filter" type="search" placeholder="instance or method" autocomplete="off"></div>
<section id="running" hidden><h2>Running</h2>
<div class="box" role="region" tabindex="0" aria-label="Running solves"><table><thead><tr>
<th scope="col">instance</th><th scope="col">method</th><th scope="col">seconds</th>
<th scope="col">incumbent</th><th scope="col">bound</th></tr></thead><tbody></tbody></table></div>
</section>
<h2>Excess over proven optima</h2>
<div class="box" role="region" tabindex="0" aria-label="Excess by method"><table id="methods">
<thead><tr><th scope="col">problem and method</th><th scope="col">solves</th>
<th scope="col">compared</th><th scope="col">median</th><th scope="col">max</th>
<th scope="col">optimal</th></tr></thead><tbody></tbody></table></div>
<h2>Latest results</h2>
<div class="box" role="region" tabindex="0" aria-label="Latest results"><table id="latest">
<thead><tr><th scope="col">instance</th><th scope="col">family</th><th scope="col">method</th>
<th scope="col">status</th><th scope="col">objective</th><th scope="col">bound</th>
<th scope="col">excess</th><th scope="col">seconds</th><th scope="col">schedule</th></tr></thead>
<tbody></tbody></table></div>
<noscript><p>This page needs its script; <code>moeopt gap --store FILE --report DIR</code> makes one
that does not.</p></noscript>
<script>{script}</script>"""


class Server(ThreadingHTTPServer):
    """Serves stores until it is closed; `url` says where.

    Parameters
    ----------
    stores
        Each has a page of its own; the first one's solves may be running.
    live
        What the first store's campaign is doing, if it runs in this process.
    port
        0: any that is free.

    Raises
    ------
    InputError
        If a store cannot be read, or the port is taken.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, stores: Sequence[Path], live: Live | None = None, port: int = 0) -> None:
        for path in stores:
            need_store(path)
        self.stores = list(stores)
        self.live = live
        self.drawing = threading.Lock()
        self.script = (HERE / "live.js").read_text(encoding="utf-8")
        try:
            super().__init__((ADDRESS, port), Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or "must be from 0 to 65535"
            raise InputError(f"--port: {port}: {reason}") from None

    @property
    def url(self) -> str:
        """The address of the first page."""
        return f"http://{ADDRESS}:{self.server_port}/"

    def in_background(self) -> None:
        """Serve in a thread of its own, which ends with the process."""
        threading.Thread(target=self.serve_forever, daemon=True, name="moeopt live view").start()


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD; everything else is refused."""

    server: Server
    server_version, sys_version = "moeopt", ""
    timeout = 30.0

    def do_GET(self) -> None:
        """Answer a request."""
        status, kind, text = self._answer()
        body = text.encode()
        self.send_response(status)
        for name, value in self._headers(kind, len(body)).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - the name that the standard library calls

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing on the terminal."""

    def _headers(self, kind: str, length: int) -> Mapping[str, str]:
        digest = b64encode(hashlib.sha256(self.server.script.encode()).digest()).decode()
        policy = (
            "default-src 'none'; style-src 'unsafe-inline'; connect-src 'self'; "
            f"script-src 'sha256-{digest}'; frame-ancestors 'none'; base-uri 'none'"
        )
        return {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(length),
            "Content-Security-Policy": policy,
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
        }

    def _answer(self) -> tuple[HTTPStatus, str, str]:
        try:
            if not self._is_for_us():
                return _problem(HTTPStatus.FORBIDDEN, "only for this machine, by its own address")
            where = urlsplit(self.path)
            match [part for part in where.path.split("/") if part]:
                case []:
                    return self._home()
                case [store]:
                    return self._campaign(self._store(store))
                case [store, "results"]:
                    after = _number(parse_qs(where.query).get("after", ["0"])[0])
                    return self._results(self._store(store), after)
                case [store, "schedule", number]:
                    return self._schedule(self._store(store), _number(number))
        except (InputError, ValueError) as error:
            return _problem(HTTPStatus.NOT_FOUND, str(error))
        return _problem(HTTPStatus.NOT_FOUND, "there is no such page")

    def _is_for_us(self) -> bool:
        port = self.server.server_port
        return self.headers.get("Host", "") in [f"{name}:{port}" for name in NAMES]

    def _store(self, number: str) -> int:
        at = _number(number)
        if at >= len(self.server.stores):
            raise InputError("there is no such store")
        return at

    def _home(self) -> tuple[HTTPStatus, str, str]:
        if len(self.server.stores) == 1:
            return self._campaign(0)
        items = "".join(
            f'<li><a href="/{at}">{html.escape(str(path))}</a></li>'
            for at, path in enumerate(self.server.stores)
        )
        return _page("moeopt: campaigns", f"<h1>Campaigns</h1><ul>{items}</ul>")

    def _campaign(self, at: int) -> tuple[HTTPStatus, str, str]:
        title = html.escape(self.server.stores[at].name)
        script = self.server.script
        return _page(f"moeopt: {title}", CAMPAIGN.format(title=title, script=script))

    def _results(self, at: int, after: int) -> tuple[HTTPStatus, str, str]:
        found = rows_after(self.server.stores[at], after)
        live = self.server.live if at == 0 else None
        found["campaign"] = None if live is None else live.snapshot()
        return HTTPStatus.OK, "application/json", json.dumps(found)

    def _schedule(self, at: int, number: int) -> tuple[HTTPStatus, str, str]:
        title, instance, solution = schedule_of(self.server.stores[at], number)
        drawn = critical_lanes(instance, solution)
        title = html.escape(title)
        back = f'<p><a href="/{at}">Back to the campaign</a></p>'
        if drawn is None:
            picture = "<p>Solutions of this problem are not schedules.</p>"
        else:
            with self.server.drawing:
                picture = _svg(title, drawn)
        return _page(f"moeopt: {title}", f"<h1>{title}</h1>{back}{picture}")


def _svg(title: str, drawn: Any) -> str:
    """Return a schedule as an element, or what is missing to draw it."""
    try:
        from moeopt.study.pictures import Panel, draw_gantt
        from moeopt.study.report.svg import inline
    except ModuleNotFoundError:
        return "<p>Pictures need matplotlib, the extra <code>report</code>.</p>"
    panel = Panel("", drawn.lanes, drawn.caption)
    picture = inline(lambda: draw_gantt([panel]), "schedule", title, drawn.caption)
    label = 'role="region" tabindex="0" aria-label="Schedule, scrolls sideways"'
    return (
        f'<div class="box" {label}>{picture}</div><p class="soft">{html.escape(drawn.caption)}</p>'
    )


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text[:20]) > LARGEST_NUMBER:
        raise InputError("must be a number")
    return int(text)


def _page(title: str, body: str) -> tuple[HTTPStatus, str, str]:
    return HTTPStatus.OK, "text/html", PAGE.format(title=title, style=STYLE, body=body)


def _problem(status: HTTPStatus, reason: str) -> tuple[HTTPStatus, str, str]:
    return status, "text/plain", f"{reason}\n"
