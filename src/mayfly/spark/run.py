"""The handle of a running continuous query.

Everything it tells is read from committed manifests, so a handle opened in another process sees
the same as the one that started the query.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from mayfly.errors import CommitConflict, MayflyError, VersionExpired
from mayfly.lifetime import MIN_TIME, format_micros, instant_text
from mayfly.pipeline.clocks import Clocks, closed_instant
from mayfly.spark.causes import own_error
from mayfly.spark.progress import OperatorState, Progress
from mayfly.spark.runner import Runner
from mayfly.storage import Manifest, VacuumReport, VerifyReport, vacuum, verify


@dataclass(frozen=True)
class Status:
    """A running query in figures, as of its last commit."""

    version: int
    batch: int
    clock: int | None
    """Instants before it are closed; None while some stream has sent nothing."""
    gap: int
    """How far the leading stream's clock is ahead of the last one's, µs."""
    rows: dict[str, int]
    late: dict[str, int]
    timeless: dict[str, int]
    null_keys: dict[str, int]
    shed: dict[str, int]
    """Rows left out on purpose, by load shedding."""
    beyond: dict[str, int]
    """Rows later than MAX GAP allows: dead letters, or lost where none are kept."""
    changes: int
    last_changes: int
    state_rows: int
    state_bytes: int
    waiting_rows: int
    segments: int
    log_rows: int
    log_bytes: int
    bucket_rows: list[int]
    """New rows per bucket in the last batch."""
    io: dict[str, int]
    warming_until: int | None = None
    """Answers before this instant lack rows from before the query came; None if none does."""

    refreshes: tuple[int, int] = (0, 0)
    """Refreshes of a query with SLIDE that were answered, and that were passed over on purpose."""

    lag: int | None = None
    """How far the clock is behind the wall clock, µs; None while there is no clock."""

    rate: float = 0.0
    """Rows a second, over the last batches."""

    catch_up: float | None = None
    """Seconds until the clock has caught up with time, as the last batches went; None if it does
    not move much faster than time."""

    batch_seconds: tuple[float, ...] = ()
    """How long the last batches took, the newest last."""

    operators: tuple[OperatorState, ...] = ()
    """What each operator keeps."""

    @property
    def stretch(self) -> float:
        """How many times its declared slide a query was really refreshed after, on average."""
        answered, passed = self.refreshes
        return (answered + passed) / answered if answered else 1.0

    @property
    def skew(self) -> float:
        """The fullest bucket's share of new rows, relative to an even spread (1.0 = even)."""
        total = sum(self.bucket_rows)
        return max(self.bucket_rows) * len(self.bucket_rows) / total if total else 1.0


def status_of(manifest: Manifest) -> Status:
    properties = manifest.properties
    clocks = Clocks.from_json(properties["clocks"])
    state = list(manifest.in_group("state"))
    log = list(manifest.in_group("log"))
    totals, last = properties["totals"], properties["last"]
    return Status(
        version=manifest.version,
        batch=properties["batch"],
        clock=None if clocks.query == MIN_TIME else clocks.query,
        gap=clocks.gap,
        rows=totals["rows"],
        late=totals["late"],
        timeless=totals["timeless"],
        null_keys=totals["null_keys"],
        shed=totals.get("shed", {}),
        beyond=totals.get("beyond", {}),
        changes=totals["changes"],
        last_changes=last["changes"],
        state_rows=sum(segment.rows for segment in state),
        state_bytes=sum(segment.bytes for segment in state),
        waiting_rows=sum(segment.rows for segment in state if "/waiting/" in segment.group),
        segments=len(state),
        log_rows=sum(segment.rows for segment in log),
        log_bytes=sum(segment.bytes for segment in log),
        bucket_rows=last["bucket_rows"],
        io=last["io"],
    )


@dataclass
class Run(ABC):
    """A continuous query that was started: ask it, wait for it, stop it."""

    runner: Runner[Any]
    query: StreamingQuery | None
    drain: bool = field(default=False)
    """Whether the input ends by itself, and the last instant is then closed."""

    @property
    def checkpoint(self) -> str:
        return os.fspath(self.runner.repository.directory.root)

    def status(self) -> Status:
        manifest = self.runner.repository.current()
        return self._getting_on(
            status_of(manifest), manifest, Clocks.from_json(manifest.properties["clocks"])
        )

    def _getting_on(self, found: Status, manifest: Manifest, clocks: Clocks) -> Status:
        """With what the last batches tell of the streams that have these clocks."""
        progress, now = Progress.of(manifest, clocks.streams), self.runner.settings.wall_clock()
        return replace(
            found,
            lag=None if clocks.query == MIN_TIME else now - clocks.query,
            rate=progress.rate,
            catch_up=progress.catch_up,
            batch_seconds=tuple(one.seconds for one in progress.batches),
            operators=self._operators(manifest),
        )

    @abstractmethod
    def _operators(self, manifest: Manifest) -> tuple[OperatorState, ...]:
        """What each operator keeps."""

    @abstractmethod
    def snapshot(self, at: int | str | None = None) -> pa.Table:
        """The answer at a closed instant (by default the last closed one), as Arrow."""

    @abstractmethod
    def snapshot_frame(self, at: int | str | None = None) -> DataFrame:
        """The answer at a closed instant as a Spark DataFrame, read by executors."""

    def view(self, name: str, at: int | str | None = None) -> DataFrame:
        """The answer at a closed instant as a temporary view of the Spark session, for SQL.

        It shows that instant for as long as this handle lives, an hour at most; call it again for
        a later one.
        """
        frame = self.snapshot_frame(at)
        frame.createOrReplaceTempView(name)
        return frame

    @abstractmethod
    def changes(self, since: int | str | None = None, until: int | str | None = None) -> pa.Table:
        """Results generated in ``[since, until)`` with their lifetimes, from the kept history."""

    @abstractmethod
    def changes_frame(
        self, since: int | str | None = None, until: int | str | None = None
    ) -> DataFrame:
        """The same as ``changes`` as a Spark DataFrame, read by executors."""

    @abstractmethod
    def change_batches(self) -> Iterator[pa.RecordBatch]:
        """All kept changes in bounded batches, for logs larger than memory."""

    def await_done(self, timeout: float | None = None) -> bool:
        """Wait until the input has ended (drain) or the query was stopped; False on timeout.

        An error of the query is raised here, as the Mayfly error it was.
        """
        if self.query is None:
            return True
        try:
            done = self._wait(timeout)
        except Exception as error:
            if self.runner.stopping.is_set():
                return True
            raise self._cause(error) from (None if self.runner.error else error)
        if done and self.drain and not self.runner.stopping.is_set():
            self.runner.close_input()
        return bool(done)

    def stop(self) -> None:
        """Stop after the batch that is running; the next start goes on from there.

        The input has not ended, so its last instant stays open. Called by a sink of the query
        itself, it returns at once, and the query ends when its batch has.
        """
        self.drain = False
        if self.runner.in_batch:
            self.runner.end_soon()
        elif self.query is not None:
            self.runner.finish_batch()
            self.query.stop()

    def verify(self) -> VerifyReport:
        """Look into every file of the current version."""
        return verify(self.runner.repository)

    def vacuum(self) -> VacuumReport:
        """Remove what no kept version needs; the query must not be running a batch."""
        return vacuum(self.runner.repository, keep_versions=1, grace=0)

    def _wait(self, timeout: float | None) -> bool:
        assert self.query is not None
        if timeout is None:
            self.query.awaitTermination()
            return True
        return bool(self.query.awaitTermination(timeout))  # type: ignore[arg-type]

    def _cause(self, error: Exception) -> Exception:
        if isinstance(self.runner.error, MayflyError):
            return self.runner.error
        if "CONCURRENT_STREAM_LOG_UPDATE" in str(error):
            return CommitConflict(
                f"another driver is at work on the checkpoint {self.checkpoint}",
                "nothing was lost: let that one go on, or stop it before you start this query",
            )
        if self.runner.error is not None:
            return own_error(self.runner.error) or self.runner.error
        return error

    def _closed_instant(self, manifest: Manifest, at: int | str | None) -> int:
        moment = closed_instant(at, self._clock(manifest))
        kept_from = self._kept_from(manifest)
        if moment < kept_from:
            history = format_micros(self.runner.settings.history)
            raise VersionExpired(
                f"the instant {instant_text(moment)} is older than the kept history of {history}",
                f"ask for {instant_text(kept_from)} or later, or start the query with a longer "
                "history",
            )
        return moment

    @abstractmethod
    def _kept_from(self, manifest: Manifest) -> int:
        """The instant from which the kept history is whole."""

    @abstractmethod
    def _clock(self, manifest: Manifest) -> int:
        """Instants before it are closed."""
