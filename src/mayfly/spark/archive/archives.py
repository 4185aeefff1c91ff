"""Archives on Spark: updated by jobs over DataFrames, read as Arrow tables or DataFrames."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from mayfly.archive.archive import Archive
from mayfly.archive.leases import lease
from mayfly.archive.model.admission import EXAMPLES_SHOWN, AdmissionSummary, RefusedRow, Verdict
from mayfly.archive.model.state import ArchiveVersion
from mayfly.archive.read.questions import Moment, selection
from mayfly.archive.read.selection import ReadReport, Window
from mayfly.archive.read.version_reader import Reader
from mayfly.archive.write.committer import Executor
from mayfly.archive.write.local_jobs import as_declared
from mayfly.archive.write.update_report import UpdateReport
from mayfly.errors import BadInput, InvalidSetting
from mayfly.keywords import known_settings
from mayfly.lifetime import NEVER, Duration, gap_of, in_zone, last_likely
from mayfly.spark.archive.frames import archive_frame, frame_request
from mayfly.spark.archive.jobs import OnSpark, time_micros
from mayfly.spark.archive.stream_sink import ArchiveSink
from mayfly.storage import Pin, Repository


class SparkArchive(Archive):
    """An archive that is updated by Spark jobs and can be read as DataFrames.

    Make one with ``Session.create_archive`` or ``Session.open_archive``.
    """

    def __init__(self, repository: Repository, executor: Executor) -> None:
        super().__init__(repository, executor)
        self.updates.incoming = self._rows
        self._pins: dict[int, Pin] = {}

    @property
    def on_spark(self) -> OnSpark:
        assert isinstance(self.executor, OnSpark)
        return self.executor

    @property
    def spark(self) -> SparkSession:
        return self.on_spark.spark

    # -- updates -----------------------------------------------------------------------------

    @known_settings()
    def load(
        self,
        batch: Any,
        *,
        done: Callable[[UpdateReport], object] | None = None,
        max_gap: Duration | None = None,
    ) -> list[UpdateReport]:
        """One update for every interval that rows belong to, in order; gaps become empty updates.

        The batch is read once per interval, so cache it if it is costly to make. Rows of updates
        that were done before come with the first new one, under the archive's rule for late
        rows. ``done`` is called after each update. Rows later than the wall clock plus ``max_gap``
        (the archive's own or a day, if it does not say; "none" for no limit) are refused with the
        whole batch: they would move the archive there and let everything expire.
        """
        rows = self._rows(batch)
        assert rows is not None
        trusted = self._check_ahead(rows, max_gap) == NEVER
        version = self.updates.begin(rows, checked=True)
        settings, before = version.settings, version.state.update
        coming = [day for day in self.on_spark.days(rows, settings) if day > before]
        if not coming:
            raise BadInput(
                f"no row is newer than update {before}, the last one",
                "send rows of later intervals; late rows come along with them, or with "
                "update(…, update=…)",
            )
        reports = []
        for day in coming:
            until = settings.calendar.time_of(day)
            own = f"{time_micros(settings)} <= {until}"
            if day == coming[0]:
                own = f"({own} OR {time_micros(settings)} IS NULL)"
            else:
                own += f" AND {time_micros(settings)} > {settings.calendar.time_of(day - 1)}"
            part = rows.where(own)
            # Without a limit no number is too far ahead: the update is named by its time.
            number, instant = (None, until) if trusted else (day, None)
            reports.append(self.update(part, update=number, at=instant, calendar=settings.calendar))
            if done is not None:
                done(reports[-1])
        return reports

    def _check_ahead(self, rows: DataFrame, max_gap: Duration | None) -> int:
        """Refuse rows that are too far ahead to be true; the last instant that is not."""
        now = time.time_ns() // 1000
        settings = self.version().settings
        beyond = last_likely(now, settings.max_gap if max_gap is None else gap_of(max_gap))
        if beyond == NEVER:
            return beyond
        far = rows.where(f"{time_micros(settings)} > {beyond}")
        shown = list(dict.fromkeys([*settings.key, settings.time]))
        examples = far.select(*shown).limit(EXAMPLES_SHOWN).toArrow().to_pylist()
        if examples:
            seen = tuple(RefusedRow(position, row) for position, row in enumerate(examples))
            counts = {Verdict.BEYOND_GAP: far.count()}
            summary = AdmissionSummary(counts, {Verdict.BEYOND_GAP: seen})
            summary.require_none_refused(self.version().state.update + 1)
        return beyond

    @known_settings()
    def sink(
        self,
        name: str = "stream",
        *,
        slack: Duration = 0,
        late: str = "count",
        max_gap: Duration | None = None,
        dead_letter: str | os.PathLike[str] | None = None,
    ) -> ArchiveSink:
        """Where a stream's micro-batches go: ``df.writeStream.foreachBatch(archive.sink())``.

        Rows are staged until the stream's clock (largest time minus ``slack``) has passed the
        end of their interval; then they become an update. ``name`` keeps several streams apart.
        Late rows follow the archive's rule; where it refuses them they are counted, or, with
        ``late="error"``, stop the stream. Rows later than the wall clock plus ``max_gap`` (the
        archive's own or a day, if it does not say; "none" for no limit) are set aside and counted;
        a batch that moves the clock by more than a ``max_gap`` that is given is refused. With
        ``dead_letter`` such rows and late ones go to Parquet files in that folder, with the reason.
        """
        return ArchiveSink.of(
            self, name, slack=slack, late=late, max_gap=max_gap, dead_letter=dead_letter
        )

    def _rows(self, batch: Any | None) -> DataFrame | None:
        if batch is None:
            return None
        if not isinstance(batch, DataFrame):
            with in_zone(self.spark.conf.get("spark.sql.session.timeZone") or "UTC"):
                return self.spark.createDataFrame(as_declared(batch, self.settings))
        if batch.isStreaming:
            raise InvalidSetting(
                "the DataFrame is streaming",
                "feed it with df.writeStream.foreachBatch(archive.sink())",
            )
        return batch

    # -- DataFrames --------------------------------------------------------------------------

    @known_settings()
    def frame(
        self,
        *,
        keys: Sequence[Any] | None = None,
        key_range: tuple[Any, Any] | None = None,
        as_of: Moment | None = None,
        generated_between: tuple[Moment | None, Moment | None] | None = None,
        window: Window | None = None,
        soft: bool = False,
        report: ReadReport | None = None,
    ) -> DataFrame:
        """The rows alive at ``as_of`` as a DataFrame over the version's Parquet files.

        ``keys`` and ``key_range`` leave out files as a probe does. The version stays readable
        for an hour; call again for the current content. ``report`` counts the files given to
        Spark and their bytes: how many row groups Spark then skips, only Spark knows.
        """
        version, moment = self._held_at(as_of)
        reader = Reader(self.repository.directory, version)
        choice = selection(version.settings, moment, generated_between, soft, window)
        request = frame_request(reader, choice, keys, key_range)
        return archive_frame(self.spark, self.repository.directory, version, request, report)

    def register(self, view: str) -> None:
        """Make the current content a temporary view for Spark SQL, readable for an hour.

        For a table that always shows the last update, see ``mayfly.register``.
        """
        self.frame().createOrReplaceTempView(view)

    def _held_at(self, as_of: Moment | None) -> tuple[ArchiveVersion, int]:
        """The version for ``as_of``, held for an hour from now.

        DataFrames derived from a frame do not keep it alive, so the pin belongs to this handle
        and is left to run out.
        """
        version, moment, pin = lease(self, as_of)
        if pin.held:
            number = version.manifest.version
            if before := self._pins.get(number):
                before.release()
            self._pins[number] = pin
        return version, moment
