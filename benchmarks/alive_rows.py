"""What DuckDB says of the rows that are alive at an instant, beside another answer."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

ALIVE = "ts <= {at} AND ts > {at} - 10000000"
"""The rows of a window of ten seconds, as a condition of SQL over microseconds."""
REFRESHED = (
    "(ts + 999999) // 1000000 * 1000000 <= {at} AND (ts + 10999999) // 1000000 * 1000000 > {at}"
)
"""The same for a window that slides by whole seconds."""


def differs(database: Any, wanted: pa.Table, found: pa.Table) -> int:
    """By how many rows an answer is another one than the wanted."""
    database.register("wanted", wanted)
    database.register("found", found.select(wanted.schema.names))
    counts = [
        database.execute(f"SELECT count(*) FROM (FROM {one} EXCEPT ALL FROM {other})").fetchall()
        for one, other in (("wanted", "found"), ("found", "wanted"))
    ]
    return int(sum(rows[0][0] for rows in counts))
