"""Small files that tell whether they are whole: the content, a line end, and its checksum.

They change too often, or stand too much alone, to be named with a checksum in a manifest: commands,
recorded clocks, pins, the number of the oldest version, ends of results that wait.
"""

from __future__ import annotations

import json
from typing import Any

import xxhash

from mayfly.arrays import arrow as pa
from mayfly.errors import CorruptFile
from mayfly.storage.directory import Directory


def seal(content: bytes) -> bytes:
    """The file with this content."""
    return b"%b\n%b\n" % (content, xxhash.xxh3_64_hexdigest(content).encode())


def unseal(data: bytes, path: str, hint: str) -> bytes:
    """The content of a file; of one line only, written before there were checksums, all of it."""
    content, line_end, checksum = data.removesuffix(b"\n").rpartition(b"\n")
    if not line_end:
        return data
    if xxhash.xxh3_64_hexdigest(content).encode() != checksum:
        raise CorruptFile(f"{path} differs from its checksum", hint)
    return content


def seal_json(value: Any) -> bytes:
    return seal(json.dumps(value).encode())


def unseal_json(data: bytes, path: str, hint: str) -> Any:
    try:
        return json.loads(unseal(data, path, hint))
    except (ValueError, RecursionError) as error:
        raise CorruptFile(f"{path} is damaged: {error}", hint) from error


def seal_table(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return seal(sink.getvalue().to_pybytes())


def unseal_table(data: bytes, path: str, hint: str) -> pa.Table:
    """The table in a file; there never were any without a checksum."""
    content = unseal(data, path, hint)
    if content is data:
        raise CorruptFile(f"{path} has lost its checksum", hint)
    try:
        return pa.ipc.open_stream(content).read_all()
    except pa.ArrowException as error:
        raise CorruptFile(f"{path} is damaged: {error}", hint) from error


def read_json(directory: Directory, name: str, hint: str) -> Any:
    return unseal_json(directory.read(name), directory.address_of(name), hint)
