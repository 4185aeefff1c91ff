"""Whatever is sent: no trace, no 500, no hang, and the next client is answered."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.serving.http.running_servers import RunningServer, serving
from tests.unit.serving.stored_pipelines import fed

HEAD = b"HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
METHODS = (b"GET", b"POST", b"HEAD", b"PUT", b"TRACE", b"CONNECT", b"OPTIONS", b"G\x00T", b"")
TARGETS = (
    b"/", b"*", b"//", b"/..", b"/../../etc/passwd", b"/%2e%2e/%2e%2e/etc/passwd", b"/views/%00",
    b"/views/..%2f..%2fsecret", b"/views/recent%0d%0aX: y", b"/views/%ff%fe", b"/query?sql=%",
    b"/query?sql=%ff", b"/changes/recent?since=%00", b"/views/recent?at=", b"/views/recent?=&=&at",
    b"http://evil.example/status", b"/views/" + b"n" * 9000, b"/query?sql=" + b"(" * 4000,
    b"/query?sql=SELECT%20" + b"-" * 3000 + b"1", b"/plan?sql=" + b"(" * 300 + b"1" + b")" * 300,
    b"/views/recent?user=%F0%9F%92%A9&n=1e999", b"/views/recent?n=9999999999999999999999",
    b"/views/recent?at=0001-01-01", b"/views/recent?at=9999-12-31T23:59:59.999999",
    b"/changes/recent?since=-9223372036854775809", b"/query?sql=SELECT%20'%00'",
    b"/query?sql=SELECT%20%22%ED%A0%80%22", b"/status?" + b"a=b&" * 5000,
)  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("pipeline") / "ck"
    fed(folder)
    with serving(folder, receipt=0.3, seconds=20.0) as running:
        yield running
        running.process.terminate()
        printed = running.process.communicate(timeout=30)[1]
        assert printed == "", "a fault was logged"


def check(server: RunningServer, received: bytes) -> None:
    assert b"Traceback" not in received
    assert b'File "' not in received
    statuses = [int(number) for number in re.findall(rb"^HTTP/1\.1 (\d+)", received, re.M)]
    assert not [status for status in statuses if status == 500], received[:500]
    assert server.get("/views/recent?user=ann").status == 200


@given(st.binary(max_size=2_000))
@example(b"")
@example(b"\r\n" * 500)
@example(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")  # a client that begins with TLS
@example(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
@example(b"GET / HTTP/9.9\r\n\r\n")
@example(b"GET /status HTTP/1.0\r\n\r\n")
def test_garbage(server: RunningServer, data: bytes) -> None:
    check(server, server.send(data))


@given(st.sampled_from(METHODS), st.sampled_from(TARGETS), st.binary(max_size=50))
def test_addresses(server: RunningServer, method: bytes, target: bytes, more: bytes) -> None:
    check(server, server.send(method + b" " + target + b" " + HEAD + b"\r\n"))
    check(server, server.send(method + b" " + target + more + b" " + HEAD + b"\r\n"))


@pytest.mark.parametrize("target", TARGETS)
def test_every_strange_address(server: RunningServer, target: bytes) -> None:
    if not target.startswith(b"/changes"):
        check(server, server.send(b"GET " + target + b" " + HEAD + b"\r\n"))


headers = st.lists(
    st.tuples(
        st.sampled_from(["Content-Length", "Transfer-Encoding", "Host", "Accept", "Origin",
                         "Authorization", "Last-Event-ID", "Content-Type", "Expect", "X", "Range",
                         "Upgrade", "Connection", "If-Match"]),
        st.one_of(
            st.sampled_from(["0", "-1", "5", "99999999999999999999", "chunked", "gzip, chunked",
                             "close", "upgrade", "websocket", "100-continue", "a/b;q=nan",
                             "application/json", "bytes=0-", "Bearer", ""]),
            st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=30),
        ),
    ),
    max_size=6,
)  # fmt: skip


@given(headers, st.binary(max_size=100))
def test_headers_and_wrong_lengths(
    server: RunningServer, listed: list[tuple[str, str]], body: bytes
) -> None:
    lines = "".join(f"{name}: {value}\r\n" for name, value in listed).encode("latin-1")
    check(server, server.send(b"POST /query " + HEAD + lines + b"\r\n" + body))


@given(st.one_of(st.binary(max_size=300), st.text(max_size=300).map(str.encode)), st.booleans())
@example(b'{"sql": "SELECT user FROM recent", "at": 1e400}', True)
@example(b'{"sql": "SELECT user FROM recent", "at": [1]}', True)
@example(b'{"sql": "\\ud800"}', True)
@example(b"[" * 100_000, True)
@example(b"SELECT user FROM recent WHERE user = '\xff'", False)
@example("SELECT 'ß💩' AS x FROM recent".encode(), False)
def test_bodies(server: RunningServer, body: bytes, as_json: bool) -> None:
    kind = "application/json" if as_json else "application/sql"
    reply = server.ask("POST", "/query", body, content_type=kind)
    assert reply.status in (200, 400, 422), reply.body
    assert b"Traceback" not in reply.body


def test_headers_without_end(server: RunningServer) -> None:
    check(server, server.send(b"GET /status HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 200_000))
    many = b"".join(b"X-%d: y\r\n" % number for number in range(20_000))
    check(server, server.send(b"GET /status " + HEAD + many + b"\r\n"))


def test_several_requests_in_one_go(server: RunningServer) -> None:
    call = b"GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n"
    received = server.send(call * 20 + b"GET /status " + HEAD + b"\r\n")
    assert received.count(b"HTTP/1.1 200") == 21
    check(server, received)


def hang_up(server: RunningServer, count: int) -> None:
    calls = (
        b"GET /views/recent " + HEAD + b"\r\n",
        b"GET /changes/recent?since=0 " + HEAD + b"\r\n",
        b"POST /query " + HEAD + b"Content-Length: 100\r\n\r\nSELECT",
        b"GET /query?sql=SELECT%20COUNT(*)%20FROM%20recent%20a,%20recent%20b " + HEAD + b"\r\n",
        b"GET /sta",
        b"",
    )
    for number in range(count):
        channel = server.connect()
        try:
            channel.sendall(calls[number % len(calls)])
            if number % 3 == 0:  # a reset instead of a goodbye
                linger = bytes([1, 0, 0, 0, 0, 0, 0, 0])
                channel.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        finally:
            channel.close()
    for path in ("/views/recent", "/query?sql=SELECT%20COUNT(*)%20AS%20n%20FROM%20recent"):
        assert answered_at_last(server, path) == 200


def answered_at_last(server: RunningServer, path: str) -> int:
    """The status, once the server no longer asks to come again a second later."""
    for _ in range(30):
        reply = server.get(path)
        if reply.status != 503:
            return reply.status
        time.sleep(float(reply.headers["retry-after"]))
    return 503


def test_clients_that_hang_up(server: RunningServer) -> None:
    hang_up(server, 50)


@pytest.mark.slow
def test_a_thousand_clients_that_hang_up(tmp_path: Path) -> None:
    fed(tmp_path)
    with serving(tmp_path) as server:
        hang_up(server, 1000)
        status = Path(f"/proc/{server.process.pid}/fd")
        assert len(list(status.iterdir())) < 100
