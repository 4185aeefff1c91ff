"""Stored runs under a calendar with another refresh interval, while no row moves.

Idea: which update removes a row follows from its expiration, so the expirations in every file are
read (one column) and counted anew; what was declared void is found again in the runs that hold it.
Invariant: the same rows are alive and void as before; a label beyond the last update stays beyond
it. Cost: the column of expirations is read once, whole rows only where void ones are stored.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import pyarrow as pa

from mayfly.archive.layouts.run_plan import Run
from mayfly.archive.model.calendar import FixedIntervals, UpdateCalendar
from mayfly.archive.model.invalidation import Hiding, Invalidation, hidden_rows, hidings, visible
from mayfly.archive.model.settings import NTH, ArchiveSettings
from mayfly.archive.model.state import DAYS, ArchiveState, ArchiveVersion
from mayfly.archive.read.version_files import VersionFiles
from mayfly.archive.write.part_writer import rows_by_label
from mayfly.storage import Segment, TagSegment
from mayfly.storage.directory import Directory
from mayfly.storage.segment import EXP


@dataclass(frozen=True)
class Relabelled:
    """The state with other labels, and the tags that files get."""

    state: ArchiveState
    tags: tuple[TagSegment, ...]


def relabelled(directory: Directory, version: ArchiveVersion, after: ArchiveSettings) -> Relabelled:
    """A version of rows with their own lifetimes, its labels those of the new calendar."""
    files, state = VersionFiles(directory, version), version.state
    stored = version.settings.stored
    needed = pa.schema([field for field in stored if field.name in (EXP, NTH)])
    tags: list[TagSegment] = []
    days: dict[str, Counter[int]] = {}
    for run in sorted(state.used_runs()):
        days[run] = Counter()
        for segment in version.segments_of(run):
            counts = rows_by_label(_read(files, segment, needed), after)
            days[run] += counts
            tags.append(TagSegment(segment.path, {**segment.tags, DAYS: sorted(counts.items())}))
    following = replace(
        state,
        runs={
            name: tuple(Run(run.id, frozenset(days[run.id])) for run in held)
            for name, held in state.runs.items()
        },
        day_rows=dict(sorted(sum(days.values(), Counter[int]()).items())),
        invalid=_found_again(files, version, after),
    )
    return Relabelled(following, tuple(tags))


def _read(files: VersionFiles, segment: Segment, schema: pa.Schema) -> pa.Table:
    directory = files.directory_of(segment)
    return files.decoded(segment, directory, directory.everything, schema)


def _found_again(
    files: VersionFiles, version: ArchiveVersion, after: ArchiveSettings
) -> tuple[Invalidation, ...]:
    """The entries with the rows they hide counted by new labels; a row counts for the first."""
    entries = version.state.invalid
    hiding = hidings(files.directory, entries, version.invalid_segments, after)
    counts: dict[str, dict[str, Counter[int]]] = {entry.id: {} for entry in entries}
    for run in sorted(version.state.pending_runs):
        own = [hider for hider in hiding if run in hider.entry.pending]
        for segment in version.segments_of(run):
            rows = _read(files, segment, after.stored)
            _count(rows, run, own, counts)
    return tuple(
        replace(entry, pending={run: dict(rows) for run, rows in counts[entry.id].items()})
        for entry in entries
    )


def _count(
    rows: pa.Table, run: str, hiding: list[Hiding], counts: dict[str, dict[str, Counter[int]]]
) -> None:
    for position, hider in enumerate(hiding):
        counted = hidden_rows(visible(rows, run, hiding[:position]), hider)
        run_counts = counts[hider.entry.id]
        run_counts[run] = run_counts.get(run, Counter()) + counted


def at_another_pace(
    state: ArchiveState, before: UpdateCalendar, after: UpdateCalendar
) -> ArchiveState:
    """The state with the rates of windows of a number of rows, which are by update."""
    if before == after:
        return state
    assert isinstance(before, FixedIntervals)
    assert isinstance(after, FixedIntervals)
    factor = after.interval / before.interval
    paced = {
        name: [position, None if rate is None else rate * factor]
        for name, (position, rate) in state.positions.items()
    }
    return replace(state, positions=paced)
