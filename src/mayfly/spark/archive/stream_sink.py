"""Streams into an archive: staged batch by batch, taken in when an interval is over.

A micro-batch is staged by one job that writes its rows where they are, one file per interval and
task; the driver commits them together with the batch's number and the clock. Then every interval
that the clock has passed becomes an update over its staged files. Each step may be the last before
a crash: a batch that is staged is not staged again, and an interval that was taken in is dropped.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame

from mayfly.archive.model.admission import AdmissionSummary, LateRows, Verdict, total
from mayfly.archive.model.calendar import UpdateCalendar
from mayfly.archive.model.declaration import columns_of
from mayfly.archive.write.part_writer import PartResult
from mayfly.archive.write.staged_row_writer import REASON, MergeFiles, StageRows
from mayfly.archive.write.staged_rows import (
    LETTERS,
    SINKS,
    Brought,
    Staging,
    brought,
    days_of,
    due_for_merge,
)
from mayfly.archive.write.update_report import UpdateReport
from mayfly.errors import BadInput, CommitConflict, InvalidSetting, LimitExceeded, MayflyError
from mayfly.faults import reach
from mayfly.lifetime import (
    MIN_TIME,
    NEVER,
    Duration,
    duration,
    format_micros,
    gap_of,
    last_likely,
)
from mayfly.plan.added_columns import free_name
from mayfly.plan.expressions import quoted
from mayfly.spark.archive.file_checks import check_files
from mayfly.spark.archive.frames import stored_ddl
from mayfly.spark.archive.jobs import (
    RESULT,
    decode_result,
    encode_failure,
    encode_result,
    in_columns,
)
from mayfly.spark.io.sinks import Delivery, Unfinished, write_parquet
from mayfly.storage import EXP, TS, Manifest, Segment, segment_batches
from mayfly.storage.store import local_root

if TYPE_CHECKING:
    from mayfly.spark.archive.archives import SparkArchive

_QUERY_ID = "sql.streaming.queryId"
RESULTS = "results"
"""The name of the sink through which a continuous query is archived."""
ATTEMPTS = 3
"""How often an update that lost a race to another writer is tried."""


@dataclass(frozen=True)
class ArchiveSink:
    """Takes micro-batches in; give it to ``foreachBatch``, or call ``accept``."""

    archive: SparkArchive
    staging: Staging
    slack: int = 0
    fail_on_late: bool = False
    max_gap: int | None = None
    dead_letter: Path | None = None
    """Where rows that are left out go, with the reason."""
    wall_clock: Callable[[], int] = lambda: time.time_ns() // 1000

    @staticmethod
    def of(
        archive: SparkArchive,
        name: str,
        *,
        slack: Duration = 0,
        late: str = "count",
        max_gap: Duration | None = None,
        dead_letter: str | os.PathLike[str] | None = None,
    ) -> ArchiveSink:
        if late not in ("count", "error"):
            raise InvalidSetting(f"late rows cannot be treated as {late!r}", "use count or error")
        if dead_letter is not None and archive.settings.contract.erased_within is not None:
            raise InvalidSetting(
                f"dead letters are to be kept in {dead_letter}, but the archive promises "
                f"{archive.settings.contract}: they would never go",
                "leave them out, or give the archive a contract without PHYSICAL",
            )
        directory = archive.repository.directory
        return ArchiveSink(
            archive,
            Staging.at(directory.address, name, sync=directory.sync),
            duration(slack),
            late == "error",
            gap_of(max_gap),
            None if dead_letter is None else local_root(dead_letter),
        )

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """One micro-batch, as ``foreachBatch`` brings it."""
        context = batch.sparkSession.sparkContext
        self.accept(batch, batch_id, source=context.getLocalProperty(_QUERY_ID))

    def status(self) -> Brought:
        """What the stream has brought so far."""
        return brought(self.staging.current())

    def accept(
        self,
        batch: DataFrame | None,
        batch_id: int,
        *,
        source: str | None = None,
        place: str | None = None,
        clock: int | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> list[UpdateReport]:
        """Stage a batch unless it is staged, then run the updates that are due.

        ``source`` tells who numbers the batches, ``place`` where that checkpoint is; ``clock``
        promises that no row before it is still to come, in place of the largest time less the
        slack. When ``stopping`` says so, ``Unfinished`` is raised in place of the next update.
        """
        base = self.staging.forget_taken(self._notes())
        before = brought(base)
        self._require_same_source(before, source)
        if batch_id > before.batch:
            now = replace(before, batch=batch_id, source=source or before.source, place=place)
            base = self._stage(base, now, batch, clock)
        self._deliver_letters(base)
        return self._take_in(base, brought(base).clock, stopping)

    def flush(self) -> list[UpdateReport]:
        """Take in what is staged although its interval may not be over.

        Rows of that interval that come later are late.
        """
        base = self.staging.forget_taken(self._notes())
        days = days_of(base)
        if not days:
            return []
        end = self.archive.settings.calendar.time_of(max(days))
        return self._take_in(base, end + 1)

    # -- staging -----------------------------------------------------------------------------

    def _stage(
        self, base: Manifest, now: Brought, batch: DataFrame | None, clock: int | None
    ) -> Manifest:
        results: list[PartResult] = []
        if batch is not None:
            self._settle_origin(batch)
            results = self._write(batch)
        added = [segment for result in results for segment in result.segments]
        try:
            now = self._counted(now, total(result.summary for result in results))
            staged = [segment for segment in added if segment.group != LETTERS]
            now = replace(now, clock=self._clock(now.clock, staged, clock))
        except MayflyError:
            for segment in added:
                self.staging.repository.directory.remove(segment.path)
            raise
        reach("staging.written")
        delivered = list(base.in_group(LETTERS))
        return self._merge_small_files(self.staging.add(base, added, delivered, now))

    def _deliver_letters(self, base: Manifest) -> None:
        """Write the dead letters of the last batch to a file of its number; again after a crash."""
        held = list(base.in_group(LETTERS))
        if self.dead_letter is None or not held:
            return
        directory, batch = self.staging.repository.directory, brought(base).batch
        rows = pa.Table.from_batches(
            b for segment in held for b in segment_batches(directory, segment)
        )
        rows = rows.append_column(free_name("reason", rows.column_names), rows[REASON])
        rows = rows.drop_columns([TS, EXP, REASON])
        archive = self.archive.repository.directory.name
        name = f"{archive}-{self.staging.name}-{batch:012d}.parquet"
        write_parquet(self.dead_letter / name, rows.schema, iter(rows.to_batches()))

    def _settle_origin(self, batch: DataFrame) -> None:
        """An open origin: the first interval is the one of the first batch, less the slack."""
        archive = self.archive
        if archive.updates.are_counted:
            return
        first = archive.on_spark.earliest(batch, archive.settings)
        if first is not None and first <= self._beyond():
            archive.updates.count_from(first - self.slack)

    def _beyond(self) -> int:
        """Rows after this instant are too far ahead to be true."""
        own = self.archive.settings.max_gap
        return last_likely(self.wall_clock(), own if self.max_gap is None else self.max_gap)

    def _write(self, batch: DataFrame) -> list[PartResult]:
        version = self.archive.version()
        directory = self.staging.repository.directory
        beyond = self._beyond()
        task = _Worker(
            StageRows(
                directory.address,
                directory.sync,
                version.settings,
                version.state.update,
                beyond,
                self.dead_letter is not None,
            )
        )
        rows = in_columns(batch, version.settings)
        width = max(version.settings.parts, batch.sparkSession.sparkContext.defaultParallelism)
        written = rows.coalesce(width).mapInArrow(task, f"{RESULT} STRING").collect()
        return [decode_result(row[0]) for row in written]

    def _counted(self, now: Brought, summary: AdmissionSummary) -> Brought:
        counts = dict(summary.counts)
        late, beyond = counts.pop(Verdict.LATE_REFUSED, 0), counts.pop(Verdict.BEYOND_GAP, 0)
        if late and self.fail_on_late:
            summary.require_none_refused(self.archive.version().state.update + 1)
        replace(summary, counts=counts).require_none_refused(
            self.archive.version().state.update + 1
        )
        return replace(
            now,
            rows=now.rows + summary.rows,
            late=now.late + late,
            dead=now.dead + summary.dead_on_arrival,
            beyond=now.beyond + beyond,
        )

    def _clock(
        self, before: int | None, added: Sequence[Segment], promised: int | None
    ) -> int | None:
        reached = [segment.ts.high - self.slack for segment in added] if promised is None else []
        if promised is not None and promised > MIN_TIME:
            reached.append(min(promised, self._beyond()))
        after = max([*reached, *([] if before is None else [before])], default=None)
        moved = 0 if before is None or after is None else after - before
        if self.max_gap is not None and self.max_gap != NEVER and moved > self.max_gap:
            raise LimitExceeded(
                f"a batch moves the clock of sink {self.staging.name} by {format_micros(moved)}, "
                f"more than max_gap = {format_micros(self.max_gap)}: rows would expire early",
                "filter rows with impossible times out of the stream, or raise max_gap",
            )
        return after

    def _merge_small_files(self, base: Manifest) -> Manifest:
        """Keep few files per interval, however many batches it takes: a job now and then."""
        directory = self.staging.repository.directory
        for held in days_of(base).values():
            while files := due_for_merge(held):
                task = _Worker(MergeFiles(directory.address, directory.sync, tuple(files)))
                frame = self.archive.spark.range(0, 1, 1, 1)
                written = frame.mapInArrow(task, f"{RESULT} STRING").collect()
                results = [decode_result(row[0]) for row in written]
                added = [segment for result in results for segment in result.segments]
                base = self.staging.add(base, added, files, brought(base))
                held = [*(segment for segment in held if segment not in files), *added]
        return base

    # -- updates -----------------------------------------------------------------------------

    def _take_in(
        self,
        base: Manifest,
        clock: int | None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> list[UpdateReport]:
        """Run the updates of all intervals that end before the clock."""
        reports: list[UpdateReport] = []
        while clock is not None and self.archive.updates.are_counted:
            version = self.archive.version()
            state, calendar = version.state, version.settings.calendar
            closed = calendar.update_of(clock) - 1
            base = self._drop_stranded(base, state.update)
            if closed <= state.update:
                break
            if stopping():
                raise Unfinished
            waiting = [day for day in days_of(base) if state.update < day <= closed]
            number = min(waiting, default=closed)
            try:
                reports.append(self._update(base, number, calendar))
            except CommitConflict:
                if self.archive.settings.calendar == calendar:
                    raise
            base = self.staging.forget_taken(self._notes())
        return reports

    def _update(self, base: Manifest, number: int, calendar: UpdateCalendar) -> UpdateReport:
        files = [
            segment for day, held in days_of(base).items() for segment in held if day <= number
        ]
        rows = self._frame(files) if files else None
        note = {SINKS: {**self._notes(), self.staging.name: self.staging.taken(base, number)}}
        reach("staging.before-update")
        for attempt in range(1, ATTEMPTS + 1):
            try:
                report = self.archive.update(
                    rows, update=number, properties=note, calendar=calendar
                )
                reach("staging.taken")
                return report
            except CommitConflict:
                now = self.archive.version()
                moved = now.state.update >= number or now.settings.calendar != calendar
                if moved or attempt == ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    def _drop_stranded(self, base: Manifest, update: int) -> Manifest:
        """Count staged rows as late whose update another writer has run meanwhile."""
        if self.archive.settings.late is not LateRows.REFUSE:
            return base
        stranded = [
            segment for day, held in days_of(base).items() for segment in held if day <= update
        ]
        if not stranded:
            return base
        rows = sum(segment.rows for segment in stranded)
        if self.fail_on_late:
            raise BadInput(
                f"{rows} staged rows belong to update {update} or earlier, which was run without "
                "them",
                'roll the archive back, or take the sink up again with late="count"',
            )
        now = brought(base)
        return self.staging.add(base, (), stranded, replace(now, late=now.late + rows))

    def _frame(self, files: Sequence[Segment]) -> DataFrame:
        settings, directory = self.archive.settings, self.staging.repository.directory
        check_files(self.archive.spark, directory, files, again=True)
        paths = [directory.address_of(segment.path) for segment in files]
        rows = self.archive.spark.read.schema(stored_ddl(settings)).parquet(*paths)
        return rows.select(*settings.all_columns)

    def _notes(self) -> Mapping[str, Any]:
        notes: Mapping[str, Any] = self.archive.version().manifest.properties.get(SINKS, {})
        return notes

    def _require_same_source(self, before: Brought, source: str | None) -> None:
        if source is None or before.source in (None, source):
            return
        raise InvalidSetting(
            f"the sink {self.staging.name} of {self.archive.repository.directory.address} is fed "
            "by another streaming query: its checkpoint is new, so its batches are numbered anew, "
            "and rows could be archived twice or left out",
            "start the query with its old checkpoint, or give the sink another name",
        )


@dataclass(frozen=True)
class ArchivedResults:
    """A sink of a continuous query: its results are archived by the instant they were generated.

    The archive decides how long they stay: the last W intervals, whatever their expiration.
    """

    sink: ArchiveSink
    source: str
    """What the query is known by, wherever its checkpoint is."""
    checkpoint: str
    wants_every_batch = True

    def hand_over(self, delivery: Delivery, rows: DataFrame | None) -> None:
        """Archive what became of the results of a batch."""
        self.sink.accept(
            rows,
            delivery.batch_id,
            source=self.source,
            place=self.checkpoint,
            clock=delivery.clock,
            stopping=delivery.stopping,
        )

    @staticmethod
    def of(
        archive: SparkArchive,
        results: str,
        source: str,
        checkpoint: str,
        dead_letter: str | None = None,
    ) -> ArchivedResults:
        """``results`` are the query's columns as DDL; the archive must have a choice of them."""
        types, columns = columns_of(results), archive.settings.all_columns
        missing = [f"{name} {kind}" for name, kind in columns.items() if types.get(name) != kind]
        if missing:
            raise InvalidSetting(
                f"the query's results lack columns of the archive: {', '.join(missing)}",
                f"the results have {', '.join(f'{n} {k}' for n, k in types.items())}",
            )
        # The streams of the query have a MAX GAP of their own: only one that is given counts here.
        gap = None if archive.settings.max_gap is not None else "none"
        sink = archive.sink(RESULTS, max_gap=gap, dead_letter=dead_letter)
        return ArchivedResults(sink, source, checkpoint)

    def deliver(self, delivery: Delivery) -> None:
        rows = None
        if delivery.rows:
            columns = (quoted(name) for name in self.sink.archive.settings.all_columns)
            rows = delivery.frame().select(*columns)
        self.hand_over(delivery, rows)


@dataclass(frozen=True)
class _Worker:
    """Runs a piece of work over the rows of a task and brings its result back as text."""

    work: StageRows | MergeFiles

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            text = encode_result(self.work.run(batches))
        except MayflyError as error:
            text = encode_failure(error)
        yield pa.RecordBatch.from_arrays([pa.array([text])], names=[RESULT])
