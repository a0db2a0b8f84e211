"""The report of stores in a browser, made anew when a store has changed, and what runs meanwhile.

The server only reads, and only for this machine. A page elsewhere could point a name of its own at
127.0.0.1 and read what the server says (DNS rebinding), so that requests are answered only if they
name this address or localhost. Connections are bounded in number and time: the one that has waited
longest to say what it wants gives way to the next.
"""

import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import monotonic

from moeopt.core.errors import InputError
from moeopt.core.objective import Objective
from moeopt.solvers.result import Result
from moeopt.study.attempt import Failure, Watch
from moeopt.study.plan import Job, Key
from moeopt.study.report.study import Study
from moeopt.study.report.write import missing, policy, to_html
from moeopt.study.store import Store

ADDRESS = "127.0.0.1"
NAMES = (ADDRESS, "localhost")

MOST_CONNECTIONS = 32
MOST_SECONDS_TO_ASK, MOST_SECONDS = 10.0, 120.0
"""How long a request may take to arrive, and to be answered."""

REFRESH_S = 30
"""A page of a campaign that runs is read again so often at most."""

SPARING = 20
"""Of a campaign's time at most one part in so many goes into its page."""

PATIENCE_S = 0.5
"""For so long a reader waits for a page; then it is the one before, or a word that it is made."""

MOST_RUNNING = 16
"""So many running solves are named."""


@dataclass(frozen=True)
class Running:
    """One solve that was started; `objective` and `bound` are None until they are known."""

    instance: str
    method: str
    began: float
    objective: Objective | None = None
    bound: Objective | None = None

    def said(self, now: float) -> str:
        """Return it in words."""
        known = (("best", self.objective), ("bound", self.bound))
        words = "".join(f", {name} {value}" for name, value in known if value is not None)
        return f"{self.instance} by {self.method} ({now - self.began:.0f} s{words})"


class Live(Watch):
    """Keeps what runs for readers in other threads, and tells another watch everything.

    Parameters
    ----------
    other
        What is told besides, e.g. the progress on a terminal.
    """

    def __init__(self, other: Watch) -> None:
        self._other = other
        self._lock = threading.Lock()
        self._running: dict[Key, Running] = {}
        self._total = self._done = self._failed = 0
        self._began = monotonic()

    def said(self) -> str:
        """Return how far the campaign is, and what runs, in words."""
        now = monotonic()
        with self._lock:
            running = list(self._running.values())[:MOST_RUNNING]
            counts = f"{self._done} of {self._total} solves done, {self._failed} failed"
            since = f"{now - self._began:.0f} s"
        solves = "; ".join(one.said(now) for one in running)
        return f"{counts}, after {since}." + (f" Running: {solves}." if solves else "")

    def planned(self, total: int, stored: int) -> None:
        """Start counting."""
        with self._lock:
            self._total, self._done, self._began = total, stored, monotonic()
        self._other.planned(total, stored)

    def spared(self, solves: int, doubts: Sequence[str]) -> None:
        """Pass it on."""
        self._other.spared(solves, doubts)

    def started(self, job: Job) -> None:
        """Keep the solve until it ends."""
        with self._lock:
            self._running[job.key] = Running(job.instance.name, job.key.method, monotonic())
        self._other.started(job)

    def improved(
        self, job: Job, seconds: float, objective: Objective | None, bound: Objective | None
    ) -> None:
        """Keep its incumbent and bound."""
        with self._lock:
            if (one := self._running.get(job.key)) is not None:
                self._running[job.key] = replace(one, objective=objective, bound=bound)
        self._other.improved(job, seconds, objective, bound)

    def solved(self, job: Job, result: Result) -> None:
        """Count it."""
        self._end(job)
        self._other.solved(job, result)

    def failed(self, job: Job, failure: Failure) -> None:
        """Count it."""
        self._end(job, failed=1)
        self._other.failed(job, failure)

    def skipped(self, job: Job) -> None:
        """Count it."""
        self._end(job)
        self._other.skipped(job)

    def interrupted(self) -> None:
        """Pass it on."""
        self._other.interrupted()

    def _end(self, job: Job, failed: int = 0) -> None:
        with self._lock:
            self._running.pop(job.key, None)
            self._done += 1
            self._failed += failed


@dataclass
class Page:
    """The report of one store as it was last made.

    Attributes
    ----------
    store
        The file; it is not written to, and not locked.
    live
        The campaign that fills it, if it runs in this process.
    """

    store: Path
    live: Live | None = None
    _made: str | None = None
    _of: tuple[object, ...] = ()
    _seconds: float = 0.0
    _error: InputError | None = None
    _making: threading.Thread | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def text(self) -> str:
        """Return the report, made anew if the store has changed since.

        One thread makes it. Where that takes longer than a reader waits, the report made before is
        returned, or a page that says so and reads itself again.

        Raises
        ------
        InputError
            If the store could not be read.
        """
        with self._lock:
            if self._making is None and (self._made is None or self._of != self._state()):
                self._making = threading.Thread(target=self._make_apart, daemon=True)
                self._making.start()
            making = self._making
        if making is not None:
            making.join(PATIENCE_S)
        if self._error is not None:
            raise self._error
        return _waiting(self.store) if self._made is None else self._made

    def _make_apart(self) -> None:
        error: InputError | None = InputError(f"{self.store}: its report could not be made")
        try:
            self._make()
            error = None
        except InputError as found:
            error = found
        finally:
            with self._lock:
                self._making, self._error = None, error
                if error is not None:
                    self._of = ()  # the next reader tries again

    def _make(self) -> None:
        began, self._of = monotonic(), self._state()
        with Store(self.store, read_only=True) as store:
            study = Study.of(store.rows(), store, "")
        if self.live is None:
            self._made = to_html(study)
        else:
            refresh = int(max(REFRESH_S, SPARING * self._seconds))
            self._made = to_html(study, self.live.said(), refresh)
        self._seconds = monotonic() - began

    def _state(self) -> tuple[object, ...]:
        """Return what changes with the store, and with time where a campaign runs."""
        parts = [self.store, self.store.with_name(f"{self.store.name}-wal")]
        stats = [part.stat() for part in parts if part.exists()]
        turn = self.live and int(monotonic() / max(REFRESH_S, SPARING * self._seconds))
        return (turn, *((stat.st_mtime_ns, stat.st_size) for stat in stats))


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
        If a store cannot be read, the port is taken, or what a report needs is not installed.
    """

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, stores: Sequence[Path], live: Live | None = None, port: int = 0) -> None:
        if absent := missing():
            raise InputError(f"needs {' and '.join(absent)}: pip install 'moeopt[report]'")
        for path in stores:
            Store(path, read_only=True).close()
        self.pages = [Page(path, None if at else live) for at, path in enumerate(stores)]
        self._until: dict[socket.socket, float] = {}  # when each connection is ended at the latest
        self._lock = threading.Lock()
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

    def verify_request(self, request: object, client_address: object) -> bool:
        """Make room for a connection: the one with the least time left is ended, who asks first."""
        if isinstance(request, socket.socket):
            with self._lock:
                if len(self._until) >= MOST_CONNECTIONS:
                    first = min(self._until, key=self._until.__getitem__)
                    del self._until[first]
                    _end(first)
                self._until[request] = monotonic() + MOST_SECONDS_TO_ASK
        return True

    def heard(self, request: socket.socket) -> None:
        """Give a connection whose request has arrived the time for an answer."""
        with self._lock:
            self._until[request] = monotonic() + MOST_SECONDS

    def service_actions(self) -> None:
        """End what takes too long; called twice a second."""
        now = monotonic()
        with self._lock:
            for connection, until in self._until.items():
                if now > until:
                    _end(connection)

    def shutdown_request(self, request: object) -> None:
        """Forget a connection, and close it."""
        if isinstance(request, socket.socket):
            with self._lock:
                self._until.pop(request, None)
            super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing on the terminal of a connection that broke."""


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD; everything else is refused."""

    server: Server
    server_version, sys_version = "moeopt", ""
    timeout = MOST_SECONDS_TO_ASK
    default_request_version = "HTTP/1.0"  # by default a reply to what names none has no headers

    def do_GET(self) -> None:
        """Answer a request."""
        self.server.heard(self.connection)
        status, kind, text = self._answer()
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - the name that the standard library calls

    def end_headers(self) -> None:
        """Add to every reply, errors included, what a browser may do with it."""
        self.send_header("Content-Security-Policy", policy())
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing on the terminal."""

    def _answer(self) -> tuple[HTTPStatus, str, str]:
        port, pages = self.server.server_port, self.server.pages
        if self.headers.get("Host", "") not in [f"{name}:{port}" for name in NAMES]:
            return _problem(HTTPStatus.FORBIDDEN, "only for this machine, by its own address")
        numbers = {f"/{at}": at for at in range(len(pages))}
        try:
            if self.path == "/" and len(pages) > 1:
                return HTTPStatus.OK, "text/html", _contents(pages)
            if self.path == "/" or self.path in numbers:
                return HTTPStatus.OK, "text/html", pages[numbers.get(self.path, 0)].text()
        except InputError as error:
            return _problem(HTTPStatus.NOT_FOUND, str(error))
        return _problem(HTTPStatus.NOT_FOUND, "there is no such page")


def _waiting(store: Path) -> str:
    """Return a page that stands for one that is made for the first time."""
    what = f"The report of {escape(str(store))} is being made; this page reads itself again."
    return _page(f"<h1>moeopt</h1><p>{what}</p>", '<meta http-equiv="refresh" content="2">')


def _contents(pages: Sequence[Page]) -> str:
    """Return a page that names several stores."""
    items = "".join(
        f'<li><a href="/{at}">{escape(str(page.store))}</a></li>' for at, page in enumerate(pages)
    )
    return _page(f"<h1>Campaigns</h1><ul>{items}</ul>")


def _page(body: str, head: str = "") -> str:
    head = f'<meta charset="utf-8"><title>moeopt</title>{head}'
    html = f"<head>{head}</head><body><main>{body}</main></body>"
    return f'<!doctype html><html lang="en">{html}</html>'


def _problem(status: HTTPStatus, reason: str) -> tuple[HTTPStatus, str, str]:
    return status, "text/plain", f"{reason}\n"


def _end(connection: socket.socket) -> None:
    """Let whoever reads or writes a connection come to an end."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # it has ended by itself
        return
