"""A uvicorn with other connections is refused: limits that have no effect would go unnoticed."""

from __future__ import annotations

from typing import Any

import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

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
