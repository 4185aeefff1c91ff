"""Key bounds as JSON: what goes in comes out, and nothing unknown is guessed."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from mayfly.errors import StorageError, UnsupportedFormat
from mayfly.storage.scalars import decode, encode

VALUES: list[Any] = [
    None,
    True,
    0,
    -(2**63),
    2**64 - 1,
    "",
    "ä\n\u2028",
    "\ud800",
    0.1,
    -0.0,
    5e-324,
    math.inf,
    -math.inf,
    b"",
    b"\x00\xff",
    Decimal("1.50"),
    Decimal("-12345678901234567890.123456789"),
    date(1, 1, 1),
    datetime(2026, 1, 31, 12, 0, 0, 1),
    datetime(2026, 1, 31, 12, tzinfo=UTC),
    datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    time(23, 59, 59, 999_999),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_survives_the_file(value: Any) -> None:
    back = decode(json.loads(json.dumps(encode(value), allow_nan=False)))
    assert back == value
    assert type(back) is type(value)
    assert str(back) == str(value)


def test_nan_survives_too() -> None:
    assert math.isnan(decode(json.loads(json.dumps(encode(math.nan), allow_nan=False))))


@pytest.mark.parametrize("value", [[1], {"a": 1}, object()], ids=["list", "dict", "object"])
def test_what_is_not_atomic_is_refused(value: Any) -> None:
    with pytest.raises(StorageError, match="cannot be a key"):
        encode(value)


def test_an_unknown_type_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedFormat, match="'pickle'"):
        decode({"pickle": "gASVAAAA"})
