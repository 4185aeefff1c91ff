"""How the server and its worker processes talk: a JSON head and a body of bytes, with their lengths
before them."""

from __future__ import annotations

import json
import struct
from asyncio import StreamReader
from collections.abc import Mapping
from typing import Any, BinaryIO

LENGTHS = struct.Struct(">II")
Message = tuple[dict[str, Any], bytes]


def message_bytes(head: Mapping[str, Any], body: bytes = b"") -> bytes:
    text = json.dumps(head).encode()
    return LENGTHS.pack(len(text), len(body)) + text + body


def read_message(source: BinaryIO) -> Message | None:
    """The next one, or None at the end."""
    lengths = source.read(LENGTHS.size)
    if len(lengths) < LENGTHS.size:
        return None
    head, body = LENGTHS.unpack(lengths)
    return json.loads(source.read(head)), source.read(body)


async def receive_message(source: StreamReader) -> Message:
    """The next one; IncompleteReadError at the end."""
    head, body = LENGTHS.unpack(await source.readexactly(LENGTHS.size))
    return json.loads(await source.readexactly(head)), await source.readexactly(body)
