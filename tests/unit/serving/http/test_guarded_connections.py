"""A uvicorn with other connections is refused: limits that have no effect would go unnoticed."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from mayfly.errors import InvalidSetting
from mayfly.serving.http.guarded_connections import check_protocol, guarded
from mayfly.serving.http.server_limits import ServerLimits


class WithoutCycle:
    def __init__(self) -> None:
        self.connections: set[Any] = set()
        self.transport = None

    def timeout_keep_alive_handler(self) -> None:
        """As uvicorn calls it."""


class OtherCycle:
    def __init__(self) -> None:
        self.finished = False


def test_the_installed_one_has_what_is_used() -> None:
    assert guarded(ServerLimits(connections=3)).limits.connections == 3


def test_one_that_lacks_something_is_refused() -> None:
    with pytest.raises(InvalidSetting, match=r"uvicorn \S+ have no cycle:"):
        check_protocol(WithoutCycle, RequestResponseCycle)
    with pytest.raises(InvalidSetting, match="have no response_complete"):
        check_protocol(H11Protocol, OtherCycle)


def test_a_body_does_not_wait_for_the_head_to_be_confirmed() -> None:
    """By Nagle's rule the second of two small writes waits for 40 ms on most systems."""
    server, client = socket.create_server(("127.0.0.1", 0)), socket.socket()
    client.connect(server.getsockname())
    accepted, _ = server.accept()

    async def connect() -> int:
        loop = asyncio.get_running_loop()
        config = uvicorn.Config(app=None, log_config=None)  # type: ignore[arg-type]
        config.load()
        made = guarded(ServerLimits())(config, ServerState(), {})
        transport, _ = await loop.connect_accepted_socket(lambda: made, accepted)
        option: int = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        transport.abort()
        await asyncio.sleep(0)
        return option

    with server, client:
        assert asyncio.run(connect()) != 0
