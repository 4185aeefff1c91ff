"""Who is let in: by token, and only under names that no other site can take."""

from __future__ import annotations

import hmac
import ipaddress
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from mayfly.errors import InvalidSetting

SHORTEST_TOKEN = 16
LOCAL_NAMES = ("localhost",)
HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:@/?#\s]+)(?::\d{1,5})?")
"""A name or an address, perhaps with a port."""


@dataclass(frozen=True)
class Refusal:
    """Why a request is not let in."""

    status: int
    message: str
    hint: str


@dataclass(frozen=True)
class AccessRule:
    """What a request must show."""

    token: str | None = None
    names: frozenset[str] = frozenset()
    """Host names under which the server may be called, beside addresses and localhost."""

    def __repr__(self) -> str:
        return f"<AccessRule {'with' if self.token else 'without'} token>"

    def refusal(self, host: str | None, origin: str | None, authorization: str) -> Refusal | None:
        """None if the request may come in."""
        if host is None or not self._may_be_called(host):
            # Another site's name that leads here makes a browser take us for that site.
            return Refusal(
                421, "this server is not called so",
                "use its address, localhost, or a name that it was started with (--allow-host)",
            )  # fmt: skip
        if origin is not None and urlsplit(origin).netloc.casefold() != host.casefold():
            return Refusal(403, "pages of other sites are not answered", "ask from a program")
        if self.token is not None and not self._has_token(authorization):
            return Refusal(401, "the token is missing or wrong", "send Authorization: Bearer TOKEN")
        return None

    def _has_token(self, authorization: str) -> bool:
        scheme, _, token = authorization.partition(" ")
        expected = (self.token or "").encode()
        same = hmac.compare_digest(token.strip().encode(errors="replace"), expected)
        return scheme.casefold() == "bearer" and same

    def _may_be_called(self, host: str) -> bool:
        match = HOST.fullmatch(host.casefold())
        if match is None:
            return False
        name = match[1].strip("[]")
        if name in LOCAL_NAMES or name in self.names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def access_for(host: str, token: str | None, names: Iterable[str] = ()) -> AccessRule:
    """Refuse to be open to other machines without a token."""
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise InvalidSetting(
            f"the token has fewer than {SHORTEST_TOKEN} characters",
            'make one: python -c "import secrets; print(secrets.token_urlsafe())"',
        )
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
        raise InvalidSetting(
            "the token has characters that a header cannot carry", "use letters and digits"
        )
    if token is None and not is_loopback(host):
        raise InvalidSetting(
            f"{host} is reachable from other machines, and there is no token",
            "give one: --token-file FILE or the variable MAYFLY_TOKEN; or serve on 127.0.0.1",
        )
    return AccessRule(token, frozenset(name.casefold() for name in names))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address; of a name, all its addresses."""
    try:
        resolved = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise InvalidSetting(
            f"there is no address {host}: {error}", "give an address of this machine"
        ) from None
    addresses = {str(entry[4][0]).partition("%")[0] for entry in resolved}
    return all(ipaddress.ip_address(address).is_loopback for address in addresses)
