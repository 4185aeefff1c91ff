"""An archive: rows with lifetimes on disk, refreshed update by update, read by key and time.

The archive decides; an executor carries out. What an update has to write is a plan over runs
(``layouts.run_plan``); the executor writes it part by part, in this process or on Spark; the
archive commits the result as one version. The new day is queryable after the first commit; work
for later days (pre-transition) follows in a second one, and is made up for after a crash.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol, Self

import pyarrow as pa

from mayfly.archive.accounting import UpdateReport as UpdateReport
from mayfly.archive.accounting import account, moved, rows_by_day
from mayfly.archive.admission import AdmissionSummary, LateRows, total
from mayfly.archive.care import Care
from mayfly.archive.insight import Insight
from mayfly.archive.layouts.doubly_partitioned import PartitionedLayout
from mayfly.archive.origin import ORIGIN_IS_OPEN, CountedFrom
from mayfly.archive.planning import PlannedCommit, plan_cells, plan_next, plan_rest, write_job
from mayfly.archive.reading import KeyRange, Reader, ReadReport, Selection
from mayfly.archive.reports import REPORTS, reports_after
from mayfly.archive.sequence import take_turn
from mayfly.archive.settings import ArchiveSettings
from mayfly.archive.state import RUN, ArchiveState, ArchiveVersion
from mayfly.archive.writing import PartResult, WriteJob
from mayfly.errors import (
    CommitConflict,
    CorruptFile,
    InvalidSetting,
    ProtocolError,
    StorageError,
    VersionExpired,
)
from mayfly.faults import reach
from mayfly.lifetime import instant
from mayfly.storage import (
    AddSegments,
    DropSegments,
    Manifest,
    Pin,
    Repository,
    SetProperties,
)

ARCHIVE = "archive"
Moment = int | str | datetime
ATTEMPTS = 100
"""How often a version may be vacuumed between the look for it and its pin."""


class Executor(Protocol):
    """Carries out write jobs over batches of its own kind (Arrow tables, DataFrames)."""

    def earliest(self, batch: Any, settings: ArchiveSettings) -> int | None:
        """The smallest generation time in the batch, None if it has none."""

    def late_days(self, batch: Any, settings: ArchiveSettings, update: int) -> frozenset[int]:
        """Earlier updates that rows of the batch belong to."""

    def write(self, batch: Any | None, job: WriteJob) -> list[PartResult]:
        """Run the job on every part and bring back one result per part."""


@dataclass
class Archive(Insight, CountedFrom, Care):
    """An open archive. Make one with ``create`` or ``open``."""

    repository: Repository
    executor: Executor
    _cached: tuple[int, ArchiveVersion] | None = field(default=None, repr=False)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        settings: ArchiveSettings,
        executor: Executor,
        *,
        origin_is_open: bool = False,
        sync: bool = True,
    ) -> Self:
        """Make an empty archive; an open origin is decided by the first update."""
        properties = {
            "kind": ARCHIVE,
            "archive": settings.to_json(),
            "state": ArchiveState().to_json(),
            ORIGIN_IS_OPEN: origin_is_open,
        }
        return cls(Repository.create(path, properties, sync=sync), executor)

    @classmethod
    def open(cls, path: str | os.PathLike[str], executor: Executor, *, sync: bool = True) -> Self:
        """Open an archive, also one whose newest manifest is damaged: it can be rolled back."""
        repository = Repository.open(path, sync=sync)
        kind = _readable(repository).properties.get("kind")
        if kind != ARCHIVE:
            raise StorageError(
                f"{repository.directory.root} holds a {kind}, not an archive", "check the path"
            )
        return cls(repository, executor)

    # -- state -------------------------------------------------------------------------------

    def version(self) -> ArchiveVersion:
        """The current version; its manifest is read only when it has changed."""
        if self._cached is None or self._cached[0] != self.repository.newest():
            manifest = self.repository.current()
            self._cached = (manifest.version, ArchiveVersion.of(manifest))
        return self._cached[1]

    @property
    def settings(self) -> ArchiveSettings:
        return self.version().settings

    # -- updates -----------------------------------------------------------------------------

    def update(
        self,
        batch: Any | None,
        *,
        update: int | None = None,
        at: Moment | None = None,
        batch_id: str | None = None,
        properties: Mapping[str, Any] | None = None,
    ) -> UpdateReport:
        """Insert the rows of one interval and remove what has expired, as one commit.

        The update is the next one, or number ``update``, or the one whose interval holds ``at``;
        missed updates before it run as empty ones in the same commit. ``None`` is an empty
        batch. A ``batch_id`` that is already committed does nothing. ``properties`` become part
        of the same commit.
        """
        self.prepare()
        version = self.with_origin(batch, None if at is None else instant(at))
        state = version.state
        number = self._number(version, update, at)
        turn = take_turn(number, batch_id or f"update {number}", state.update, state.batches)
        if turn.repeated:
            return UpdateReport(turn.update, repeated=True)
        began = time.perf_counter()
        planned = self._planned(batch, version, turn.empty_updates, number)
        results = self._execute(batch, version, planned)
        summary = total(result.summary for result in results)
        self._require_admissible(summary, number, results)
        planned = planned.settled(results)
        reach("archive.written")
        rows = rows_by_day(version, planned, results)
        report = account(version, planned, summary, results)
        seconds = round(time.perf_counter() - began, 6)
        report = replace(report, transition_seconds=seconds)
        following = ArchiveState(
            wave=planned.after,
            runs=planned.runs,
            day_rows=rows,
            batches={**state.batches, turn_id(batch_id, number): number},
            prepared=planned.complete,
            report=asdict(report),
        )
        self._commit(version, following, results, properties)
        reach("archive.committed")
        prepared = self.prepare()
        self.tidy()
        return replace(report, **prepared) if prepared else report

    def _planned(
        self, batch: Any | None, version: ArchiveVersion, missed: range, number: int
    ) -> PlannedCommit:
        settings, late = version.settings, frozenset[int]()
        if isinstance(settings.layout, PartitionedLayout):
            return plan_cells(version, settings.layout, number, has_batch=batch is not None)
        if batch is not None and settings.late is LateRows.OWN_DAY:
            late = self.executor.late_days(batch, settings, number) - {number}
        arrived = late | {number} if batch is not None else frozenset[int]()
        return plan_next(settings, version.state, missed, number, arrived, late)

    def prepare(self) -> dict[str, Any]:
        """Do the pre-transition work of the last update if it is still to be done."""
        while not (version := self.version()).state.prepared:
            try:
                return self._prepare(version)
            except CommitConflict:
                continue  # another writer was faster, perhaps with this very work
        return {}

    def _prepare(self, version: ArchiveVersion) -> dict[str, Any]:
        began = time.perf_counter()
        state = version.state
        planned = plan_rest(version.settings, state)
        results = self._execute(None, version, planned)
        done = {
            "pre_transition_seconds": round(time.perf_counter() - began, 6),
            **{name: state.report.get(name, 0) + count for name, count in moved(results).items()},
        }
        reach("archive.prepared")
        following = replace(
            state,
            wave=planned.after,
            runs=planned.runs,
            prepared=True,
            report={**state.report, **done},
        )
        self._commit(version, following, results)
        return done

    def _number(self, version: ArchiveVersion, update: int | None, at: Moment | None) -> int:
        if update is not None and at is not None:
            raise InvalidSetting("both update and at were given", "give one of them")
        if at is not None:
            return version.settings.calendar.update_of(instant(at))
        return version.state.update + 1 if update is None else update

    def _execute(
        self, batch: Any | None, version: ArchiveVersion, planned: PlannedCommit
    ) -> list[PartResult]:
        job = write_job(self.repository.directory, version, planned)
        if not job.writes and batch is None:
            return []
        results = self.executor.write(batch, job)
        found = sorted(result.part for result in results)
        if found != list(range(version.settings.parts)):
            raise ProtocolError(
                f"results came for parts {found}, not for all {version.settings.parts}",
                "nothing was committed; run the update again",
            )
        return results

    def _require_admissible(
        self, summary: AdmissionSummary, number: int, results: Sequence[PartResult]
    ) -> None:
        if summary.refused:
            for result in results:
                for segment in result.segments:
                    self.repository.directory.remove(segment.path)
        summary.require_none_refused(number)

    def _commit(
        self,
        version: ArchiveVersion,
        following: ArchiveState,
        results: Sequence[PartResult],
        properties: Mapping[str, Any] | None = None,
    ) -> Manifest:
        used = following.used_runs()
        dropped = [
            segment
            for segment in version.manifest.in_group(RUN)
            if segment.group.partition("/")[2] not in used
        ]
        added = tuple(segment for result in results for segment in result.segments)
        return self.repository.commit(
            version.manifest,
            [
                AddSegments(added),
                DropSegments.of(dropped),
                SetProperties(
                    {
                        **(properties or {}),
                        "state": following.to_json(),
                        REPORTS: reports_after(version.manifest.properties, following.report),
                    }
                ),
            ],
        )

    # -- reading -----------------------------------------------------------------------------

    def probe(
        self,
        *keys: Any,
        as_of: Moment | None = None,
        generated_between: tuple[Moment | None, Moment | None] | None = None,
        columns: Sequence[str] | None = None,
        soft: bool = False,
        report: ReadReport | None = None,
    ) -> pa.Table:
        """The rows under these keys that are alive at ``as_of`` (by default the last update)."""

        def read(reader: Reader, moment: int) -> pa.Table:
            return reader.probe(keys, selection(moment, generated_between, soft), columns)

        return self._read(read, as_of, report)

    def probe_range(
        self,
        low: Any = None,
        high: Any = None,
        *,
        as_of: Moment | None = None,
        generated_between: tuple[Moment | None, Moment | None] | None = None,
        columns: Sequence[str] | None = None,
        soft: bool = False,
        report: ReadReport | None = None,
    ) -> pa.Table:
        """The rows whose first key column lies between ``low`` and ``high``, both included."""

        def read(reader: Reader, moment: int) -> pa.Table:
            wanted = selection(moment, generated_between, soft)
            return reader.probe_range(KeyRange(low, high), wanted, columns)

        return self._read(read, as_of, report)

    def scan(
        self,
        *,
        as_of: Moment | None = None,
        generated_between: tuple[Moment | None, Moment | None] | None = None,
        columns: Sequence[str] | None = None,
        soft: bool = False,
        report: ReadReport | None = None,
    ) -> pa.Table:
        """All rows alive at ``as_of``."""

        def read(reader: Reader, moment: int) -> pa.Table:
            return reader.scan(selection(moment, generated_between, soft), columns)

        return self._read(read, as_of, report)

    def scan_tables(self, *, as_of: Moment | None = None, soft: bool = False) -> Iterator[pa.Table]:
        """All rows alive at ``as_of``, file by file, for archives larger than memory."""
        pin, moment = self.pin_at(as_of)
        with pin as manifest:
            wanted = ArchiveVersion.of(manifest)
            reader = Reader(self.repository.directory, wanted)
            for table in reader.scan_tables(selection(moment, None, soft)):
                yield table.select(list(wanted.settings.all_columns))

    def pin(self, version: int | None = None) -> Pin:
        """Keep a version readable across updates and vacuums until the pin is released."""
        return self.repository.pin(version)

    def pin_at(self, as_of: Moment | None = None) -> tuple[Pin, int]:
        """A pin on the version that shows ``as_of`` (by default the last update), and the instant.

        Where a vacuum takes the version away before the pin is written, the newest is asked again.
        """
        for _ in range(ATTEMPTS):
            wanted, moment = self.shown_at(as_of)
            try:
                return self.pin(wanted.manifest.version), moment
            except VersionExpired:
                continue
        raise StorageError(
            f"versions of {self.repository.directory.root} vanish faster than they can be read",
            "keep more versions (keep_versions)",
        )

    def shown_at(self, as_of: Moment | None) -> tuple[ArchiveVersion, int]:
        """The version that shows ``as_of`` (by default the last update), and the instant."""
        if as_of is None:
            version = self.version()
            return version, version.time
        moment = instant(as_of)
        return self.version_at(moment), moment

    def version_at(self, as_of: int) -> ArchiveVersion:
        """The newest retained version whose update is not later than ``as_of``."""
        current = self.version()
        if current.time <= as_of or current.state.update == 0:
            return current
        for number in reversed(self.repository.versions()):
            version = ArchiveVersion.of(self.repository.load(number))
            if version.state.update == 0 or version.time <= as_of:
                return version
        raise VersionExpired(
            f"no retained version of {self.repository.directory.root} is as old as {as_of}",
            "ask for a later instant, or keep more versions (keep_versions)",
        )

    def _read(
        self,
        read: Callable[[Reader, int], pa.Table],
        as_of: Moment | None,
        report: ReadReport | None,
    ) -> pa.Table:
        """A short read without a pin; one that loses its files to a vacuum starts anew, pinned."""
        wanted, moment = self.shown_at(as_of)
        found = ReadReport()
        try:
            rows = read(Reader(self.repository.directory, wanted, report=found), moment)
        except CorruptFile:
            if self.repository.newest() == wanted.manifest.version:
                raise
            pin, moment = self.pin_at(as_of)
            with pin as manifest:
                version, found = ArchiveVersion.of(manifest), ReadReport()
                rows = read(Reader(self.repository.directory, version, report=found), moment)
        if report is not None:
            report.take(found)
        return rows


def _readable(repository: Repository) -> Manifest:
    """The newest manifest that can be read."""
    try:
        return repository.current()
    except CorruptFile as damage:
        for number in reversed(repository.versions()):
            with contextlib.suppress(CorruptFile, VersionExpired):
                return repository.load(number)
        raise damage


def turn_id(batch_id: str | None, number: int) -> str:
    return batch_id or f"update {number}"


def selection(
    as_of: int, between: tuple[Moment | None, Moment | None] | None, soft: bool
) -> Selection:
    low, high = between or (None, None)
    return Selection(
        as_of,
        None if low is None else instant(low),
        None if high is None else instant(high),
        soft,
    )
