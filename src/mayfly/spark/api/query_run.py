"""The handle of a continuous query: what it answers, how it does, and how it ends.

Everything it tells is read from committed manifests, so a handle opened in another process sees
the same as the one that started the query.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from mayfly.checkpoint.awaited_rows import warming_words
from mayfly.checkpoint.recent_batches import Progress
from mayfly.checkpoint.result_log import LOG
from mayfly.checkpoint.stored_results import EVERYTHING, Extent, check_kept
from mayfly.display import html_table, one_line
from mayfly.errors import CommitConflict, InvalidSetting, MayflyError
from mayfly.lifetime import MIN_TIME, NEVER, format_micros, instant
from mayfly.physical.stages import StagedTask
from mayfly.pipeline.control_requests import Control
from mayfly.plan.added_columns import LifetimeColumns
from mayfly.runtime.clock import closed_instant
from mayfly.spark.api.control_loop import Serving
from mayfly.spark.api.run_status import Status, status_of, waiting_rows
from mayfly.spark.cluster.causes import own_error
from mayfly.spark.io.sinks import Unfinished
from mayfly.spark.stream.query_checkpoint import WHOLE_FROM, RegisteredQueries
from mayfly.spark.stream.results import Results, frame_of
from mayfly.spark.stream.runner import Runner
from mayfly.spark.stream.stage_tasks import SENT
from mayfly.spark.stream.status_figures import REFRESHES, operator_states
from mayfly.storage import Manifest, VacuumReport, VerifyReport, vacuum, verify

QUERY = "query"
"""The name of a query that was started alone."""


@dataclass
class QueryRun:
    """A continuous query that was started: ask it, wait for it, stop it.

    Queries that were started together run and stop together.
    """

    runner: Runner
    query: StreamingQuery | None
    drain: bool = False
    """Whether the input ends by itself, and the last instant is then closed."""
    name: str = QUERY
    register: RegisteredQueries | None = field(default=None, repr=False)
    serving: Serving | None = field(default=None, repr=False)
    """What starts the queries anew when the control log asks for others, if something does."""

    def __repr__(self) -> str:
        return one_line(self, self.name, f"on {self.checkpoint}", self._life())

    def _repr_html_(self) -> str:
        return html_table(
            f"{self.name} on {self.checkpoint}, {self._life()}", self.status().facts()
        )

    def _life(self) -> str:
        if self.query is None:
            return "open for reading"
        return "running" if self.query.isActive else "stopped"

    @property
    def checkpoint(self) -> str:
        return self.runner.repository.directory.address

    def going_on(self, run: QueryRun) -> QueryRun:
        """This handle, for the same query that was started anew."""
        self.runner, self.query, self.register = run.runner, run.query, run.register
        self.drain = run.drain
        return self

    @property
    def results(self) -> Results:
        return self.runner.results[self.name]

    @property
    def times(self) -> LifetimeColumns:
        """What the times of results are called, beside the columns of the query."""
        return self.results.times

    @property
    def since(self) -> int | None:
        """The clock when the query was added to a running pipeline; None if it was there first."""
        return self.results.member.group.since

    @property
    def whole_from(self) -> int | None:
        """The instant from which answers are those of a query that was always there.

        None if this one was. Before ``since`` if the windows it needs were kept when it was added;
        NEVER if some earlier row will always matter.
        """
        return self._whole_from(self.runner.repository.current())

    def _whole_from(self, manifest: Manifest) -> int | None:
        start: int | None = manifest.properties["queries"].get(self.name, {}).get(WHOLE_FROM)
        return start

    @property
    def awaited(self) -> str:
        """Until when earlier rows are missing, in words: over the latest rows, until a row has
        come; empty if none are."""
        manifest = self.runner.repository.current()
        entry = manifest.properties["queries"].get(self.name, {})
        return warming_words(entry, self.results.clocks(manifest).query - 1)

    @property
    def control(self) -> Control:
        """To add and drop queries, change relations, or stop, from here as from elsewhere."""
        return Control(self.runner.repository)

    def status(self) -> Status:
        """This query's changes, streams and state, where what it shares with others counts as its
        own; input and output are those of all queries."""
        manifest = self.runner.repository.current()
        clocks = self.results.clocks(manifest)
        stored_status, now = status_of(manifest), self.runner.settings.wall_clock()
        progress = Progress.of(manifest, clocks.streams)
        names = [f"task/{task.name}" for task in self._tasks()] + [f"{SENT}/{self.name}"]
        state = [segment for name in names for segment in manifest.in_group(f"state/{name}")]
        log = list(manifest.in_group(f"state/{LOG}/{self.results.log}"))
        whole = self._whole_from(manifest)
        return replace(
            stored_status,
            clock=None if clocks.query == MIN_TIME else clocks.query,
            gap=clocks.gap,
            rows={name: stored_status.rows.get(name, 0) for name in clocks.streams},
            late={name: stored_status.late.get(name, 0) for name in clocks.streams},
            timeless={name: stored_status.timeless.get(name, 0) for name in clocks.streams},
            shed={name: n for name, n in stored_status.shed.items() if name in clocks.streams},
            beyond={name: stored_status.beyond.get(name, 0) for name in clocks.streams},
            changes=manifest.properties["answers"].get(self.name, 0),
            last_changes=manifest.properties.get("last_answers", {}).get(self.name, 0),
            state_rows=sum(segment.rows for segment in state),
            state_bytes=sum(segment.bytes for segment in state),
            log_rows=sum(segment.rows for segment in log),
            log_bytes=sum(segment.bytes for segment in log),
            refreshes=tuple(manifest.properties.get(REFRESHES, {}).get(self.name, (0, 0))),
            null_keys={n: k for n, k in stored_status.null_keys.items() if n in clocks.streams},
            waiting_rows=waiting_rows(state),
            lag=None if clocks.query == MIN_TIME else now - clocks.query,
            rate=progress.rate,
            catch_up=progress.catch_up,
            batch_seconds=tuple(batch.seconds for batch in progress.batches),
            operators=operator_states(manifest, self._tasks()),
            warming_until=None if whole is None or whole < clocks.query else whole,
        )

    def _tasks(self) -> tuple[StagedTask, ...]:
        return self.runner.dataflow.stages.behind(self.name)

    def snapshot(self, as_of: int | str | None = None) -> pa.Table:
        """The answer at a closed instant (by default the last closed one), as Arrow."""
        self._need_view()
        with self.runner.repository.pin() as manifest:
            moment = self._closed_instant(manifest, as_of)
            rows = self._read(manifest, (MIN_TIME, moment + 1, moment))
            return rows.drop_columns([self.times.ts, self.times.exp])

    def snapshot_frame(self, as_of: int | str | None = None) -> DataFrame:
        """The answer at a closed instant as a Spark DataFrame, read by executors."""
        self._need_view()
        pin = self.runner.repository.pin()
        moment = self._closed_instant(pin.manifest, as_of)
        weakref.finalize(self, pin.release)
        frame = self._frame_of(pin.manifest, (MIN_TIME, moment + 1, moment))
        return frame.drop(self.times.ts, self.times.exp)

    def view(self, name: str, as_of: int | str | None = None) -> DataFrame:
        """The answer at a closed instant as a temporary view of the Spark session, for SQL.

        It shows that instant for as long as this handle lives, an hour at most; call it again for
        a later one.
        """
        frame = self.snapshot_frame(as_of)
        frame.createOrReplaceTempView(name)
        return frame

    def changes(self, since: int | str | None = None, until: int | str | None = None) -> pa.Table:
        """Results generated in ``[since, until)``; a view's have their lifetimes as known now."""
        with self.runner.repository.pin() as manifest:
            return self._read(manifest, self._bounds(since, until))

    def changes_frame(
        self, since: int | str | None = None, until: int | str | None = None
    ) -> DataFrame:
        """The same as ``changes`` as a Spark DataFrame, read by executors."""
        pin = self.runner.repository.pin()
        weakref.finalize(self, pin.release)
        return self._frame_of(pin.manifest, self._bounds(since, until))

    def change_batches(self) -> Iterator[pa.RecordBatch]:
        """All kept changes in bounded batches, for logs larger than memory."""
        with self.runner.repository.pin() as manifest:
            directory = self.runner.repository.directory
            yield from self.results.log_reader(directory, manifest, EVERYTHING).batches(directory)

    def _read(self, manifest: Manifest, extent: Extent) -> pa.Table:
        directory = self.runner.repository.directory
        return self.results.log_reader(directory, manifest, extent).table(directory)

    def _frame_of(self, manifest: Manifest, extent: Extent) -> DataFrame:
        reader = self.results.log_reader(self.runner.repository.directory, manifest, extent)
        return frame_of(reader, self.runner.spark, self.results.ddl(log=True))

    def _bounds(self, since: int | str | None, until: int | str | None) -> Extent:
        low = MIN_TIME if since is None else instant(since)
        return low, NEVER if until is None else instant(until), None

    def _closed_instant(self, manifest: Manifest, as_of: int | str | None) -> int:
        moment = closed_instant(as_of, self.results.clocks(manifest).query)
        history = format_micros(self.runner.settings.history)
        remedy = "start the query with a longer history"
        check_kept(manifest, self.name, moment, self.since, history, remedy)
        return moment

    def _need_view(self) -> None:
        sent = self.results.member.program.sent
        if sent is not None:
            raise InvalidSetting(
                f"the query sends {sent.name}; it has no answer to look at",
                "read changes(), or leave the stream operator out to keep a view",
            )

    def verify(self) -> VerifyReport:
        """Look into every file of the current version."""
        return verify(self.runner.repository)

    def vacuum(self) -> VacuumReport:
        """Remove what no kept version needs; the query must not be running a batch."""
        return vacuum(self.runner.repository, keep_versions=1, grace=0)

    # ── waiting and ending ────────────────────────────────────────────────────────────────

    def await_done(self, timeout: float | None = None) -> bool:
        """Wait until the input has ended (drain) or the query was stopped; False on timeout.

        An error of the query is raised here, as the Mayfly error it was.
        """
        if self.serving is not None and self.serving.thread != threading.get_ident():
            return self.serving.await_over(timeout)
        return self.await_stream(timeout)

    def await_stream(self, timeout: float | None = None) -> bool:
        """Wait for the end of the stream that runs now, whatever may start it anew."""
        if self.query is None:
            return True
        try:
            done = self._wait(timeout)
        except Exception as error:
            if self.runner.stopping:
                return True
            raise self._cause(error) from (None if self.runner.error else error)
        if done and self.drain and not self.runner.stopping:
            with suppress(Unfinished):
                self.runner.close_input()
        return bool(done)

    def stop(self) -> None:
        """Stop after the batch that is running; the next start goes on from there.

        The input has not ended, so its last instant stays open. Called by a sink of the query
        itself, it returns at once, and the query ends when its batch has.
        """
        if self.serving is not None:
            self.serving.stop()
        else:
            self.stop_stream()

    def stop_stream(self) -> None:
        """Stop the stream as it is, whatever may start it anew."""
        self.drain = False
        if self.runner.in_batch:
            self.runner.end_soon()
        elif self.query is not None:
            self.runner.finish_batch()
            self.query.stop()

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
