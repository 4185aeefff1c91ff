"""Columns of seeded values: any atomic type, uniform or Zipf, with NULLs and edge values.

A column draws from a *domain*: a fixed list of values that depends on the type only, never on
the seed, so that two streams share their keys. Rank 0 is the most frequent value under Zipf.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mayfly.errors import InvalidSetting

_NEGATIVE_NAN: float = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0001))[0]
_DAY = 86_400_000_000


@dataclass(frozen=True)
class _Domain:
    """``edges`` are values that break naive code; ``plain(i)`` makes the i-th ordinary one."""

    type: pa.DataType
    edges: tuple[Any, ...]
    plain: Callable[[npt.NDArray[np.int64]], Any]
    size: int = 2**31


def _texts(index: npt.NDArray[np.int64]) -> list[str]:
    return [f"k{i}" for i in index.tolist()]


def _bytes(index: npt.NDArray[np.int64]) -> list[bytes]:
    return [i.to_bytes(4, "big") + b"\x00" for i in index.tolist()]


def _cents(index: npt.NDArray[np.int64]) -> list[Decimal]:
    return [Decimal(i + 1) / 4 for i in index.tolist()]


def _days(index: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    return (index + 1).astype(np.int32)


def _integers(bits: int) -> _Domain:
    top = 2 ** (bits - 1) - 1
    edges = (0, -1, top, -top - 1)
    return _Domain(pa.from_numpy_dtype(f"int{bits}"), edges, lambda i: i + 1, min(top, 2**31))


_FLOAT_EDGES = (0.0, math.nan, -0.0, _NEGATIVE_NAN, math.inf, -math.inf)

DOMAINS: dict[str, _Domain] = {
    "int64": _integers(64),
    "int32": _integers(32),
    "int16": _integers(16),
    "int8": _integers(8),
    "string": _Domain(pa.string(), ("", " ", "k", "ключ", "a\x00b"), _texts),
    "binary": _Domain(pa.binary(), (b"", b"\x00", b"\x00\x00", b"\xff"), _bytes),
    "boolean": _Domain(pa.bool_(), (True, False), lambda i: i % 2 == 0, size=2),
    "double": _Domain(pa.float64(), _FLOAT_EDGES, lambda i: (i + 1) * 0.5),
    "float": _Domain(pa.float32(), _FLOAT_EDGES, lambda i: (i + 1) * 0.5, size=2**23),
    "decimal": _Domain(
        pa.decimal128(18, 4),
        (Decimal(0), Decimal("-0.0001"), Decimal("99999999999999.9999")),
        _cents,
    ),
    "date": _Domain(pa.date32(), (0, -1, 2_932_896, -719_162), _days, size=2_000_000),
    "timestamp": _Domain(
        pa.timestamp("us", "UTC"), (0, -1, 253_402_300_799_999_999), lambda i: i * 1_000_003 + 1
    ),
    "timestamp_ntz": _Domain(pa.timestamp("us"), (0, -1, _DAY), lambda i: i * 1_000_003 + 1),
}
KEY_TYPES: tuple[str, ...] = tuple(DOMAINS)
"""The atomic types a column can have."""


@dataclass(frozen=True)
class ColumnSpec:
    """How to fill one column: ``distinct`` values of ``type`` (at most: a boolean has two).

    ``zipf`` is the exponent s of the rank-frequency law 1/rank^s, 0 meaning uniform. ``nulls`` is
    the share of NULLs. ``edges`` puts the values that break naive code first (NaN in two bit
    patterns, -0.0, extremes, empty texts); ``offset`` skips that many values of the domain, so
    two streams can share only a part of their keys.
    """

    name: str
    type: str = "int64"
    distinct: int = 100
    zipf: float = 0.0
    nulls: float = 0.0
    edges: bool = True
    offset: int = 0

    def __post_init__(self) -> None:
        if self.type not in DOMAINS:
            raise InvalidSetting(
                f"column {self.name!r}: unknown type {self.type!r}",
                f"use one of {', '.join(KEY_TYPES)}",
            )
        if self.distinct < 1 or self.offset < 0 or self.zipf < 0:
            raise InvalidSetting(
                f"column {self.name!r}: distinct={self.distinct}, offset={self.offset}, "
                f"zipf={self.zipf}",
                "distinct must be at least 1, offset and zipf at least 0",
            )
        if not 0 <= self.nulls <= 1:
            raise InvalidSetting(
                f"column {self.name!r}: nulls={self.nulls}", "give a share between 0 and 1"
            )

    @property
    def arrow_type(self) -> pa.DataType:
        return DOMAINS[self.type].type


def domain(column: ColumnSpec) -> pa.Array:
    """The values the column draws from, most frequent first."""
    kind = DOMAINS[column.type]
    edges = kind.edges if column.edges else ()
    first = min(column.offset, kind.size - 1)
    end = min(column.offset + column.distinct, kind.size)
    special = list(edges[first:end])
    index = np.arange(max(first - len(edges), 0), max(end - len(edges), 0), dtype=np.int64)
    plain = pa.array(kind.plain(index)).cast(kind.type) if len(index) else []
    return pa.concat_arrays([pa.array(special, kind.type), pa.array(plain, kind.type)])


def draw(column: ColumnSpec, rows: int, rng: np.random.Generator) -> pa.Array:
    """``rows`` seeded values of the column."""
    values = domain(column)
    drawn = ranks(len(values), column.zipf, rows, rng)
    absent = rng.random(rows) < column.nulls if column.nulls else None
    return values.take(pa.array(drawn, mask=absent))


def ranks(distinct: int, zipf: float, rows: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Ranks from 0 to ``distinct`` - 1, uniform or with frequency 1/(rank + 1)^zipf."""
    if zipf == 0:
        return rng.integers(0, distinct, rows)
    weight = np.arange(1, distinct + 1, dtype=np.float64) ** -zipf
    cumulative = np.cumsum(weight)
    drawn = np.searchsorted(cumulative, rng.random(rows) * cumulative[-1], side="right")
    capped: npt.NDArray[np.int64] = np.minimum(drawn, distinct - 1)
    return capped
