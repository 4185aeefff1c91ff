"""Rows of intervals that are not over yet: kept beside the archive until they become an update.

Idea: a stream brings rows in batches that know nothing of the archive's intervals. Each batch is
committed to a small repository of its own, ``staged/<name>/``, with the rows of each interval in a
group of their own, the number of the batch and the stream's clock. Updates take whole groups.
Invariant: a row is staged once (a batch whose number is not new is skipped) and leaves once:
the update's commit names the staged version it has taken in, and the groups up to that update are
dropped only then. A crash in between is made up for by ``forget_taken``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mayfly.archive.model.settings import ArchiveSettings
from mayfly.display import counted
from mayfly.errors import InvalidSetting
from mayfly.faults import reach
from mayfly.storage import (
    AddSegments,
    DropSegments,
    Edit,
    Manifest,
    Repository,
    Segment,
    SetProperties,
    vacuum,
)
from mayfly.storage.directory import Directory

STAGED, SINKS, DAY = "staged", "sinks", "day"
LETTERS = "dead"
"""The group of rows that are left out, until they are delivered as dead letters."""
MERGED_AT = 32
"""So many files of one level and interval become one of the next."""


@dataclass(frozen=True)
class Brought:
    """What a stream has brought so far."""

    batch: int = -1
    source: str | None = None
    """What numbers the batches: the id of a streaming query or of a checkpoint's query."""
    place: str | None = None
    """Where that checkpoint was when the last batch came."""
    clock: int | None = None
    """Intervals that end before it are over, µs."""
    rows: int = 0
    late: int = 0
    """Rows that came after the update of their interval and found no place."""
    dead: int = 0
    """Rows that had expired when they came."""
    beyond: int = 0
    """Rows later than the wall clock plus MAX GAP, too far ahead to be true."""


@dataclass(frozen=True)
class Staging:
    """The staged rows of one stream."""

    name: str
    repository: Repository

    @staticmethod
    def at(root: str | os.PathLike[str], name: str, *, sync: bool = True) -> Staging:
        """The staging of this name in an archive's directory, made if there is none."""
        if not re.fullmatch(r"[A-Za-z0-9][\w-]*", name):
            raise InvalidSetting(
                f"{name!r} cannot name a sink", "use letters, digits, _ and -, a letter first"
            )
        folder = f"{os.fspath(root)}/{STAGED}/{name}"
        if Repository.exists(folder):
            return Staging(name, Repository.open(folder, sync=sync))
        properties = {"kind": STAGED, **asdict(Brought())}
        return Staging(name, Repository.create(folder, properties, sync=sync))

    def current(self) -> Manifest:
        return self.repository.current()

    def add(
        self, base: Manifest, segments: Sequence[Segment], dropped: Sequence[Segment], now: Brought
    ) -> Manifest:
        """Commit a batch: its rows, and what the stream has brought with it."""
        edits: list[Edit] = [
            AddSegments(tuple(segments)),
            DropSegments.of(dropped),
            SetProperties(asdict(now)),
        ]
        committed = self.repository.commit(base, edits)
        reach("staging.committed")
        return committed

    def taken(self, base: Manifest, update: int) -> dict[str, Any]:
        """The note by which an update's commit says what it has taken in."""
        return {"staged_version": base.version, "update": update}

    def forget_taken(self, notes: Mapping[str, Any]) -> Manifest:
        """Drop what the archive says it has taken in, if that is still to be done."""
        base = self.current()
        note = notes.get(self.name)
        if note is None or note["staged_version"] != base.version:
            return base
        gone = [
            segment
            for day, held in days_of(base).items()
            for segment in held
            if day <= note["update"]
        ]
        committed = self.repository.commit(base, [DropSegments.of(gone)])
        reach("staging.dropped")
        # One stream has one writer, and it is here: nothing unnamed is still being written.
        vacuum(self.repository, keep_versions=1, grace=0)
        return committed


def brought(manifest: Manifest) -> Brought:
    """What the stream has brought, as of this version."""
    stored = manifest.properties
    return Brought(**{name: stored[name] for name in asdict(Brought()) if name in stored})


def day_group(day: int) -> str:
    return f"{DAY}/{day}"


def days_of(manifest: Manifest) -> dict[int, list[Segment]]:
    """The staged files of each interval, in order of time."""
    segments_by_day: dict[int, list[Segment]] = {}
    for segment in manifest.in_group(DAY):
        segments_by_day.setdefault(int(segment.group.partition("/")[2]), []).append(segment)
    return dict(sorted(segments_by_day.items()))


def due_for_merge(segments: Iterable[Segment]) -> list[Segment]:
    """The files of the lowest level that has gathered enough of them; empty if none has."""
    levels: dict[int, list[Segment]] = {}
    for segment in segments:
        levels.setdefault(segment.level, []).append(segment)
    for level in sorted(levels):
        if len(levels[level]) >= MERGED_AT:
            return levels[level]
    return []


def require_nothing_staged(root: str, before: ArchiveSettings, after: ArchiveSettings) -> None:
    """Refuse changes of how rows are taken in while some wait that were staged by the old rule:
    they are sorted by the numbers of updates, and were found fit for the old lifetimes."""
    if before.family.name == after.family.name and before.calendar == after.calendar:
        return
    for name, figures in staged_figures(root).items():
        if rows := figures["staged_rows"]:
            raise InvalidSetting(
                f"the sink {name} holds {counted(rows, 'row')} back until the interval ends, so "
                "neither the times of updates nor the kind of lifetimes can change now",
                f'take them in first: stop the stream and call sink("{name}").flush()',
            )


def staged_repositories(root: str) -> dict[str, Repository]:
    """Where streams into the archive have staged rows, by the names of their sinks."""
    places = {name: f"{root}/{STAGED}/{name}" for name in Directory.at(root).entries(STAGED)}
    return {
        name: Repository.open(place) for name, place in places.items() if Repository.exists(place)
    }


def staged_figures(root: str) -> dict[str, dict[str, Any]]:
    """What every stream into the archive has brought, and what of it still waits."""
    figures = {}
    for name, repository in staged_repositories(root).items():
        manifest = repository.current()
        days = days_of(manifest)
        held = [segment for files in days.values() for segment in files]
        figures[name] = {
            **asdict(brought(manifest)),
            "staged_rows": sum(segment.rows for segment in held),
            "staged_bytes": sum(segment.bytes for segment in held),
            "staged_updates": list(days),
        }
    return figures
