"""Archives of a few hundred rows for tests that look at one thing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from mayfly.archive.archive import Archive
from mayfly.archive.layouts import UpdateTechnique, WaveLayout, WaveScheme
from mayfly.archive.model.calendar import FixedIntervals
from mayfly.archive.model.settings import ArchiveSettings
from mayfly.archive.write.local_jobs import InProcess

COLUMNS = {"k": "bigint", "ts": "bigint", "v": "string"}


def small_settings(
    scheme: str = "DEL", window: int = 4, constituents: int = 2, **changes: Any
) -> ArchiveSettings:
    """A day is 100 µs, so the rows of day d have ts from 100 (d − 1) + 1 to 100 d."""
    usual: dict[str, Any] = {
        "columns": COLUMNS,
        "key": ("k",),
        "time": "ts",
        "calendar": FixedIntervals(100),
        "layout": WaveLayout(WaveScheme(scheme), window, constituents),
        "technique": UpdateTechnique.PACKED_SHADOW,
    }
    return ArchiveSettings(**usual | changes)


def day_rows(day: int, keys: Sequence[Any] = range(10)) -> pa.Table:
    """One row for each key, spread over the day, saying where it comes from."""
    ts = [100 * (day - 1) + 1 + at * 99 // max(1, len(keys) - 1) for at in range(len(keys))]
    return pa.table({"k": keys, "ts": ts, "v": [f"{day}/{key}" for key in keys]})


def small_archive(
    root: Path, days: int = 0, settings: ArchiveSettings | None = None, **changes: Any
) -> Archive:
    archive = Archive.create(root, settings or small_settings(**changes), InProcess(), sync=False)
    for day in range(1, days + 1):
        archive.update(day_rows(day))
    return archive


def values(table: pa.Table) -> list[str]:
    """What the rows say, in order."""
    return sorted(table["v"].to_pylist())


def said(days: Sequence[int], keys: Sequence[Any] = range(10)) -> list[str]:
    """What the rows of these days say."""
    return sorted(f"{day}/{key}" for day in days for key in keys)
