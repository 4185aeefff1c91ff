"""Servers over small checkpoints, each in a process of its own, and raw ways to talk to them."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mayfly.client import Client

PROGRAM = """
import json, sys
from mayfly.cli.signals import Ended, ending_signals
from mayfly.serving.http.access import access_for
from mayfly.serving.http.server import PipelineServer
from mayfly.serving.http.server_limits import ServerLimits

place, token, port, limits = json.loads(sys.argv[1])
server = PipelineServer(
    place, "127.0.0.1", port, access_for("127.0.0.1", token), ServerLimits(**limits)
)
try:
    with ending_signals():
        server.run(lambda line: print(line, flush=True), None)
except Ended:
    pass
"""


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class RunningServer:
    """A server as its clients see it."""

    process: subprocess.Popen[str]
    port: int
    token: str | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @cached_property
    def client(self) -> Client:
        return Client(self.url, token=self.token)

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        if self.token is not None:
            headers.setdefault("authorization", f"Bearer {self.token}")
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, body, named)
            response = connection.getresponse()
            listed = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, listed, response.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Reply:
        return self.ask("GET", path, None, **headers)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def send(self, data: bytes, most: int = 1 << 20) -> bytes:
        """What comes back for some bytes, until the server closes."""
        with self.connect() as channel:
            received = b""
            try:
                channel.sendall(data)
                while len(received) < most and (piece := channel.recv(1 << 16)):
                    received += piece
            except ConnectionError:
                pass
            return received

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=30)
        return self.process.returncode


@contextmanager
def serving(
    place: Path, token: str | None = None, port: int = 0, **limits: Any
) -> Iterator[RunningServer]:
    """A server that is ended with the block."""
    told = json.dumps([str(place), token, port, {"workers": 1, **limits}])
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, told], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("serving"), process.communicate(timeout=10)[1]
        server = RunningServer(process, int(line.rpartition(":")[2]), token)
        with server.client:
            yield server
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
