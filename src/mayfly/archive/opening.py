"""Archives without Spark: created, updated with Arrow tables and read in this process.

Reading never needs Spark, whoever wrote the archive. Updates in one process are for notebooks,
tests and small data; ``Session.open_archive`` updates the same archive by Spark jobs.
"""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa

from mayfly.archive.archive import Archive
from mayfly.archive.declaring import declare
from mayfly.archive.declaring_lifetimes import declare_lifetimes
from mayfly.archive.local import InProcess
from mayfly.archive.settings import arrow_columns


def open(path: str | os.PathLike[str]) -> Archive:
    """Open an archive for reading, and for updates with Arrow tables."""
    return Archive.open(path, InProcess())


def create(path: str | os.PathLike[str], columns: Any, **settings: Any) -> Archive:
    """Create an archive; ``columns`` is DDL text, a mapping or an Arrow schema or table.

    The settings are those of ``mayfly.archive.declaring.declare``: key, window, time, refresh,
    origin, zone, scheme, constituents, technique, late, parts, keep_versions. With
    ``max_lifetime`` in place of a window every row has its own lifetime, and the settings are
    those of ``mayfly.archive.declaring_lifetimes.declare_lifetimes``.
    """
    if isinstance(columns, pa.Table):
        columns = columns.schema
    if isinstance(columns, pa.Schema):
        columns = arrow_columns(columns)
    declaring = declare_lifetimes if "max_lifetime" in settings else declare
    declared = declaring(columns, **settings)
    return Archive.create(
        path, declared.settings, InProcess(), origin_is_open=declared.origin_is_open
    )
