"""Spark's xxhash64 of key values, in Python: which part of a run a key lies in.

Runs are written by Spark, part by part, with ``pmod(xxhash64(keys), parts)``; a probe must find
the same part without asking Spark. Each value is hashed by XXH64 over the bytes Spark takes, with
the hash of the value before it as the seed (42 for the first).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

import xxhash

from mayfly.errors import InvalidSetting
from mayfly.plan.types import DataType

_SEED = 42
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXACT = Context(prec=76)
"""Python rounds to 28 digits by default; keys have up to 38."""


def part_of(values: Sequence[Any], types: Sequence[DataType], parts: int) -> int:
    """The part that holds rows with this key."""
    if parts == 1:
        return 0
    return spark_hash(values, types) % parts


def spark_hash(values: Sequence[Any], types: Sequence[DataType]) -> int:
    """xxhash64(values…) as Spark computes it, as a signed 64-bit number."""
    digest = _SEED
    for value, kind in zip(values, types, strict=True):
        seed = digest % 2**64
        digest = xxhash.xxh64_intdigest(_bytes(value, kind), seed=seed)
    return digest - 2**64 if digest >= 2**63 else digest


def _bytes(value: Any, kind: DataType) -> bytes:
    match kind.name:
        case "boolean" | "tinyint" | "smallint" | "int":
            return struct.pack("<i", int(value))
        case "date":
            return struct.pack("<i", (value - date(1970, 1, 1)).days)
        case "bigint":
            return struct.pack("<q", int(value))
        case "timestamp" | "timestamp_ntz":
            aware = value if value.tzinfo else value.replace(tzinfo=UTC)
            return struct.pack("<q", (aware - _EPOCH) // timedelta(microseconds=1))
        case "interval day to second":
            return struct.pack("<q", value // timedelta(microseconds=1))
        case "float":
            return _floating(value, "<f")
        case "double":
            return _floating(value, "<d")
        case "string":
            return str(value).encode()
        case "binary":
            return bytes(value)
        case "decimal":
            return _decimal(value, kind)
    raise InvalidSetting(f"a column of type {kind} cannot be a search key", "use an atomic type")


def _floating(value: float, layout: str) -> bytes:
    if value != value:
        return struct.pack("<q", 0x7FF8 << 48) if layout == "<d" else struct.pack("<i", 0x7FC00000)
    return struct.pack(layout, value + 0.0)


def _decimal(value: Decimal, kind: DataType) -> bytes:
    precision, scale = kind.params
    unscaled = int(value.scaleb(scale, _EXACT).to_integral_exact(context=_EXACT)) if value else 0
    if precision <= 18:
        return struct.pack("<q", unscaled)
    return unscaled.to_bytes(_java_length(unscaled), "big", signed=True)


def _java_length(number: int) -> int:
    """The bytes of Java's BigInteger.toByteArray: the shortest two's complement."""
    bits = number.bit_length() if number >= 0 else (number + 1).bit_length()
    return bits // 8 + 1
