"""Parts of keys: numbered as Spark's ``pmod(xxhash64(keys), parts)`` does."""

from __future__ import annotations

import pyarrow as pa
import pytest

from mayfly.archive.model.key_hash import key_parts, parts_of
from mayfly.errors import InvalidSetting
from mayfly.kernels.functions.xxhash64 import xxhash64
from mayfly.plan.types import parse_type

TEXT, NUMBER = parse_type("string"), parse_type("bigint")


def test_parts_are_numbered_from_zero_as_pmod_does() -> None:
    assert key_parts([["x"]], [TEXT], 1) == [0]
    values = list(range(-20, 20))
    hashes = xxhash64([pa.array(values)], len(values))
    for parts in (2, 3, 7, 64):
        found = key_parts([[value] for value in values], [NUMBER], parts)
        assert all(0 <= part < parts for part in found)
        assert not ((hashes - found) % parts).any()


def test_no_keys_are_in_no_part() -> None:
    assert key_parts([], [TEXT, NUMBER], 2) == []


def test_keys_with_a_null_are_in_part_0() -> None:
    keys = [pa.array(["x", None, "x"]), pa.array([1, 1, None])]
    found = parts_of(keys, 64).tolist()
    assert found[0] != 0
    assert found[1:] == [0, 0]


def test_types_that_cannot_be_keys() -> None:
    with pytest.raises(InvalidSetting, match="cannot be a search key"):
        key_parts([[[1]]], [parse_type("array<int>")], 2)
