"""The live view: read-only, on this machine, what the store holds and what runs."""

import http.client
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import moeopt
from moeopt import InputError
from tests.problems.tri_domain.random_instances import random_instance
from tests.rooms.cli import run
from tests.rooms.study import (
    MOST_CONNECTIONS,
    Campaign,
    Failure,
    Live,
    Page,
    Part,
    Server,
    Store,
    Study,
    Watch,
    live,
    make_plan,
    make_settings,
    to_html,
)
from tests.study.html_read import read_html

EVIL = "<img src=x>"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of two instances, one of them with a name that is no HTML."""
    path = tmp_path_factory.mktemp("live") / "a.db"
    named = random_instance(1).model_copy(update={"name": EVIL})
    with Store(path) as kept:
        moeopt.gap([random_instance(0), named], ["greedy", "threshold"], store=kept)
    return path


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers wait for the report, on a busy machine too."""
    monkeypatch.setattr(live, "PATIENCE_S", 3600.0)


@pytest.fixture
def server(store: Path) -> Iterator[Server]:
    """Return a server of that store."""
    with Server([store]) as served:
        served.in_background()
        yield served
        served.shutdown()


def ask(
    server: Server, path: str, host: str | None = None, method: str = "GET"
) -> tuple[int, dict[str, str], str]:
    """Return status, headers and text of an answer; `host` is whom the request names."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=600)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host or f"127.0.0.1:{server.server_port}")
    connection.endheaders()
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, dict(answer.getheaders()), text


def test_the_page_is_the_report(server: Server, store: Path) -> None:
    """Word for word, but for the command and the file of numbers that stand beside a report."""
    with Store(store) as kept:
        report = to_html(Study.of(kept.rows(), kept, ""))
    assert ask(server, "/")[2] == report


def test_it_is_made_anew_when_the_store_has_changed(tmp_path: Path) -> None:
    """Once a state: who asks again gets the same page; a result more is in the next one."""
    path = tmp_path / "a.db"
    instance = random_instance(0)
    with Store(path) as kept:
        moeopt.gap([instance], ["greedy"], store=kept)
        page = Page(path)
        first = page.text()
        assert page.text() is first
        moeopt.gap([random_instance(2)], ["greedy"], store=kept)
        assert first != page.text() == to_html(Study.of(kept.rows(), kept, ""))


def test_a_report_that_takes_long_is_waited_for_by_a_page(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads itself again until the report is there; a store that goes is a line."""
    go_on, pages = threading.Event(), iter(["first", "second"])
    monkeypatch.setattr(live, "to_html", lambda *_: next(pages) if go_on.wait() else "")
    monkeypatch.setattr(live, "PATIENCE_S", 0.0)
    page = Page(store)
    assert 'http-equiv="refresh"' in page.text()
    assert "is being made" in page.text()
    go_on.set()
    monkeypatch.setattr(live, "PATIENCE_S", 3600.0)
    assert [page.text(), page.text()] == ["first", "first"]
    page.store = store.with_name("gone.db")
    for _ in range(2):
        with pytest.raises(InputError, match=r"gone\.db"):
            page.text()
    page.store = store
    assert page.text() == "second"


def answering() -> int:
    """Return how many threads answer."""
    return sum("process_request" in thread.name for thread in threading.enumerate())


def test_slow_connections_give_way(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred that say nothing: a reader has the page, the first of them are ended."""
    for name in ("MOST_SECONDS_TO_ASK", "MOST_SECONDS"):  # not by their time, but by their number
        monkeypatch.setattr(live, name, 3600.0)
    monkeypatch.setattr(live.Handler, "timeout", 3600.0)
    ask(server, "/")
    port = server.server_port
    slow = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(200)]
    try:
        assert ask(server, "/")[0] == 200
        assert slow[0].recv(1) == b""
        for _ in range(3000):  # those that are ended leave
            if answering() <= MOST_CONNECTIONS:
                break
            time.sleep(0.01)
        assert answering() <= MOST_CONNECTIONS
    finally:
        for one in slow:
            one.close()


def test_what_takes_too_long_is_ended(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often a byte arrives."""
    monkeypatch.setattr(live, "MOST_SECONDS_TO_ASK", 0.0)
    with Server([store]) as server:
        server.in_background()
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=600) as slow:
            slow.sendall(b"G")
            assert slow.recv(1) == b""
        server.shutdown()


def test_other_names_and_methods_are_refused(server: Server) -> None:
    """A name that was pointed here, another port, no name; writing of any kind."""
    for host in ("evil.example", f"evil.example:{server.server_port}", "127.0.0.1:1", "127.0.0.1"):
        status, _, text = ask(server, "/", host)
        assert (status, len(text.splitlines())) == (403, 1)
    assert ask(server, "/", f"localhost:{server.server_port}")[0] == 200
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        status, headers, _ = ask(server, "/", method=method)
        assert status == 501
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; ")
    assert ask(server, "/", method="HEAD")[2] == ""
    assert server.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize(
    "path",
    [
        *("/1", "/x", "/-1", f"/{'9' * 40}", "/?after=" + "9" * 40, "/%D9%A3", "/0/schedule/1"),
        *("/0/../a.db", "/a.db", "/etc/passwd", "/%2e%2e/%2e%2e/etc/passwd"),
    ],
)
def test_what_is_not_there_is_a_line(server: Server, path: str) -> None:
    """No file is served, whatever the path; no traceback."""
    status, headers, text = ask(server, path)
    assert status == 404
    assert headers["Content-Type"].startswith("text/plain")
    assert "Content-Security-Policy" in headers
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize(
    "request_line",
    ["GET /", "nonsense", "GET / x y", "GET / HTTP/9.9", "PUT /", f"GET /{'a' * 70_000} HTTP/1.1"],
    ids=["0.9", "one word", "four words", "version", "method", "long"],
)
def test_replies_to_what_is_no_request_carry_the_policy(server: Server, request_line: str) -> None:
    """Browsers guess a content where a reply has no headers, as those of HTTP/0.9 have none."""
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=600) as connection:
        connection.sendall(f"{request_line}\r\n\r\n".encode())
        connection.shutdown(socket.SHUT_WR)
        reply = b"".join(iter(lambda: connection.recv(2**16), b"")).decode()
    assert "\r\nContent-Security-Policy: default-src 'none'; " in reply.partition("\r\n\r\n")[0]
    assert reply.split()[1] in ("400", "403", "414", "501", "505")


def test_nothing_is_written(server: Server, store: Path) -> None:
    """Not even beside the store."""
    before = {path: path.read_bytes() for path in store.parent.iterdir()}
    assert ask(server, "/")[0] == 200
    assert {path: path.read_bytes() for path in store.parent.iterdir()} == before


def test_the_page_loads_nothing_and_names_are_text(server: Server) -> None:
    """The policy permits the one script."""
    status, headers, text = ask(server, "/")
    page = read_html(text)
    assert status == 200
    assert not page.all("img")
    assert EVIL in text.replace("&lt;", "<").replace("&gt;", ">")
    assert headers["Content-Security-Policy"].startswith("default-src 'none'; ")
    assert not [e for e in page.all() if "://" in e.attributes.get("href", "")]
    assert page.all("svg")


def test_two_campaigns_have_a_page_each(store: Path) -> None:
    """The first one lists them."""
    with Server([store, store]) as server:
        server.in_background()
        links = [a.attributes["href"] for a in read_html(ask(server, "/")[2]).all("a")]
        assert links == ["/0", "/1"]
        assert all(ask(server, link)[0] == 200 for link in links)
        server.shutdown()


def test_what_runs_is_shown() -> None:
    """From start to end, with incumbent and bound; another watch is told the same."""
    told: list[str] = []

    class Other(Watch):
        def failed(self, job: Any, failure: Failure) -> None:
            told.append("failed")

        def improved(self, *news: Any) -> None:
            told.append("improved")

    settings = make_settings(["greedy", "threshold"], [1], [0], 1)
    first, second = make_plan(Campaign([Part([random_instance(0)], settings)])).jobs()
    live = Live(Other())
    live.planned(5, 3)
    live.started(first)
    live.started(second)
    live.improved(first, 0.1, 12, 10)
    name = random_instance(0).name
    said = live.said()
    assert said.startswith("3 of 5 solves done, 0 failed, after 0 s. Running: ")
    assert f"{name} by greedy (0 s, best 12, bound 10); {name} by threshold (0 s)." in said
    live.failed(first, Failure("crash", "x"))
    live.solved(second, None)  # type: ignore[arg-type]
    assert live.said() == "5 of 5 solves done, 1 failed, after 0 s."
    assert told == ["improved", "failed"]


def test_wrong_stores_and_ports_are_refused(store: Path, tmp_path: Path) -> None:
    """One line each, before anything is served."""
    (tmp_path / "text.db").write_text("no store" * 1000)
    for path in (tmp_path / "none.db", tmp_path / "text.db"):
        with pytest.raises(InputError, match=path.name):
            Server([path])
    with Server([store]) as server, pytest.raises(InputError, match="--port"):
        Server([store], port=server.server_port)
    for port in (-1, 70000):
        with pytest.raises(InputError, match="--port"):
            Server([store], port=port)
    for command in (["report", str(store)], ["gap", "x.json", "--watch"]):
        assert run(command) == 2
    assert run(["report", str(store), "--out", str(tmp_path / "r"), "--serve"]) == 2


def test_a_campaign_is_watched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The address is said; the report of the store is the same as gap's."""
    moeopt.save(random_instance(0), tmp_path / "x.json")
    files = {name: str(tmp_path / name) for name in ("x.json", "s.db", "one", "two")}
    options = ["--methods", "greedy", "--store", files["s.db"], "--watch"]
    assert run(["gap", files["x.json"], *options, "--report", files["one"]]) == 0
    assert "moeopt: http://127.0.0.1:" in capsys.readouterr().err
    assert run(["report", files["s.db"], "--out", files["two"]]) == 0
    csv = [Path(files[name], "gap.csv").read_bytes() for name in ("one", "two")]
    assert csv[0] == csv[1]


@pytest.mark.slow
def test_ctrl_c_ends_the_server(store: Path) -> None:
    """With the shell's exit code, and no traceback."""
    command = [sys.executable, "-m", "moeopt", "report", str(store), "--serve"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("moeopt: http://127.0.0.1:")
        process.send_signal(2)
        assert process.wait(timeout=600) == 130
        assert "Traceback" not in process.stderr.read()
