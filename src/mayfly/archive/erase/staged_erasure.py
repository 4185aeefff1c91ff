"""Expired rows among the staged ones: they go although their stream has stopped.

A stream's own update takes its staged rows in and drops them. Where the archive is updated by
another writer, rows of a stream that lags would stay staged beyond their lives.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mayfly.archive.write.staged_rows import SINKS, Staging, brought, staged_repositories
from mayfly.errors import CommitConflict
from mayfly.faults import reach
from mayfly.storage import Manifest, Segment, vacuum
from mayfly.storage.directory import Directory
from mayfly.storage.segment import EXP, check_content, segment_batches, write_segment
from mayfly.storage.vacuum import discard, left_behind

ATTEMPTS = 3
"""How often a stream may stage a batch meanwhile; then its rows go with the next update."""


def check_staged(root: str, due: int, properties: Mapping[str, Any]) -> None:
    """Raise CorruptFile for a damaged file that ``erase_staged`` would have to write anew."""
    for staging in _stopped(root, properties):
        for segment in _late(staging.current(), due):
            if not _all_late(segment, due):
                check_content(staging.repository.directory, segment)


def erase_staged(root: str, due: int, properties: Mapping[str, Any]) -> None:
    """Remove staged rows that expired before ``due``, unless their stream is about to, and files
    that were left behind: what is in them is unknown."""
    for repository in staged_repositories(root).values():
        discard(repository, left_behind(repository))
    for staging in _stopped(root, properties):
        for _ in range(ATTEMPTS):
            with contextlib.suppress(CommitConflict):
                _erase(staging, due)
                break


def _stopped(root: str, properties: Mapping[str, Any]) -> Iterator[Staging]:
    """Streams that are not about to drop what an update has taken in, as the ``properties`` of the
    archive note it."""
    notes = properties.get(SINKS, {})
    for name, repository in staged_repositories(root).items():
        staging = Staging(name, repository)
        if notes.get(name, {}).get("staged_version") != staging.current().version:
            yield staging


def _late(base: Manifest, due: int) -> list[Segment]:
    """Files with rows that expired before ``due``."""
    return [segment for segment in base.segments.values() if segment.exp.low < due]


def _all_late(segment: Segment, due: int) -> bool:
    return bool(segment.exp.high < due)


def _erase(staging: Staging, due: int) -> None:
    base = staging.current()
    late = _late(base, due)
    if not late:
        return
    directory = staging.repository.directory
    mixed = [segment for segment in late if not _all_late(segment, due)]
    rest = [
        left for segment in mixed if (left := _write_without(directory, segment, due)) is not None
    ]
    lost = sum(segment.rows for segment in late) - sum(segment.rows for segment in rest)
    now = brought(base)
    try:
        current = staging.add(base, rest, late, replace(now, dead=now.dead + lost))
    except CommitConflict:
        for segment in rest:
            directory.remove(segment.path)
        raise
    older = [
        segment for segment in staging.repository.stored_versions() if segment != current.version
    ]
    vacuum(staging.repository, keep_versions=1, broken=older)
    for segment in late:  # younger files may belong to a batch under way; these do not
        directory.remove(segment.path)
        reach("staging.erased")


def _write_without(directory: Directory, segment: Segment, due: int) -> Segment | None:
    rows = pa.Table.from_batches(segment_batches(directory, segment))
    rows = rows.filter(pc.greater_equal(rows[EXP], due))
    return write_segment(
        directory, segment.group, rows, format="parquet", level=segment.level, compression="zstd"
    )
