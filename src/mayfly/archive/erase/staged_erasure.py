"""Expired rows among the staged ones: they go although their stream has stopped.

A stream's own update takes its staged rows in and drops them. Where the archive is updated by
somebody else, rows of a stream that lags would stay staged beyond their lives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mayfly.archive.write.staging import SINKS, Staging, brought, staged_repositories
from mayfly.faults import reach
from mayfly.storage import Segment, vacuum
from mayfly.storage.directory import Directory
from mayfly.storage.segment import EXP, segment_batches, write_segment
from mayfly.storage.vacuum import discard, left_behind


def erase_staged(root: str, due: int, properties: Mapping[str, Any]) -> None:
    """Remove staged rows that expired before ``due``, unless their stream is about to, and files
    that were left behind: nobody knows what is in them.

    ``properties`` are the archive's: they note what an update has taken in and its stream will
    drop next.
    """
    notes = properties.get(SINKS, {})
    for name, repository in staged_repositories(root).items():
        staging = Staging(name, repository)
        discard(repository, left_behind(repository))
        if notes.get(name, {}).get("staged_version") != staging.current().version:
            _erase(staging, due)


def _erase(staging: Staging, due: int) -> None:
    base = staging.current()
    late = [segment for segment in base.segments.values() if segment.exp.low < due]
    if not late:
        return
    directory = staging.repository.directory
    rest = [left for segment in late if (left := _without(directory, segment, due)) is not None]
    lost = sum(segment.rows for segment in late) - sum(segment.rows for segment in rest)
    now = brought(base)
    current = staging.add(base, rest, late, replace(now, dead=now.dead + lost))
    older = [
        version for version in staging.repository.stored_versions() if version != current.version
    ]
    vacuum(staging.repository, keep_versions=1, broken=older)
    for segment in late:  # younger files may belong to a batch under way; these do not
        directory.remove(segment.path)
        reach("staging.erased")


def _without(directory: Directory, segment: Segment, due: int) -> Segment | None:
    rows = pa.Table.from_batches(segment_batches(directory, segment))
    rows = rows.filter(pc.greater_equal(rows[EXP], due))
    return write_segment(
        directory, segment.group, rows, format="parquet", level=segment.level, compression="zstd"
    )
