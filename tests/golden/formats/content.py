"""What the golden directories hold, as literals: neither writing nor reading code is asked."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa

KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "integer": (pa.int64(), [-(2**63), 0, 2**63 - 1]),
    "text": (pa.string(), ["", "Zoë", "ä"]),
    "binary": (pa.binary(), [b"", b"\x00\xff", b"a"]),
    "double": (pa.float64(), [float("-inf"), -0.1, 5e-324]),
    "decimal": (pa.decimal128(18, 4), [Decimal("-1.5000"), Decimal("0.0001"), Decimal("99.9999")]),
    "date": (pa.date32(), [date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)]),
    "timestamp": (
        pa.timestamp("us"),
        [datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime(1970, 1, 1), datetime(2026, 1, 31)],
    ),
    "instant": (
        pa.timestamp("us", "UTC"),
        [datetime(1970, 1, 1, tzinfo=UTC), datetime(2026, 1, 31, 12, 30, tzinfo=UTC)],
    ),
    "time": (pa.time64("us"), [time(0, 0), time(23, 59, 59, 999_999)]),
    "boolean": (pa.bool_(), [False, True]),
}
"""Per key type: its values in order, so that the first and last are the bounds."""

UNORDERED: dict[str, tuple[pa.DataType, list[Any]]] = {
    "with-null": (pa.int64(), [1, None]),
    "with-nan": (pa.float64(), [1.0, float("nan")]),
}
"""Keys for which no bounds are recorded."""

STATE: dict[int, dict[str, Any]] = {
    1: {
        "properties": {"query": "golden", "clock": 10, "nested": {"list": [1, None, "ü"]}},
        "groups": {"state/0/left": [1, 2, 3], "log/0": [10, 11]},
    },
    2: {
        "properties": {"query": "golden", "clock": 20, "nested": {"list": [1, None, "ü"]}},
        "groups": {"state/0/left": [4, 5, 6, 7], "log/1": [10, 11]},
    },
}
"""Per version of the state directory: properties, and the ids in each group. Row ``id`` is
generated at ``id`` and lives for 100; version 2 moved the log and replaced the state."""
LIFE = 100
