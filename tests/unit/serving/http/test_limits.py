"""Limits of one request: beyond them it is refused, and the others are answered as before."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from mayfly.errors import LimitExceeded
from mayfly.serving.http.request_worker import RequestWorker
from mayfly.serving.http.server_limits import ServerLimits
from mayfly.serving.pipeline_places import open as open_place
from tests.unit.serving.http.running_servers import RunningServer, serving
from tests.unit.serving.stored_pipelines import fed

SHORT = "SELECT user FROM recent"
LARGE = "SELECT COUNT(*) AS n FROM " + ", ".join(f"recent r{number}" for number in range(8))
"""Over 10 ** 8 combinations of rows."""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pipeline") / "ck"
    fed(folder)
    return folder


@pytest.fixture(scope="module")
def server(checkpoint: Path) -> Iterator[RunningServer]:
    limits: dict[str, Any] = {"seconds": 2.0, "waiting": 2, "patience": 60.0}
    with serving(checkpoint, **limits) as running:
        yield running


@pytest.fixture(scope="module")
def slow_server(checkpoint: Path) -> Iterator[RunningServer]:
    with serving(checkpoint, receipt=0.5, connections=5, body_bytes=5_000) as running:
        yield running


def test_rows_and_bytes(checkpoint: Path) -> None:
    reader = open_place(checkpoint)
    request = {"do": "view", "name": "recent", "where": {}}
    for limits, status in (
        (ServerLimits(rows=10), 200), (ServerLimits(rows=9), 422),
        (ServerLimits(answer_bytes=10_000), 200), (ServerLimits(answer_bytes=100), 422),
    ):  # fmt: skip
        for arrow in (False, True):
            head, body = RequestWorker(reader, limits).reply({**request, "arrow": arrow})
            assert head["status"] == status
            if status == 422:
                assert json.loads(body)["error"]["kind"] == "LimitExceeded"


def stop_worker(server: RunningServer) -> int:
    """From here on the process that answers does nothing, as one that computes for ever."""
    pid = server.process.pid
    (worker,) = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    os.kill(worker, signal.SIGSTOP)
    return worker


def test_time(server: RunningServer) -> None:
    worker = stop_worker(server)
    with pytest.raises(LimitExceeded, match=r"not ready in 2 s"):
        server.client.query(SHORT)
    assert server.client.view("recent").rows.num_rows == 10
    assert not Path(f"/proc/{worker}").exists()


def test_questions_beside_served_queries_have_the_same_limits(server: RunningServer) -> None:
    """The server itself computes nothing that panes in memory do not answer."""
    stop_worker(server)
    reply = server.get(f"/ask?sql={quote(SHORT)}&wait=1000000h")
    assert (reply.status, reply.json["error"]["kind"]) == (422, "LimitExceeded")
    reply = server.get(f"/ask?sql={quote(SHORT)}")
    assert reply.json.keys() == server.get(f"/query?sql={quote(SHORT)}").json.keys()


def test_memory(checkpoint: Path) -> None:
    with serving(checkpoint, seconds=60, memory=200 << 20, patience=60.0) as server:
        with pytest.raises(LimitExceeded, match="memory"):
            server.client.query(LARGE)
        assert server.client.view("recent").rows.num_rows == 10


def test_the_body_of_a_request(slow_server: RunningServer) -> None:
    query = b"SELECT user FROM recent"
    assert slow_server.ask("POST", "/query", query.ljust(5_000)).status == 200
    reply = slow_server.ask("POST", "/query", query.ljust(5_001))
    assert (reply.status, reply.json["error"]["kind"]) == (422, "LimitExceeded")


def test_more_requests_than_can_wait(server: RunningServer) -> None:
    replies: list[tuple[int, str | None]] = []

    def ask() -> None:
        reply = server.ask("POST", "/query", SHORT.encode())
        replies.append((reply.status, reply.headers.get("retry-after")))

    stop_worker(server)
    askers = [threading.Thread(target=ask) for _ in range(8)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join(60)
    statuses = [status for status, _ in replies]
    assert len(statuses) == 8
    assert sorted(statuses) == [200, 200, 422, 503, 503, 503, 503, 503]
    assert {again for status, again in replies if status == 503} == {"1"}
    assert server.client.view("recent").rows.num_rows == 10


def test_connections_and_idle_ones(slow_server: RunningServer) -> None:
    idle = [slow_server.connect() for _ in range(5)]
    beyond = slow_server.connect()
    assert beyond.recv(100).startswith(b"HTTP/1.1 503")
    for channel in idle:
        assert channel.recv(100) == b""  # closed, though it had sent nothing
    for channel in (*idle, beyond):
        channel.close()
    assert slow_server.client.view("recent").rows.num_rows == 10


@pytest.mark.parametrize(
    "text",
    [
        b"GET /status HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 5000,
        b"POST /query HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n" + b"S" * 5000,
    ],
    ids=["headers", "body"],
)
def test_requests_that_arrive_byte_by_byte(slow_server: RunningServer, text: bytes) -> None:
    with slow_server.connect() as channel:
        channel.settimeout(0.01)
        for byte in text:
            try:
                channel.send(bytes([byte]))
                received = channel.recv(1000)
            except TimeoutError:
                continue
            except ConnectionError:
                received = b""
            assert not received or b" 408 " in received
            break
        else:
            raise AssertionError("the server waits for ever")
    assert slow_server.client.view("recent").rows.num_rows == 10


@pytest.mark.slow
def test_a_client_that_does_not_read(tmp_path: Path) -> None:
    fed(tmp_path, 30_000, step=30_000)
    with serving(tmp_path, stall=0.5) as server:
        with server.connect() as channel:
            channel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            channel.sendall(b"GET /changes/recent?since=0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            # Others are answered meanwhile, until the one that does not read is cut off.
            for _ in range(600):
                assert server.client.view("recent").rows.num_rows == 10
                if not connected_to(server):
                    break
                time.sleep(0.05)
            else:
                raise AssertionError("a client that does not read is kept")
        events = server.client.changes("recent", since=0)
        assert len(next(events).changes) > 8000


def connected_to(server: RunningServer) -> bool:
    """Whether the server has another connection than that of its first client."""
    listed = Path(f"/proc/{server.process.pid}/net/tcp").read_text().splitlines()[1:]
    port, established = f":{server.port:04X}", "01"
    columns = [line.split() for line in listed]
    return sum(c[1].endswith(port) and c[3] == established for c in columns) > 1
