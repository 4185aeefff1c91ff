"""Small files with their checksum: every flipped bit is found, old files are read on."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from mayfly.errors import CorruptFile
from mayfly.storage.sealed_files import (
    seal,
    seal_json,
    seal_table,
    unseal,
    unseal_json,
    unseal_table,
)

TABLE = pa.table({"n": pa.array([10, 2560, None]), "text": ["\n", "a\nb\n", ""]})


def flips(data: bytes) -> list[bytes]:
    found = []
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        found.append(bytes(changed))
    return found


@pytest.mark.parametrize("content", [b"12", b"a\nb", b"\n"])
def test_what_was_sealed_is_read(content: bytes) -> None:
    assert unseal(seal(content), "f", "") == content


def test_every_flip_in_json_is_found() -> None:
    data = seal_json({"version": 12, "until": None, "text": "two\nlines"})
    assert unseal_json(data, "f", "")["text"] == "two\nlines"
    for changed in flips(data):
        with pytest.raises(CorruptFile, match="the-file") as caught:
            unseal_json(changed, "the-file", "do this")
        assert caught.value.hint == "do this"


def test_every_flip_in_a_table_is_found() -> None:
    data = seal_table(TABLE)
    assert unseal_table(data, "f", "") == TABLE
    for changed in flips(data):
        with pytest.raises(CorruptFile, match="the-file"):
            unseal_table(changed, "the-file", "do this")


@pytest.mark.parametrize("old", [b"12\n", b"12", json.dumps({"kind": "stop"}).encode()])
def test_files_of_earlier_versions_are_read(old: bytes) -> None:
    assert unseal_json(old, "f", "") == json.loads(old)


def test_a_table_without_a_seal_is_not_parsed() -> None:
    with pytest.raises(CorruptFile, match="f has lost its checksum"):
        unseal_table(bytes(4096), "f", "")
