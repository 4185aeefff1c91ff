"""Connections that cannot be held open by doing nothing.

uvicorn waits for ever for a request that comes byte by byte, and for a client that does not read.
Here a request must be complete in its headers within a time (bodies: see application), what is
written must be read within one, and connections beyond a number are turned away at once.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from mayfly.errors import InvalidSetting
from mayfly.serving.http.server_limits import ServerLimits

USED = ("connections", "cycle", "timeout_keep_alive_handler", "transport")
"""What connections of uvicorn have beside the methods of asyncio.Protocol."""
TURNED_AWAY = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n"
    b"content-type: text/plain\r\ncontent-length: 21\r\n\r\ntoo many connections\n"
)


class EndOfWait:
    """Cuts a connection off after a time, unless it is called off before."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None

    @property
    def active(self) -> bool:
        return self._timer is not None

    def set(self, transport: asyncio.Transport, seconds: float) -> None:
        self.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(seconds, transport.abort)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class GuardedConnection(H11Protocol):
    """HTTP/1.1 by uvicorn and h11, with an end to every wait."""

    limits = ServerLimits()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._arriving, self._unread = EndOfWait(), EndOfWait()
        # Head and body are two writes; the second must not wait until the first is confirmed.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            transport.write(TURNED_AWAY)
            transport.close()
        else:
            self._arriving.set(transport, self.limits.receipt)

    def data_received(self, data: bytes) -> None:
        if not self._arriving.active and self._between_requests():
            self._arriving.set(self.transport, self.limits.receipt)
        super().data_received(data)
        if not self._between_requests():
            self._arriving.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        self._arriving.cancel()
        self._unread.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread.set(self.transport, self.limits.stall)

    def resume_writing(self) -> None:
        self._unread.cancel()
        super().resume_writing()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()  # closes, but waits for the rest to be read
        self._unread.set(self.transport, self.limits.stall)

    def _between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete


def check_protocol(protocol: type, cycle: type) -> None:
    """Refuse a uvicorn whose connections are made otherwise: the limits would have no effect.

    Of what is used only the methods of asyncio.Protocol are documented.
    """
    own = _set_at_first(protocol) | set(dir(protocol))
    lacking = [name for name in USED if name not in own]
    if "response_complete" not in _set_at_first(cycle):
        lacking.append("response_complete")
    if lacking:
        raise InvalidSetting(
            f"connections of uvicorn {uvicorn.__version__} have no {', '.join(lacking)}: limits on "
            "requests and clients would have no effect",
            "install the version of uvicorn that requirements.lock names",
        )


def _set_at_first(kind: type) -> set[str]:
    """The names in its __init__, those of attributes among them."""
    first: Any = vars(kind)["__init__"]
    return set(first.__code__.co_names)


def guarded(limits: ServerLimits) -> type[GuardedConnection]:
    """Connections with these limits."""
    check_protocol(H11Protocol, RequestResponseCycle)
    return type("LimitedConnection", (GuardedConnection,), {"limits": limits})
